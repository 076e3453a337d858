"""One suite, every log: a new back end joins as one more parameter."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from stellwerk.database.port import Transaction
from stellwerk.database.sqlite import Sqlite
from stellwerk.log.durable import DurableLog
from stellwerk.log.log import EventLog, Lease, NewSession
from stellwerk.log.memory import MemoryLog
from stellwerk.log.wake import Wakes
from tests.samples import TENANT


@dataclass
class Kept:
    """A log under test, and the claim that a run makes on a session's row."""

    log: EventLog
    wakes: Wakes
    claim: Callable[[str], Awaitable[int]]

    async def session(self, session_id: str = "s1", tenant: str = TENANT) -> Lease:
        """A new session, claimed."""
        await self.log.create(NewSession(tenant, session_id, "demo", 1.0))
        return await self.take_over(session_id, tenant)

    async def take_over(self, session_id: str = "s1", tenant: str = TENANT) -> Lease:
        return Lease(tenant, session_id, "run", await self.claim(session_id))


def _raise_epochs(tx: Transaction, sessions: Sequence[str]) -> list[int | Exception]:
    rows = [tx.row("raise_epoch", session_id, TENANT) for session_id in sessions]
    return [int(row[0]) for row in rows if row is not None]


@pytest.fixture(params=["memory", "sqlite"])
async def kept(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Kept]:
    wakes = Wakes()
    if request.param == "memory":
        memory = MemoryLog(wakes)
        yield Kept(memory, wakes, lambda session_id: memory.raise_epoch(TENANT, session_id))
        return
    database = Sqlite(tmp_path / "log.db")
    await database.open()
    log = DurableLog(database, wakes)
    yield Kept(log, wakes, lambda session_id: database.submit(_raise_epochs, session_id))
    await database.close()
