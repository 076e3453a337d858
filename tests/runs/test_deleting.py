"""A session is deleted while its run still keeps files: none of them stays."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import pytest

from stellwerk.database.sqlite import Sqlite
from stellwerk.documents.extraction import Extractor
from stellwerk.documents.store import DocumentStore
from stellwerk.documents.todolists import Todolists
from stellwerk.envelope.shapes import make_blob
from stellwerk.errors import NotFound
from stellwerk.ids import SortableIds, SystemClock
from stellwerk.log.durable import DurableLog
from stellwerk.log.log import NewSession
from stellwerk.log.tick import Tick
from stellwerk.log.wake import Wakes
from stellwerk.runs.dispatch import Dispatch
from stellwerk.runs.runner import Runner
from stellwerk.runs.sessions import Sessions
from stellwerk.runs.stores import Stores
from stellwerk.systems.registry import Systems
from stellwerk.tenants.quotas import Quotas
from tests.agents.driving import agents_of_anybody
from tests.crash.waiting import eventually
from tests.samples import TENANT


@dataclass
class House:
    sessions: Sessions
    documents: DocumentStore
    folder: Path

    def files(self) -> list[Path]:
        return [path for path in self.folder.rglob("*") if path.is_file()]

    async def write_on(self, name: str) -> None:
        """Keep one file after another, for as long as there is a session."""
        for number in count():
            blob = make_blob(f"{name} {number}".encode(), mime="text/plain", filename="a.txt")
            await self.documents.keep(TENANT, "s1", [blob])


@pytest.fixture
async def house(database: Sqlite, tmp_path: Path) -> AsyncIterator[House]:
    clock, folder = SystemClock(), tmp_path / "documents"
    log, documents = DurableLog(database, Wakes()), DocumentStore(database, folder, clock)
    systems = Systems(database, agents_of_anybody, clock)
    tick = Tick(asyncio.get_running_loop(), database.when_free)
    quotas = Quotas(database, clock)
    stores = Stores(database, log, documents, Extractor(documents), Todolists(tmp_path), tmp_path, quotas)
    runner = Runner(stores, systems, tick, window=0.1)
    dispatch = Dispatch(stores, runner, clock, slots=1, waiting=1)
    await log.create(NewSession(TENANT, "s1", "demo", 1.0))
    yield House(Sessions(stores, systems, dispatch, clock, SortableIds(clock)), documents, folder)
    await dispatch.close()


async def test_what_is_kept_while_the_session_is_deleted_does_not_stay(house: House) -> None:
    writers = [asyncio.create_task(house.write_on(name)) for name in "abcd"]
    await eventually(lambda: len(house.files()) > 8, within=20, what="nobody writes")
    await house.sessions.delete(TENANT, "s1")
    ends = await asyncio.gather(*writers, return_exceptions=True)
    assert {type(end) for end in ends} == {NotFound}
    assert house.files() == []


async def test_a_file_whose_writer_was_cancelled_does_not_stay_either(house: House) -> None:
    for turns in range(8):  # of the loop, until it is cancelled: somewhere between the first byte and the last row
        writer = asyncio.create_task(house.write_on(f"turn {turns}"))
        for _ in range(turns):
            await asyncio.sleep(0)
        writer.cancel()
        await asyncio.wait([writer])
    await house.sessions.delete(TENANT, "s1")
    await eventually(lambda: not house.files(), within=20, what=lambda: f"left: {house.files()}")


async def test_to_delete_what_is_not_there_is_refused(house: House) -> None:
    with pytest.raises(NotFound, match="there is no session 's2'"):
        await house.sessions.delete(TENANT, "s2")
