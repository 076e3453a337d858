"""Old sessions take less room and nobody sees a difference; older ones are deleted, as if somebody had done it."""

from collections.abc import AsyncIterator
from io import BytesIO
from pathlib import Path
from typing import Any

import httpx2
import pytest
import structlog

from stellwerk.demo import demo_yaml
from stellwerk.ids import SystemClock
from stellwerk.log.compaction import Piece, compact_many
from stellwerk.log.transactions import Overtaken
from stellwerk.retention import RetentionJob
from stellwerk.settings import Settings
from stellwerk.spec.operator import RetentionOfAll
from stellwerk.tenants.principals import LOCAL_TENANT
from tests import stores
from tests.api.reading import without_origin
from tests.api.workflow_client import PATH, get
from tests.conftest import running_server
from tests.crash.waiting import eventually
from tests.runs.in_process import Gates, InProcessServer
from tests.runs.talking import answer, begin, events, rest_of_run, send
from tests.samples import StillClock

DAY = 24 * 3600.0
LINES = {"accept": "application/x-ndjson"}


@pytest.fixture
async def address(tmp_path: Path) -> AsyncIterator[str]:
    """With a demo that does not take its time, and whose words are stored one by one."""
    quick = tmp_path / "quick.yaml"
    quick.write_text(demo_yaml().replace("pace: 0.03", "pace: 0").replace("name: demo", "name: quick"))
    async with running_server(Settings(data=tmp_path / "data", window=0), own={"quick": str(quick)}) as found:
        yield found


async def talked(client: httpx2.AsyncClient) -> str:
    sid = await begin(client, "quick")
    for text in ("delegate", "ask", "plan", "table"):
        told = await rest_of_run(client, sid, (await send(client, sid, text))["after"])
        if told[-1]["payload"]["status"] == "awaiting_user":
            await rest_of_run(client, sid, (await answer(client, sid, text="red"))["after"])
    return sid


async def compact(tmp_path: Path, sid: str) -> int:
    """What the server does with old sessions, beside it."""
    saved = 0
    async with stores.opened(tmp_path / "data") as beside:
        while (piece := await beside.submit(compact_many, Piece(LOCAL_TENANT, sid, 1e12))) is not None:
            saved += piece
    return saved


async def projections(client: httpx2.AsyncClient, sid: str, last: int) -> dict[str, bytes]:
    """Whatever can be read of a session, by its address."""
    path = f"/sessions/{sid}"
    paths = [f"{path}{each}" for each in ("", "/messages", "/state", "/usage", "/artifacts", "/artifacts/todolist.md")]
    paths += [f"{PATH}/{sid}{each}" for each in ("", "/messages", "/logs")]
    for after in range(0, last, last // 2 or 1):
        paths += [f"{path}/stream?until=run_end&profile={profile}&after={after}" for profile in ("user", "debug")]
        paths += [
            f"{path}/stream?until=run_end&dialect={d}&after={after}" for d in ("chunks", "events", "chunks&live=1")
        ]
        paths += [f"{path}/events?profile=debug&limit=7&after={after}"]
    found = {each: (await client.get(each)).content for each in paths}
    return found | {
        f"{each} ndjson": (await client.get(each, headers=LINES)).content for each in paths if "user" in each
    }


@pytest.mark.requirement("trust.I5", "trust.I6")
async def test_whatever_is_read_of_a_compacted_session_is_what_it_was(
    client: httpx2.AsyncClient, tmp_path: Path
) -> None:
    sid = await talked(client)
    log = await events(client, sid)
    forked = (await client.post(f"/sessions/{sid}/fork")).json()["id"]
    before, size = await projections(client, sid, len(log)), stored_bytes(tmp_path, sid)
    saved = await compact(tmp_path, sid)
    assert await projections(client, sid, len(log)) == before
    assert stored_bytes(tmp_path, sid) == size - saved < size * 0.75, "words take less room, and all else what it took"
    fork = (await client.post(f"/sessions/{sid}/fork")).json()["id"]
    copies = [
        [{**one, "session_id": ""} for one in without_origin(await events(client, each))] for each in (fork, forked)
    ]
    assert copies[0] == copies[1]
    accepted = (await client.post(f"/sessions/{sid}/regenerate")).json()
    told = await rest_of_run(client, sid, accepted["after"])
    assert told[-1]["payload"]["status"] == "completed"
    await goes_without_its_words(client, fork, log[-1]["payload"]["result"])


async def goes_without_its_words(client: httpx2.AsyncClient, sid: str, said: str) -> None:
    """A message that is removed is taken out of packs, too."""
    last = [m["id"] for m in await get(client, sid, "/messages") if m["content"] == said]
    spoken = "".join(e["payload"].get("text", "") for e in await events(client, sid) if e["type"] == "llm_token")
    for message in last:
        assert (await client.delete(f"{PATH}/{sid}/messages/{message}")).status_code == 200
    told = await events(client, sid)
    left = "".join(e["payload"].get("text", "") for e in told if e["type"] == "llm_token")
    assert said in spoken and last
    assert said not in left
    assert [e["position"] for e in told] == list(range(1, len(told) + 1))


def stored_bytes(tmp_path: Path, sid: str) -> int:
    with stores.beside(tmp_path / "data") as stored:
        return int(stored.value("SELECT sum(length(body)) FROM event WHERE session_id = ?", sid))


async def look(backend: InProcessServer, days: float, **wanted: Any) -> None:
    """What would be done in so many days."""
    its = backend.services
    clock = StillClock(SystemClock().now() + days * DAY)
    kept = its.database, its.log, its.documents, its.sessions, its.audit
    await RetentionJob(*kept, RetentionOfAll(**wanted), clock).run_once()


async def told(backend: InProcessServer, text: str, *documents: str, **expected: Any) -> str:
    sid = await backend.begin()
    await backend.sessions.send(LOCAL_TENANT, sid, text, documents=documents)
    await backend.settled(sid, expected or {"is_over": True})
    return sid


async def listed(backend: InProcessServer) -> set[str]:
    return {session.id for session in await backend.sessions.list(LOCAL_TENANT, before=None, limit=100)}


def found(text: bytes, folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and text in path.read_bytes()]


async def upload(backend: InProcessServer, text: bytes) -> str:
    taken = await backend.services.documents.take(LOCAL_TENANT, BytesIO(text), filename="a.txt", mime=None)
    return taken.document_id


@pytest.mark.requirement("trust.I20")
async def test_a_session_that_nothing_has_happened_in_is_deleted_and_what_it_used_stays_known(
    backend: InProcessServer, gates: Gates, tmp_path: Path
) -> None:
    its = backend.services
    used, unused = await upload(backend, b"a canary that was sent"), await upload(backend, b"a canary that was not")
    over, asked = await told(backend, "hello", used), await told(backend, "ask", awaiting_user_input=True)
    working = await told(backend, "work", status="running")
    await gates.reached("work", 1)
    before = await its.quotas.usage_page(LOCAL_TENANT, days=2, after=0, limit=50)
    await look(backend, 89, delete_after="90d")
    await look(backend, 1000)
    await look(backend, 1000, delete_after="90d", tenants={LOCAL_TENANT: {"delete_after": "never"}})
    assert await listed(backend) == {over, asked, working}
    await look(backend, 91, delete_after="never", tenants={LOCAL_TENANT: {"delete_after": "90d"}})
    assert await listed(backend) == {working}, "what is at work is left alone, a question has had its time"
    assert not found(b"a canary", tmp_path)
    assert await its.documents.find(LOCAL_TENANT, unused) is None
    recorded = await its.audit.page(LOCAL_TENANT, after=0, limit=10)
    entries = [(entry.who, entry.what, *entry.on.values()) for entry in recorded]
    deleted = [("retention", "DELETE /sessions/{sid}", sid) for sid in (over, asked)]
    assert entries == [*deleted, ("retention", "DELETE /files/{file_id}", unused)]
    assert await its.quotas.usage_page(LOCAL_TENANT, days=2, after=0, limit=50) == before
    gates.open("work")
    await backend.settled(working, {"is_over": True})


async def test_a_session_in_which_something_happens_meanwhile_is_not_deleted(backend: InProcessServer) -> None:
    sid = await told(backend, "hello")
    seen = (await backend.sessions.find(LOCAL_TENANT, sid)).position
    await backend.sessions.send(LOCAL_TENANT, sid, "hello again")
    with pytest.raises(Overtaken):
        await backend.sessions.delete(LOCAL_TENANT, sid, position=seen)
    await backend.settled(sid, {"round": 2, "is_over": True})


async def test_the_server_does_by_itself_what_its_operator_wants(backend: InProcessServer, tmp_path: Path) -> None:
    kept, gone = await told(backend, "hello"), await told(backend, "hello")
    log = await backend.log(kept)
    await backend.down()
    with stores.beside(tmp_path / "0") as stored:
        stored.change("UPDATE event SET ts = 1 WHERE session_id = ?", gone)
        stored.change("UPDATE session SET created_at = 1 WHERE id = ?", gone)
        stored.change("UPDATE event SET ts = ts - 7200 WHERE session_id = ?", kept)
    with backend.config.open("a") as file:
        file.write("retention: {compact_after: 1h, delete_after: 90d, tenants: {nowhere: {delete_after: never}}}\n")
    with structlog.testing.capture_logs() as logged:
        await backend.up()
    unknown = [line["tenant"] for line in logged if line["event"] == "retention_of_unknown_tenant"]
    assert unknown == ["nowhere"]
    tally = backend.services.log.metrics
    await eventually(lambda: "_total 0" not in "".join(tally.expired.lines()), within=60, what="nothing was deleted")
    await eventually(lambda: "_total 0" not in "".join(tally.saved.lines()), within=60, what="nothing was compacted")
    assert await listed(backend) == {kept}
    assert await backend.log(kept) == log
