"""Documents of two nodes on one PostgreSQL: neither removes what the other one refers to at the same moment."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from stellwerk.database.postgres import Postgres
from stellwerk.documents.files import FolderFiles
from stellwerk.documents.port import Place
from stellwerk.documents.store import DocumentStore
from stellwerk.envelope.introspection import make_blob
from stellwerk.log.durable import DurableLog
from stellwerk.log.log import CreateSession
from stellwerk.log.notify import WakeUps
from tests.database.conftest import Postgresql
from tests.samples import TENANT, SteadyClock

REPORT = make_blob(b"# Report", mime="text/markdown", filename="report.md")
ENOUGH = 0.5
"""Seconds in which a node that waits for nothing refers to a document."""


class SlowFiles(FolderFiles):
    """A place where the removal of a document takes as long as another node wants."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, is_shared=True)
        self.removing, self.done = asyncio.Event(), asyncio.Event()

    async def remove(self, places: Sequence[Place]) -> None:
        self.removing.set()
        await self.done.wait()
        await super().remove(places)


@pytest.fixture
async def databases(postgresql: Postgresql) -> AsyncIterator[list[Postgres]]:
    url = postgresql.new()
    opened = [Postgres(url) for _ in range(2)]
    for database in opened:
        await database.open()
    yield opened
    for database in opened:
        await database.close()


async def test_a_document_is_not_referred_to_while_another_node_removes_it(
    databases: list[Postgres], tmp_path: Path
) -> None:
    log = DurableLog(databases[0], WakeUps())
    for session_id in ("s1", "s2"):
        await log.create(CreateSession(TENANT, session_id, "demo", 1.0))
    slow = SlowFiles(tmp_path)
    one = DocumentStore(databases[0], slow, SteadyClock())
    other = DocumentStore(databases[1], FolderFiles(tmp_path, is_shared=True), SteadyClock())
    await one.keep(TENANT, "s1", [REPORT])
    await log.delete(TENANT, "s1", at=2.0)
    removing = asyncio.create_task(one.release(TENANT, [REPORT.document_id]))
    async with asyncio.timeout(60):
        await slow.removing.wait()
    keeping = asyncio.create_task(other.keep(TENANT, "s2", [REPORT]))
    await asyncio.wait([keeping], timeout=ENOUGH)
    slow.done.set()
    await asyncio.gather(removing, keeping)
    assert await other.read(TENANT, REPORT.document_id) == REPORT.data
