"""The log on a real file, as the server composes it, with sessions to write to."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from stellwerk.database.port import OpenableDatabase
from stellwerk.database.sqlite import Sqlite
from stellwerk.ids import SortableIds, SystemClock
from stellwerk.log.durable import DurableLog
from stellwerk.log.log import CreateSession, Lease, LogEntry
from stellwerk.log.notify import WakeUps
from stellwerk.tenants.principals import LOCAL_TENANT

EVENT = LogEntry("llm_token", 1.0, b'{"type":"llm_token","ts":1.0,"payload":{"text":"' + b"x" * 148 + b'"}}')
"""A body of 200 bytes, which is what a few merged tokens make."""


@dataclass
class Writer:
    """Holds the lease of one session and counts its batches."""

    log: DurableLog
    session_id: str
    _batch_no: int = 0
    lease: Lease = field(init=False)

    def __post_init__(self) -> None:
        self.lease = Lease(LOCAL_TENANT, self.session_id, "benchmark", 0)

    async def append(self, entries: Sequence[LogEntry]) -> int:
        self._batch_no += 1
        return await self.log.append(self.lease, self._batch_no, entries)


@dataclass(frozen=True, slots=True)
class Store:
    database: OpenableDatabase
    log: DurableLog
    wakes: WakeUps
    ids: SortableIds

    async def begin(self) -> Writer:
        session_id = self.ids.new()
        await self.log.create(CreateSession(LOCAL_TENANT, session_id, "benchmark", 0.0))
        return Writer(self.log, session_id)


@asynccontextmanager
async def opened(folder: Path) -> AsyncIterator[Store]:
    clock = SystemClock()
    database = Sqlite(folder / "benchmark.db")
    await database.open()
    wakes = WakeUps()
    try:
        yield Store(database, DurableLog(database, wakes), wakes, SortableIds(clock))
    finally:
        await database.close()
