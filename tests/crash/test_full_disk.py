"""A full disk: reading and deleting go on, new work is refused, and nothing is half written."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx2
import pytest

from stellwerk.app import Parts
from stellwerk.database.folder import DATABASE
from stellwerk.settings import Settings
from tests.crash import many_readers
from tests.crash.disks import BoundedSqlite, SmallDisk, small_disk
from tests.crash.full_disk import (
    MEGABYTES,
    accepted_again,
    delete_others,
    ended,
    is_refusal,
    mounted,
    not_ready_for,
    nothing_is_half_written,
    reading_goes_on,
    seen,
    send,
    work_until_refused,
)
from tests.crash.inside import serving

pytestmark = pytest.mark.only_sqlite


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
    old, spare, running, waiting = [await many_readers.begin(client) for _ in range(4)]
    history = await many_readers.run(client, old)
    await many_readers.run(client, spare)
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


@mounted
async def test_one_session_after_the_other_can_be_deleted_on_a_full_disk(tmp_path: Path) -> None:
    with small_disk(tmp_path, megabytes=MEGABYTES) as disk:
        async with httpx2.AsyncClient(base_url=disk.server.address, timeout=60) as client:
            sessions = [await many_readers.begin(client) for _ in range(5)]
            # Enough that deleting, too, needs more room than there is at first.
            await asyncio.gather(*(many_readers.run(client, session_id, "x" * 60_000) for session_id in sessions[1:]))
            disk.fill()
            for session_id in sessions:
                answer = await client.delete(f"/sessions/{session_id}")
                assert answer.status_code == 204, answer.text


async def test_a_database_that_cannot_grow_refuses_work_until_there_is_room_again(
    tmp_path: Path,
) -> None:
    database = BoundedSqlite(tmp_path / "data" / DATABASE)
    async with serving(Settings(data=tmp_path / "data"), Parts(database=lambda _: database)) as server:
        async with httpx2.AsyncClient(base_url=server.address, timeout=60) as client:
            old, running = [await many_readers.begin(client) for _ in range(2)]
            history = await many_readers.run(client, old)
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
