"""The log on a database, and the claim that a run makes on a session."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

import pytest

from stellwerk.database.port import Database, Transaction, locking, session_lock
from stellwerk.log.durable import DurableLog
from stellwerk.log.log import CreateSession, Lease
from stellwerk.log.notify import WakeUps
from tests.samples import TENANT


@dataclass
class Kept:
    """A log under test, and the claim that a run makes on a session's row."""

    log: DurableLog
    wakes: WakeUps
    claim: Callable[[str], Awaitable[int]]

    async def session(self, session_id: str = "s1", tenant: str = TENANT) -> Lease:
        """A new session, claimed."""
        await self.log.create(CreateSession(tenant, session_id, "demo", 1.0))
        return await self.take_over(session_id, tenant)

    async def take_over(self, session_id: str = "s1", tenant: str = TENANT) -> Lease:
        return Lease(tenant, session_id, "run", await self.claim(session_id))


@locking(lambda session_id: [session_lock(session_id)])
def _raise_epochs(tx: Transaction, sessions: Sequence[str]) -> list[int | Exception]:
    rows = [tx.row("raise_epoch", session_id, TENANT) for session_id in sessions]
    return [int(row[0]) for row in rows if row is not None]


def kept_in(database: Database, wakes: WakeUps) -> Kept:
    return Kept(DurableLog(database, wakes), wakes, lambda session_id: database.submit(_raise_epochs, session_id))


@pytest.fixture
def kept(database: Database) -> Kept:
    return kept_in(database, WakeUps())
