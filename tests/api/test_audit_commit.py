"""What is recorded is in the transaction of its record: whatever comes between, there is both or neither."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from websockets.asyncio.client import connect

from stellwerk.ops.offline import verified
from tests import stores
from tests.api.tenants import Shared, shared_server, using
from tests.crash.process import server_process
from tests.runs.talking import rest_of_run

SYSTEM = """
version: 1
system: {name: parrot}
agents:
- id: parrot
  mission: Say it again.
  model: {provider: scripted, script: [{steps: [{say: "{message}"}]}]}
"""
TABLES = ("session", "event", "run", "secret", "tenant", "tenant_limits", "system", "document", "tombstone")


def registering(at: Shared, text: str) -> Awaitable[httpx2.Response]:
    return at.acme.post("/agent-systems", content=text, headers={"Content-Type": "application/yaml"})


Ask = Callable[[Shared, dict[str, str]], Awaitable[httpx2.Response]]
"""Does one thing that the audit records; the ids are those of what there is."""
KINDS: dict[str, Ask] = {
    "POST /sessions": lambda at, _: at.acme.post("/sessions", json={"agent_system_id": "demo"}),
    "POST /sessions/{sid}/messages": lambda at, ids: at.acme.post(
        f"/sessions/{ids['idle']}/messages", json={"text": "hello"}
    ),
    "POST /sessions/{sid}/regenerate": lambda at, ids: at.acme.post(f"/sessions/{ids['said']}/regenerate"),
    "POST /sessions/{sid}/stop": lambda at, ids: at.acme.post(f"/sessions/{ids['asked']}/stop"),
    "POST /sessions/{sid}/answers": lambda at, ids: at.acme.post(
        f"/sessions/{ids['asked']}/answers", json={"text": "blue"}
    ),
    "POST /sessions/{sid}/fork": lambda at, ids: at.acme.post(f"/sessions/{ids['said']}/fork"),
    "DELETE /sessions/{sid}": lambda at, ids: at.acme.delete(f"/sessions/{ids['said']}"),
    "POST /stream-test": lambda at, _: at.acme.post(
        "/stream-test", json={"agent_system_id": "demo", "messages": [{"role": "user", "content": "hello"}]}
    ),
    "POST /api/workflows/start": lambda at, _: at.acme.post(
        "/api/workflows/start", json={"prompt": "hello", "agentSystemId": "demo"}
    ),
    "POST /api/workflows/{workflow_id}/stop": lambda at, ids: at.acme.post(f"/api/workflows/{ids['asked']}/stop"),
    "DELETE /api/workflows/{workflow_id}": lambda at, ids: at.acme.delete(f"/api/workflows/{ids['said']}"),
    "POST /agent-systems": lambda at, _: registering(at, SYSTEM),
    "DELETE /agent-systems/{system_id}": lambda at, _: at.acme.delete("/agent-systems/known"),
    "POST /files": lambda at, _: at.acme.post("/files", files={"file": ("b.txt", b"other bytes", "text/plain")}),
    "DELETE /files/{file_id}": lambda at, ids: at.acme.delete(f"/files/{ids['file']}"),
    "PUT /secrets/{name}": lambda at, _: at.acme.put("/secrets/token", json={"value": "Another-0815"}),
    "DELETE /secrets/{name}": lambda at, _: at.acme.delete("/secrets/stored"),
    "POST /secrets/rotation": lambda at, _: at.operator.post("/secrets/rotation"),
    "POST /keys": lambda at, _: at.acme.post("/keys", json={"name": "ci", "role": "reader"}),
    "DELETE /keys/{key_id}": lambda at, ids: at.acme.delete(f"/keys/{ids['key']}"),
    "POST /tenants": lambda at, _: at.operator.post("/tenants", json={"name": "third"}),
    "PUT /tenants/{name}/lock": lambda at, _: at.operator.put("/tenants/other/lock"),
    "DELETE /tenants/{name}/lock": lambda at, _: at.operator.delete("/tenants/other/lock"),
    "PUT /tenants/{name}/limits": lambda at, _: at.operator.put("/tenants/other/limits", json={"runs": 3}),
}
FROM_NOTHING = ("POST /stream-test", "POST /api/workflows/start")


async def furnished(at: Shared) -> dict[str, str]:
    """Something of each kind, so that all of them can be done."""
    ids = {}
    for name, text in (("idle", None), ("said", "hello"), ("asked", "ask")):
        ids[name] = sid = (await at.acme.post("/sessions", json={"agent_system_id": "demo"})).json()["id"]
        if text is not None:
            sent = await at.acme.post(f"/sessions/{sid}/messages", json={"text": text})
            await rest_of_run(at.acme, sid, sent.json()["after"])
    ids["file"] = (await at.acme.post("/files", files={"file": ("a.txt", b"some bytes", "text/plain")})).json()["id"]
    ids["key"] = (await at.acme.post("/keys", json={"name": "old", "role": "reader"})).json()["id"]
    assert (await registering(at, SYSTEM.replace("name: parrot", "name: known"))).is_success
    assert (await at.acme.put("/secrets/stored", json={"value": "Canary-4711"})).is_success
    return ids


@pytest.fixture
async def shared(tmp_path: Path) -> AsyncIterator[Shared]:
    async with shared_server(tmp_path / "data") as made:
        yield made


@contextmanager
def no_record(data: Path) -> Iterator[None]:
    """The audit cannot be written meanwhile."""
    with stores.beside(data) as tables:
        tables.refuse_rows("audit", "not now")
    yield
    with stores.beside(data) as tables:
        tables.accept_rows("audit")


def stored(data: Path) -> dict[str, list[Any]]:
    with stores.beside(data) as tables:
        found = {name: tables.rows(f"SELECT * FROM {name}") for name in tables.names() if name in TABLES}
        keys = tables.rows("SELECT id, tenant, name, revoked_at FROM api_key")
    return {**found, "api_key": keys}


@pytest.mark.requirement("004.security.audit-trail")
async def test_what_cannot_be_recorded_is_not_done(shared: Shared, tmp_path: Path) -> None:
    ids, done = await furnished(shared), list[str]()
    for what, ask in KINDS.items():
        before = stored(tmp_path / "data")
        with no_record(tmp_path / "data"):
            answer = await ask(shared, ids)
        assert answer.status_code >= 500, what
        after = stored(tmp_path / "data")
        if what in FROM_NOTHING:  # an empty session may stay, of which nobody was recorded
            before.pop("session"), after.pop("session")
        if after != before:
            done.append(what)
    assert done == []


@pytest.mark.requirement("004.security.audit-trail")
async def test_all_that_was_acknowledged_before_a_kill_is_recorded_once_with_its_ids(tmp_path: Path) -> None:
    data, done = tmp_path / "data", list[tuple[str, int]]()
    with server_process(data, errors=tmp_path / "errors") as server:
        async with httpx2.AsyncClient(base_url=server.address, timeout=60) as anybody:
            first = (await anybody.post("/keys", json={"name": "operator", "role": "admin"})).json()["token"]
        async with using(server.address, first) as operator:
            tokens = []
            for name in ("acme", "other"):
                await operator.post("/tenants", json={"name": name})
                wanted = {"name": "admin", "tenant": name, "role": "admin"}
                tokens.append((await operator.post("/keys", json=wanted)).json()["token"])
            async with using(server.address, tokens[0]) as acme, using(server.address, tokens[1]) as other:
                shared = Shared(server.address, operator, acme, other)
                ids = await furnished(shared)
                before = entries(data)
                for what, ask in KINDS.items():
                    if what not in ("POST /sessions/{sid}/answers", "DELETE /api/workflows/{workflow_id}"):
                        done.append((what, (await ask(shared, ids)).status_code))
                server.kill()
    assert [outcome for _, outcome in done if outcome >= 300] == []
    new = [each for each in entries(data) if each not in before]
    own = [(each["what"], each["outcome"]) for each in new if each["who"] != "operator"]
    assert sorted(own) == sorted(done)
    nameless = {each["what"] for each in new if not each["on"] and each["who"] != "operator"}
    assert nameless == {"POST /secrets/rotation"}
    assert [each.whole for each in verified(data, stores.secret_url(data))] == [True] * 4


def entries(data: Path) -> list[dict[str, Any]]:
    with stores.beside(data) as tables:
        rows = tables.rows("SELECT entry FROM audit ORDER BY tenant, number")
    return [{"on": {}, **json.loads(entry)} for (entry,) in rows]


@pytest.mark.requirement("004.security.audit-trail")
async def test_the_start_of_a_workflow_is_recorded_with_its_id_also_if_it_is_refused(shared: Shared) -> None:
    start = "/api/workflows/start"
    made = (await shared.acme.post(start, json={"prompt": "ask", "agentSystemId": "demo"})).json()["id"]
    await rest_of_run(shared.acme, made)
    assert (await shared.acme.post(start, json={"prompt": "blue"}, params={"id": made})).status_code == 200
    assert (await shared.acme.post(start, json={"prompt": "x"}, params={"id": "nowhere"})).status_code == 404
    assert (await shared.acme.post(start, json={"prompt": "x", "agentSystemId": "nowhere"})).status_code == 404
    recorded = (await shared.acme.get("/audit", params={"limit": 500})).json()["entries"]
    assert [(each["outcome"], each.get("on", {})) for each in recorded if each["what"] == f"POST {start}"] == [
        (200, {"made": made}),
        (200, {"workflow_id": made}),
        (404, {"workflow_id": "nowhere"}),
        (404, {}),
    ]


@pytest.mark.requirement("004.security.audit-trail")
async def test_a_message_that_interrupts_a_run_has_one_entry_and_a_refused_one_says_that_it_was_refused(
    shared: Shared,
) -> None:
    sid = (await shared.acme.post("/sessions", json={"agent_system_id": "demo"})).json()["id"]
    send = f"/sessions/{sid}/messages"
    assert (await shared.acme.post(send, json={"text": "slow"})).status_code == 202
    assert (await shared.acme.post(send, json={"text": "hello"})).status_code == 409
    assert (await shared.acme.post(send, json={"text": "hello", "if_busy": "interrupt"})).status_code == 202
    address = f"{shared.address.replace('http', 'ws')}/sessions/{sid}/ws"
    sent = [{"type": "message", "text": "weather", "if_busy": "interrupt"}, {"type": "answer", "text": "x"}]
    async with connect(address, additional_headers={"Authorization": shared.acme.headers["authorization"]}) as ws:
        for frame in sent:
            await ws.send(json.dumps(frame))
            while not {"ok", "problem"} & json.loads(await ws.recv()).keys():
                pass
    recorded = (await shared.acme.get("/audit", params={"limit": 500})).json()["entries"]
    assert [(each["what"], each["outcome"]) for each in recorded if each.get("on", {}).get("sid") == sid] == [
        ("POST /sessions/{sid}/messages", 202),
        ("POST /sessions/{sid}/messages", 409),
        ("POST /sessions/{sid}/messages", 202),
        ("message /sessions/{sid}/ws", 202),
        ("answer /sessions/{sid}/ws", 409),
    ]
