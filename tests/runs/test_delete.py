"""A session is deleted while its run still keeps files: none of them stays."""

import asyncio
import gc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import pytest

from stellwerk.database.port import Database
from stellwerk.documents.files import FolderFiles
from stellwerk.documents.store import DocumentStore
from stellwerk.documents.todolists import Todolists
from stellwerk.envelope.introspection import make_blob
from stellwerk.errors import NotFound
from stellwerk.ids import SortableIds, SystemClock
from stellwerk.log.durable import DurableLog
from stellwerk.log.log import CreateSession
from stellwerk.log.notify import WakeUps
from stellwerk.runs.commands import Send
from stellwerk.runs.scheduler import Drive, Scheduler, SessionStorage
from stellwerk.runs.sessions import Sessions
from stellwerk.runs.systems import Systems
from stellwerk.tenants.quotas import TenantQuotas
from tests.agents.agent_runs import same_factory
from tests.crash.waiting import eventually
from tests.samples import TENANT


@dataclass
class OneSession:
    """The session ``s1``, and what it is stored in."""

    sessions: Sessions
    scheduler: Scheduler
    documents: DocumentStore
    folder: Path

    def files(self) -> list[Path]:
        return [path for path in self.folder.rglob("*") if path.is_file()]

    async def write_on(self, name: str) -> None:
        """Keep one file after another, for as long as there is a session."""
        for number in count():
            blob = make_blob(f"{name} {number}".encode(), mime="text/plain", filename="a.txt")
            await self.documents.keep(TENANT, "s1", [blob])


@asynccontextmanager
async def one_session(database: Database, folder: Path, drive: Drive) -> AsyncIterator[OneSession]:
    clock = SystemClock()
    documents = DocumentStore(database, FolderFiles(folder / "documents"), clock)
    log = DurableLog(database, WakeUps())
    storage = SessionStorage(database, log, documents, Todolists(folder), folder, TenantQuotas(database, clock))
    scheduler = Scheduler(storage, drive, clock, slots=1, waiting=1)
    sessions = Sessions(storage, Systems(database, same_factory, clock), scheduler, clock, SortableIds(clock))
    await log.create(CreateSession(TENANT, "s1", "demo", 1.0))
    yield OneSession(sessions, scheduler, documents, folder / "documents")
    await scheduler.close()


async def drives_nothing(*_: object) -> bool:
    raise AssertionError("no run was accepted")


@pytest.fixture
async def session(database: Database, tmp_path: Path) -> AsyncIterator[OneSession]:
    async with one_session(database, tmp_path, drives_nothing) as made:
        yield made


async def test_what_is_kept_while_the_session_is_deleted_does_not_stay(session: OneSession) -> None:
    writers = [asyncio.create_task(session.write_on(name)) for name in "abcd"]
    await eventually(lambda: len(session.files()) > 8, within=20, what="nobody writes")
    await session.sessions.delete(TENANT, "s1")
    ends = await asyncio.gather(*writers, return_exceptions=True)
    assert {type(end) for end in ends} == {NotFound}
    assert session.files() == []


async def test_a_file_whose_writer_was_cancelled_does_not_stay_either(session: OneSession) -> None:
    for turns in range(8):  # of the loop, until it is cancelled: somewhere between the first byte and the last row
        writer = asyncio.create_task(session.write_on(f"turn {turns}"))
        for _ in range(turns):
            await asyncio.sleep(0)
        writer.cancel()
        await asyncio.wait([writer])
    await session.sessions.delete(TENANT, "s1")
    await eventually(lambda: not session.files(), within=20, what=lambda: f"left: {session.files()}")


async def test_to_delete_what_is_not_there_is_refused(session: OneSession) -> None:
    with pytest.raises(NotFound, match="there is no session 's2'"):
        await session.sessions.delete(TENANT, "s2")


async def test_a_driver_that_fails_when_it_is_cancelled_affects_no_other(database: Database, tmp_path: Path) -> None:
    begun = asyncio.Event()
    complaints: list[str] = []

    async def fails(*_: object) -> bool:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            raise RuntimeError("it cannot let go")

    asyncio.get_running_loop().set_exception_handler(lambda _, about: complaints.append(about["message"]))
    hello = Send(
        tenant=TENANT,
        session_id="s1",
        run_id="run",
        at=1.0,
        text="hello",
        system="demo",
        system_version=1,
        message_id="m1",
    )
    async with one_session(database, tmp_path, fails) as session, asyncio.timeout(60):
        await session.scheduler.accept(hello)
        await begun.wait()
        await session.sessions.delete(TENANT, "s1")
    gc.collect()
    assert complaints == []
