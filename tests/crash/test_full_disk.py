"""A full disk: reading and deleting go on, new work is refused, and nothing is half written."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx2
import pytest

from stellwerk import app
from stellwerk.envelope.model import RunEnd, RunStart, decode
from stellwerk.envelope.order import legal
from stellwerk.settings import Settings
from tests.crash import crowd, snapshot, wire
from tests.crash.disks import BoundedSqlite, SmallDisk, can_mount, small_disk
from tests.crash.inside import serving
from tests.crash.waiting import eventually

mounted = pytest.mark.skipif(not can_mount(), reason="no file system of our own can be mounted here")

MEGABYTES = 32
SOON = 30
"""Seconds for what takes one or two where nothing else happens."""


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    # One slot, so that one run is under way and the next one waits when the disk is full.
    with small_disk(tmp_path, megabytes=MEGABYTES, slots=1) as made:
        yield made


@pytest.fixture
async def client(disk: SmallDisk) -> AsyncIterator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(base_url=disk.server.address, timeout=60) as made:
        yield made


@mounted
@pytest.mark.requirement("trust.I22")
async def test_a_full_disk_refuses_work_and_keeps_everything_else_going(
    disk: SmallDisk, client: httpx2.AsyncClient, tmp_path: Path
) -> None:
    old, spare, running, waiting = [await crowd.begin(client) for _ in range(4)]
    history = await crowd.run(client, old)
    await crowd.run(client, spare)
    for session_id in (running, waiting):
        assert (await send(client, session_id)).status_code == 202
    await seen(client, running, "llm_token")
    ballast = disk.ballast()
    disk.fill()
    await work_until_refused(client)
    disk.fill(leaving=ballast)  # what the server has given up is for its urgent writes
    is_refusal(await send(client, old))
    await reading_goes_on(client, old, history)
    assert (await client.get("/healthz")).status_code == 200
    await not_ready_for(client, seconds=2)
    assert (await client.delete(f"/sessions/{spare}")).status_code == 204
    assert (await client.get(f"/sessions/{spare}")).status_code == 404
    disk.make_room()
    await accepted_again(client, old)
    for session_id in (old, running, waiting):
        await ended(client, session_id)
    await delete_others(client, {old, running, waiting})
    disk.server.stop()
    nothing_is_half_written(disk.root / "data", tmp_path)


async def send(client: httpx2.AsyncClient, session_id: str, text: str = "Tell me something.") -> httpx2.Response:
    return await client.post(f"/sessions/{session_id}/messages", json={"text": text})


async def seen(client: httpx2.AsyncClient, session_id: str, kind: str) -> None:
    async def is_there() -> bool:
        return f'"type":"{kind}"' in (await client.get(f"/sessions/{session_id}/events?profile=debug")).text

    await eventually(is_there, within=SOON, what=f"no {kind}")


async def work_until_refused(client: httpx2.AsyncClient) -> None:
    """New work until the first that finds no room: some may have been left in files that are there already."""
    async with asyncio.timeout(SOON):
        while True:
            answer = await client.post("/sessions", json={"agent_system_id": "demo"})
            if answer.status_code == 201:
                answer = await send(client, answer.json()["id"], "x" * 60_000)
            if answer.status_code not in (201, 202):
                return is_refusal(answer)


def is_refusal(answer: httpx2.Response) -> None:
    assert answer.status_code == 507, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["code"] == "storage_full"
    assert int(answer.headers["retry-after"]) > 0


async def reading_goes_on(client: httpx2.AsyncClient, session_id: str, history: list[bytes]) -> None:
    assert (await client.get(f"/sessions/{session_id}")).status_code == 200
    assert (await client.get("/sessions")).status_code == 200
    frames = [wire.frame(line) for line in history]
    for media_type, parse in wire.PARSERS.items():
        path = f"/sessions/{session_id}/stream?until=run_end&profile=debug"
        answer = await client.get(path, headers={"Accept": media_type})
        assert parse(answer.content) == frames
    page = (await client.get(f"/sessions/{session_id}/events?profile=debug")).json()["events"]
    assert [event["position"] for event in page[: len(frames)]] == [frame.position for frame in frames]


async def not_ready_for(client: httpx2.AsyncClient, *, seconds: float) -> None:
    """Nor at any moment between, as long as there is no room."""

    async def ready() -> bool:
        answer = await client.get("/readyz")
        assert answer.status_code in (200, 503, 507)
        return answer.status_code == 200

    with pytest.raises(AssertionError, match="it is not ready"):
        await eventually(ready, within=seconds, what="it is not ready")


async def accepted_again(client: httpx2.AsyncClient, session_id: str) -> None:
    async def takes_work() -> bool:
        return (await send(client, session_id, "weather")).status_code == 202

    await eventually(takes_work, within=SOON, what="there is room, and no work is accepted")
    assert (await client.get("/readyz")).status_code == 200


async def ended(client: httpx2.AsyncClient, session_id: str) -> None:
    async def is_over() -> bool:
        return (await client.get(f"/sessions/{session_id}")).json()["status"] in ("completed", "failed")

    await eventually(is_over, within=2 * SOON, what=f"the run of {session_id} does not end")


async def delete_others(client: httpx2.AsyncClient, kept: set[str]) -> None:
    for session in (await client.get("/sessions")).json()["sessions"]:
        if session["id"] not in kept:
            assert (await client.delete(f"/sessions/{session['id']}")).status_code == 204


def nothing_is_half_written(data: Path, folder: Path) -> None:
    found = snapshot.read(data, folder / "copy")
    assert found.integrity == ["ok"]
    for session_id, log in found.logs.items():
        assert [position for position, _ in log] == list(range(1, found.heads[session_id] + 1))
        story = [decode(body) for _, body in log]
        assert legal(story) == []
        assert sum(isinstance(e, RunStart) for e in story) == sum(isinstance(e, RunEnd) for e in story)


@mounted
async def test_one_session_after_the_other_can_be_deleted_on_a_full_disk(tmp_path: Path) -> None:
    with small_disk(tmp_path, megabytes=MEGABYTES) as disk:
        async with httpx2.AsyncClient(base_url=disk.server.address, timeout=60) as client:
            sessions = [await crowd.begin(client) for _ in range(5)]
            # Enough that deleting, too, needs more room than there is at first.
            await asyncio.gather(*(crowd.run(client, session_id, "x" * 60_000) for session_id in sessions[1:]))
            disk.fill()
            for session_id in sessions:
                answer = await client.delete(f"/sessions/{session_id}")
                assert answer.status_code == 204, answer.text


async def test_a_database_that_cannot_grow_refuses_work_until_there_is_room_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app, "Sqlite", BoundedSqlite)
    monkeypatch.setattr(BoundedSqlite, "made", [])
    async with serving(Settings(data=tmp_path / "data")) as server:
        async with httpx2.AsyncClient(base_url=server.address, timeout=60) as client:
            (database,) = BoundedSqlite.made
            old, running = [await crowd.begin(client) for _ in range(2)]
            history = await crowd.run(client, old)
            assert (await send(client, running)).status_code == 202
            await seen(client, running, "llm_token")
            database.full = True
            await work_until_refused(client)
            await reading_goes_on(client, old, history)
            assert (await client.get("/healthz")).status_code == 200
            database.full = False
            await accepted_again(client, old)
            for session_id in (old, running):
                await ended(client, session_id)
            await delete_others(client, {old, running})
    nothing_is_half_written(tmp_path / "data", tmp_path)
