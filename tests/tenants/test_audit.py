"""The audit: a chain in which nothing can be changed unseen."""

import asyncio
from pathlib import Path
from types import SimpleNamespace

import pytest
from starlette.types import Receive, Scope, Send

from stellwerk.api.http.audit import AuditMiddleware
from stellwerk.database.folder import locked
from stellwerk.database.port import Database
from stellwerk.errors import SettingsError
from stellwerk.ops.offline import make_key, verified
from stellwerk.redaction.redactor import Redactors
from stellwerk.tenants.audit import REFUSALS, Action, Audit, ChainCheck, check_chain
from stellwerk.tenants.principals import Principal
from tests import stores
from tests.samples import StillClock

WHAT = "DELETE /sessions/{sid}"


async def filled(database: Database) -> Audit:
    audit = Audit(database, StillClock())
    for number in range(6):
        who = Principal("acme" if number % 2 else "local", "member", "ada")
        await audit.record(Action(who, WHAT, {"sid": "s1"}, "127.0.0.1"), 204)
    return audit


async def judged(database: Database, tenant: str) -> ChainCheck:
    return await database.read(lambda tx: check_chain(tx, tenant))


async def test_each_tenant_has_a_chain_that_counts_for_itself(database: Database) -> None:
    audit = await filled(database)
    page = await audit.page("acme", after=0, limit=2)
    assert [entry.number for entry in page] == [1, 2]
    assert [entry.number for entry in await audit.page("acme", after=2, limit=2)] == [3]
    assert (page[0].who, page[0].what, page[0].outcome, page[0].on) == ("ada", WHAT, 204, {"sid": "s1"})
    for tenant in ("acme", "local"):
        found = await judged(database, tenant)
        assert (found.entries, found.whole) == (3, True)


async def test_of_refusals_so_many_are_recorded_in_a_minute(database: Database) -> None:
    clock = StillClock()
    audit = Audit(database, clock)

    async def refuse(times: int) -> int:
        action = Action(Principal("acme", "reader", "ada"), WHAT, {})
        await asyncio.gather(*(audit.record(action, 403) for _ in range(times)))
        return len(await audit.page("acme", after=0, limit=500))

    assert await refuse(REFUSALS + 5) == REFUSALS
    await audit.record(Action(Principal("acme", "admin"), WHAT, {}), 204)
    clock.pass_by(60)
    assert await refuse(2) == REFUSALS + 3


async def test_a_name_that_somebody_asks_for_is_kept_without_his_secrets_and_not_at_any_length(
    database: Database,
) -> None:
    redactors = Redactors()
    redactors.set_secrets("acme", ["sk-canary-4711"])
    audit = Audit(database, StillClock(), redactors)
    asked = {"name": "sk-canary-4711", "sid": "x" * 60_000}
    await audit.record(Action(Principal("acme", "admin"), "DELETE /secrets/{name}", asked), 404)
    (entry,) = await audit.page("acme", after=0, limit=2)
    assert entry.on == {"name": "[redacted]", "sid": "x" * 200}


@pytest.mark.parametrize(
    ("tampering", "given", "seen_at"),
    [
        ("UPDATE audit SET entry = entry || entry WHERE tenant = 'acme' AND number = 2", [], 2),
        ("DELETE FROM audit WHERE tenant = 'acme' AND number = 1", [], 1),
        ("DELETE FROM audit WHERE tenant = 'acme' AND number = 2", [], 2),
        ("UPDATE audit SET tenant = 'acme', number = 4 WHERE tenant = 'local' AND number = 3", [], 4),
        ("UPDATE audit SET hash = ? WHERE tenant = 'acme' AND number = 3", [bytes(32)], 3),
    ],
)
async def test_whoever_changes_removes_or_moves_an_entry_is_found(
    database: Database, tmp_path: Path, tampering: str, given: list[bytes], seen_at: int
) -> None:
    await filled(database)
    with stores.beside(tmp_path / "test.db") as stored:
        assert stored.change(tampering, *given) == 1
    found = await judged(database, "acme")
    assert (found.entries, found.whole) == (seen_at - 1, False)


async def test_a_key_that_was_made_without_a_server_is_in_it(tmp_path: Path) -> None:
    data = tmp_path / "data"
    url = stores.secret_url(data)
    await make_key(data, {"name": "me", "role": "admin"}, url)
    with stores.beside(data) as stored:
        stored.change("INSERT INTO tenant (name, created_at) VALUES ('acme', 1)")
    with locked(data), pytest.raises(SettingsError, match="leave out --data, and it makes the key"):
        await make_key(data, {"name": "theirs", "tenant": "acme"}, url)
    await make_key(data, {"name": "theirs", "tenant": "acme"}, url)
    found = [(each.tenant, each.entries, each.whole) for each in verified(data, url)]
    assert found == [("acme", 1, True), ("local", 2, True)]


async def test_a_chain_that_was_removed_whole_is_found(tmp_path: Path) -> None:
    data = tmp_path / "data"
    url = stores.secret_url(data)
    await make_key(data, {"name": "me", "role": "admin"}, url)
    with stores.beside(data) as stored:
        stored.change("INSERT INTO tenant (name, created_at) VALUES ('acme', 0)")
    assert {each.tenant: each.whole for each in verified(data, url)} == {"acme": False, "local": True}
    key, _ = await make_key(data, {"name": "ada", "tenant": "acme"}, url)
    assert {each.tenant: (each.entries, each.whole) for each in verified(data, url)} == {
        "acme": (1, True),
        "local": (2, True),
    }
    assert key.tenant == "acme"


async def test_what_fails_by_a_bug_of_ours_is_in_the_audit_too(database: Database) -> None:
    async def broken(scope: Scope, receive: Receive, send: Send) -> None:
        raise ZeroDivisionError

    audit = Audit(database, StillClock())
    app = SimpleNamespace(state=SimpleNamespace(audit=audit))
    asked = {"type": "http", "method": "DELETE", "app": app, "route": SimpleNamespace(path="/keys/{key_id}")}
    scope = {**asked, "path_params": {"key_id": "k"}, "principal": Principal("acme", "admin")}
    with pytest.raises(ZeroDivisionError):
        await AuditMiddleware(broken)(scope, None, None)  # type: ignore[arg-type]
    (entry,) = await audit.page("acme", after=0, limit=2)
    assert (entry.what, entry.outcome, entry.on) == ("DELETE /keys/{key_id}", 500, {"key_id": "k"})
