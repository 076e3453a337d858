"""A store that refuses for a while, or refuses one write: the run waits, and ends visibly in every case."""

import time
from pathlib import Path

import httpx2
import pytest

from stellwerk.app import Parts
from stellwerk.database.folder import DATABASE
from stellwerk.database.sqlite import Sqlite
from stellwerk.envelope.model import decode
from stellwerk.settings import Settings
from stellwerk.testing.order import order_problems
from stellwerk.timings import Timings
from tests import stores
from tests.crash import checks, many_readers, snapshot, wire
from tests.crash.disks import FullSqlite, NearlyFullSqlite
from tests.crash.inside import serving
from tests.crash.waiting import eventually

PATIENCE = 1
"""Seconds that a run waits here; thirty are usual."""
SOON = 30


def impatient(database: Sqlite) -> Parts:
    return Parts(database=lambda _: database, timings=Timings(storage_patience=PATIENCE))


async def status(client: httpx2.AsyncClient, session_id: str) -> str:
    return str((await client.get(f"/sessions/{session_id}")).json()["status"])


async def ended(client: httpx2.AsyncClient, session_id: str) -> None:
    async def is_over() -> bool:
        return await status(client, session_id) in ("completed", "failed", "stopped")

    await eventually(is_over, within=SOON, what="the run does not end, though the store works again")


async def legal_log(client: httpx2.AsyncClient, session_id: str) -> None:
    path = f"/sessions/{session_id}/stream?until=run_end&profile=debug"
    answer = await client.get(path, headers={"Accept": wire.NDJSON})
    assert order_problems(decode(frame.body(session_id)) for frame in wire.ndjson(answer.content)) == []


async def under_way(client: httpx2.AsyncClient, session_id: str) -> None:
    answer = await client.post(f"/sessions/{session_id}/messages", json={"text": "Tell me something."})
    assert answer.status_code == 202
    await client.get(f"/sessions/{session_id}/events", params={"after": answer.json()["position"] + 1, "wait": SOON})


@pytest.mark.requirement("trust.I10")
@pytest.mark.parametrize("seconds", [0.2, PATIENCE + 1], ids=["within its patience", "beyond its patience"])
@pytest.mark.only_sqlite
async def test_a_run_that_a_full_disk_held_up_ends_when_there_is_room(tmp_path: Path, seconds: float) -> None:
    database = FullSqlite(tmp_path / "data" / DATABASE)
    async with serving(Settings(data=tmp_path / "data"), impatient(database)) as server:
        async with httpx2.AsyncClient(base_url=server.address, timeout=60) as client:
            session_id = await many_readers.begin(client)
            await under_way(client, session_id)
            database.full = True
            await eventually(lambda: database.refusals > 0, within=SOON, what="nothing is written")
            since = time.monotonic()
            await eventually(lambda: time.monotonic() - since > seconds, within=SOON, what="time stands still")
            database.full = False
            await ended(client, session_id)
            await legal_log(client, session_id)


@pytest.mark.requirement("trust.I10")
@pytest.mark.only_sqlite
async def test_a_waiting_run_begins_when_there_is_room_though_its_slot_became_free_before(
    tmp_path: Path,
) -> None:
    database = NearlyFullSqlite(tmp_path / "data" / DATABASE)
    async with serving(Settings(data=tmp_path / "data", slots=1), impatient(database)) as server:
        async with httpx2.AsyncClient(base_url=server.address, timeout=60) as client:
            running, waiting = await many_readers.begin(client), await many_readers.begin(client)
            await under_way(client, running)
            assert (await client.post(f"/sessions/{waiting}/messages", json={"text": "weather"})).status_code == 202
            database.full = True
            assert (await client.delete(f"/sessions/{running}")).status_code == 204
            before = database.refusals
            await eventually(lambda: database.refusals > before, within=SOON, what="the slot is not offered")
            database.full = False
            await ended(client, waiting)


@pytest.mark.requirement("trust.I10")
async def test_a_run_whose_checkpoint_cannot_be_stored_ends_visibly(tmp_path: Path) -> None:
    settings = Settings(data=tmp_path / "data")
    async with serving(settings):
        pass  # makes the tables
    with stores.beside(settings.data) as stored:
        stored.refuse_rows("checkpoint", "not this one")
    async with serving(settings, Parts(timings=Timings(storage_patience=PATIENCE))) as server:
        async with httpx2.AsyncClient(base_url=server.address, timeout=60) as client:
            session_id = await many_readers.begin(client)
            assert (await client.post(f"/sessions/{session_id}/messages", json={"text": "Hello"})).status_code == 202
            await ended(client, session_id)
            assert await status(client, session_id) == "failed"
            await legal_log(client, session_id)
    found = snapshot.read(settings.data, tmp_path / "copy")
    assert list(checks.disagreeing_checkpoints(session_id, found)) == [], "it tells of a checkpoint that is not there"
