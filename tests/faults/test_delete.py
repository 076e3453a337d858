"""A deleted session leaves a tombstone and nothing else, whoever still works for it."""

from pathlib import Path

import httpx2
import pytest

from tests import stores
from tests.api.reading import whole_round
from tests.crash.waiting import eventually
from tests.faults.conftest import FaultServer
from tests.runs.talking import answer, begin, events, rest_of_run, seen, send

CANARY = "canary-4711-of-a-deleted-session"
"""Said in the message, and so also in tool arguments, a result, a file, its name, the checklist and a question."""


def places_with(text: str, folder: Path) -> list[str]:
    return [name for name, data in stores.contents(folder).items() if text in name or text.encode() in data]


def rows_about(data: Path, sid: str) -> dict[str, int]:
    """In how many rows of which tables the session is named."""
    with stores.beside(data) as stored:
        rows = {table: stored.rows(f"SELECT * FROM {table}") for table in stored.names()}
    named = {table: sum(sid in map(str, row) for row in found) for table, found in rows.items()}
    return {table: count for table, count in named.items() if count}


def has_lists() -> bool:
    """On PostgreSQL no files are written."""
    return isinstance(stores.current(), stores.SqliteStore)


async def led(client: httpx2.AsyncClient, faulty: FaultServer) -> str:
    """A session that has left everything that a session can leave, with a question open."""
    sid = await begin(client, "faulty")
    await whole_round(client, sid, f"keep {CANARY}")
    key = {"Idempotency-Key": f"key {CANARY}"}
    refused = await client.post(f"/sessions/{sid}/answers", json={"text": CANARY, "ask_id": "no"}, headers=key)
    assert refused.status_code == 409
    given = await client.post(f"/sessions/{sid}/answers", json={"text": CANARY}, headers=key)
    await rest_of_run(client, sid, given.json()["after"])
    todolist = faulty.data / "lists" / f"todolist_{sid}.md"
    if has_lists():
        await eventually(todolist.exists, within=60, what="there is no to-do list")
    return sid


@pytest.mark.requirement("trust.I20")
async def test_nothing_of_a_deleted_session_can_be_found_in_any_file(faulty: FaultServer) -> None:
    async with faulty.served() as client:
        sid, other = await led(client, faulty), await begin(client, "faulty")
        (file,) = [a["href"] for a in (await client.get(f"/sessions/{sid}/artifacts")).json()["artifacts"][1:]]
        assert (await client.get(file)).text.count(CANARY)
        before = places_with(CANARY, faulty.data)
        assert f"lists/todolist_{sid}.md" in before and len(before) >= 3, "database, list and file"
        kept = await whole_round(client, other, "hello")
        assert (await client.delete(f"/sessions/{sid}")).status_code == 204
        assert places_with(CANARY, faulty.data) == []
        assert rows_about(faulty.data, sid) == {}
        await every_address_is_404(client, sid, file)
        assert (await events(client, other))[-1]["position"] == kept[-1]["position"]
    assert places_with(CANARY, faulty.data) == []
    with stores.beside(faulty.data) as stored:
        (tombstone,) = stored.rows("SELECT hash, tenant, deleted_at, events, remains FROM tombstone")
    assert tombstone[-1] is None and sid not in map(str, tombstone), "a hash, when, by whom and how many events"


async def every_address_is_404(client: httpx2.AsyncClient, sid: str, file: str) -> None:
    routes = (await client.get("/openapi.json")).json()["paths"]
    asked = [(method, path) for path, methods in routes.items() for method in methods if "{sid}" in path]
    assert len(asked) > 12
    bodies = {"messages": {"text": "hi"}, "answers": {"text": "hi"}, "state": {"values": {"note": "hi"}}}
    for method, path in asked:
        body = bodies.get(path.rpartition("/")[2]) if method == "post" else None
        if method == "patch":
            body = {"context": {"note": "hi"}}
        answer = await client.request(method.upper(), path.replace("{sid}", sid), json=body)
        assert answer.status_code == 404, (method, path, answer.text)
    assert (await client.get(file)).status_code == 404


@pytest.mark.requirement("fault-59", "trust.I20")
@pytest.mark.parametrize("word", ["hold", "block"])
async def test_a_session_that_is_deleted_in_mid_run_stays_deleted_whatever_its_run_still_does(
    faulty: FaultServer, word: str
) -> None:
    async with faulty.served() as client:
        sid = await begin(client, "faulty")
        await whole_round(client, sid, f"aside {CANARY}")
        answered = await answer(client, sid, text=CANARY)
        await rest_of_run(client, sid, answered["after"])
        await send(client, sid, f"{word} {CANARY}")
        await send(client, sid, f"later {CANARY}", if_busy="enqueue")
        await seen(client, sid, "tool_start", count=3)
        await faulty.has_noted(word)
        assert (await client.delete(f"/sessions/{sid}")).status_code == 204
        faulty.open_gate()
        if word == "block":
            await faulty.has_noted("block is done")
        # Another round of the same agent comes behind whatever the late result could have brought about.
        await whole_round(client, await begin(client, "faulty"), "hello")
        assert (await client.get(f"/sessions/{sid}")).status_code == 404
        assert (await client.post(f"/sessions/{sid}/messages", json={"text": "hi"})).status_code == 404
    assert rows_about(faulty.data, sid) == {}
    assert places_with(CANARY, faulty.data) == []
