"""API keys: what opens, what no longer does, and what is kept of them."""

import asyncio
import hashlib
from hmac import compare_digest
from pathlib import Path

import pytest

from stellwerk.database.port import Database
from stellwerk.errors import Conflict, NotFound
from stellwerk.tenants.keys import AT_MOST, ApiKeys
from stellwerk.tenants.principals import SCOPES, Principal
from tests import stores
from tests.samples import StillClock


@pytest.fixture
def clock() -> StillClock:
    return StillClock()


@pytest.fixture
async def keys(database: Database, clock: StillClock) -> ApiKeys:
    made = ApiKeys(database, clock)
    await made.open()
    return made


async def test_a_tenant_has_so_many_keys_and_those_that_are_valid_no_longer_make_room(
    keys: ApiKeys, database: Database, clock: StillClock
) -> None:
    first, _ = await keys.make(tenant="local", name="first", role="admin")
    second, token = await keys.make(tenant="local", name="second", role="admin")
    more = (keys.make(tenant="local", name=f"key {number}", role="admin") for number in range(2, AT_MOST))
    others = {key.id for key, _ in await asyncio.gather(*more)}
    with pytest.raises(Conflict, match=f"at most {AT_MOST} keys"):
        await keys.make(tenant="local", name="one more", role="admin")
    await keys.revoke("local", first.id)
    last, _ = await keys.make(tenant="local", name="one more", role="admin")
    assert {key.id for key in keys.of("local")} == {second.id, last.id, *others}
    again = ApiKeys(database, clock)
    await again.open()
    assert again.principal(token) is not None
    assert {key.id for key in again.of("local")} == {second.id, last.id, *others}


async def test_a_key_opens_for_its_tenant_its_user_and_its_role(keys: ApiKeys) -> None:
    assert not keys.asked_for
    key, token = await keys.make(tenant="local", name="ci", user="ada", role="member", scopes=("read",))
    who = keys.principal(token)
    assert who == Principal("local", "member", "ada", frozenset({"read"}), key.id)
    assert [who.may(scope) for scope in ("read", "run", "register", "administer")] == [True, False, False, False]
    assert keys.asked_for


async def test_what_is_not_a_key_opens_nothing(keys: ApiKeys) -> None:
    key, token = await keys.make(tenant="local", name="ci", role="admin")
    other = "A" if token[-1] != "A" else "B"
    for wrong in (
        "",
        "sw_",
        f"sw_{key.id}",
        f"sw_{key.id}_",
        token[:-1] + other,
        token + "x",
        f"{token} ",
        token.upper(),
    ):
        assert keys.principal(wrong) is None, wrong


async def test_whatever_is_shown_costs_one_digest_and_one_comparison_in_constant_time(
    keys: ApiKeys, monkeypatch: pytest.MonkeyPatch
) -> None:
    key, token = await keys.make(tenant="local", name="ci", role="admin")
    compared = list[tuple[int, int]]()

    def compare(a: bytes, b: bytes) -> bool:
        compared.append((len(a), len(b)))
        return compare_digest(a, b)

    monkeypatch.setattr("hmac.compare_digest", compare)
    for shown in (token, f"sw_{key.id}_{'0' * 43}", f"sw_{'0' * 12}_{'0' * 43}", "sw_", ""):
        keys.principal(shown)
    assert compared == [(32, 32)] * 5


async def test_of_a_secret_only_the_digest_is_kept(keys: ApiKeys, database: Database, tmp_path: Path) -> None:
    key, token = await keys.make(tenant="local", name="ci", role="admin")
    secret = token.rpartition("_")[2]
    await database.truncate()
    kept = b"".join(stores.contents(tmp_path).values())
    assert secret.encode() not in kept
    assert hashlib.sha256(secret.encode()).digest() in kept
    assert secret not in repr(key)


async def test_a_key_that_was_revoked_or_has_expired_opens_nothing_also_after_a_restart(
    keys: ApiKeys, database: Database, clock: StillClock
) -> None:
    revoked, first = await keys.make(tenant="local", name="a", role="admin")
    _, second = await keys.make(tenant="local", name="b", role="admin", expires_in=60)
    who, whose = keys.principal(first), keys.principal(second)
    assert who is not None
    assert whose is not None
    await keys.revoke("local", revoked.id)
    await keys.revoke("local", revoked.id)
    clock.pass_by(61)
    again = ApiKeys(database, clock)
    await again.open()
    for known in (keys, again):
        assert [known.principal(first), known.principal(second)] == [None, None]
        assert [known.holds(who), known.holds(whose)] == [False, False]
        assert known.asked_for


async def test_streams_are_looked_at_when_the_first_key_is_made_and_once_when_one_is_revoked(
    keys: ApiKeys, database: Database, clock: StillClock
) -> None:
    heard = list[bool]()
    keys.when_revoked(lambda: heard.append(True))
    key, token = await keys.make(tenant="local", name="a", role="admin")
    await keys.make(tenant="local", name="b", role="admin")
    assert len(heard) == 1
    earlier = ApiKeys(database, clock)
    await earlier.open()
    await earlier.revoke("local", key.id)  # as by a request that was cut off after it was stored
    for _ in range(2):
        await keys.revoke("local", key.id)
    assert keys.principal(token) is None
    assert len(heard) == 2


async def test_two_keys_of_one_name_are_valid_at_a_time(keys: ApiKeys) -> None:
    old, _ = await keys.make(tenant="local", name="ci", role="admin")
    await keys.make(tenant="local", name="ci", role="admin")
    with pytest.raises(Conflict, match="revoke the older one") as third:
        await keys.make(tenant="local", name="ci", role="admin")
    assert third.value.code == "two_keys_valid"
    await keys.revoke("local", old.id)
    await keys.make(tenant="local", name="ci", role="admin")


async def test_nobody_revokes_a_foreign_key_nor_makes_one_for_a_tenant_that_is_not_there(keys: ApiKeys) -> None:
    key, token = await keys.make(tenant="local", name="ci", role="admin")
    for tenant, key_id in (("acme", key.id), ("local", "nothing")):
        with pytest.raises(NotFound):
            await keys.revoke(tenant, key_id)
    assert keys.principal(token) is not None
    with pytest.raises(NotFound):
        await keys.make(tenant="acme", name="ci", role="admin")


async def test_it_is_known_when_a_key_was_used_last(keys: ApiKeys, database: Database, clock: StillClock) -> None:
    _, token = await keys.make(tenant="local", name="ci", role="admin")
    assert keys.of("local")[0].last_used is None
    clock.pass_by(5)
    keys.principal(token)
    used = keys.of("local")[0].last_used
    assert used is not None
    await keys.keep_uses()
    again = ApiKeys(database, clock)
    await again.open()
    assert again.of("local")[0].last_used == keys.of("local")[0].last_used == used


def test_a_key_can_be_given_less_than_its_role_and_never_more() -> None:
    for role, most in SCOPES.items():
        everything = frozenset({"read", "run", "register", "administer", "metrics"})
        who = Principal("acme", role, scopes=everything)  # type: ignore[arg-type]
        assert {scope for scope in everything if who.may(scope)} == most  # type: ignore[arg-type]
