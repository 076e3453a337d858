"""A deleted session leaves a tombstone and nothing else, also if the server ended in the middle of it."""

from pathlib import Path

import pytest

from stellwerk.database.port import Database, Transaction
from stellwerk.log import transactions
from stellwerk.log.durable import DurableLog
from stellwerk.log.log import CreateSession, Lease, LogEntry
from stellwerk.log.notify import WakeUps
from tests import stores
from tests.samples import TENANT

pytestmark = pytest.mark.both_stores

CANARY = b"canary-of-a-deleted-session"


async def filled(database: Database) -> DurableLog:
    log = DurableLog(database, WakeUps())
    await log.create(CreateSession(TENANT, "s1", "demo", 1.0))
    await log.append(Lease(TENANT, "s1", "run", 0), 1, [LogEntry("log", 1.0, CANARY) for _ in range(500)])
    return log


def places_with(text: bytes, folder: Path) -> list[str]:
    return [name for name, data in stores.contents(folder).items() if text in data]


def left(tx: Transaction) -> tuple[int, list[tuple[object, ...]]]:
    return len(tx.rows("read_events", "s1", 0, TENANT, 1000)), tx.rows("unswept")


async def test_no_byte_of_it_stays_in_the_files_or_the_tables(database: Database, tmp_path: Path) -> None:
    log = await filled(database)
    assert places_with(CANARY, tmp_path)
    await log.delete(TENANT, "s1", at=2.0)
    assert places_with(CANARY, tmp_path) == []


async def test_a_deletion_that_was_cut_off_is_finished_by_the_next_process(database: Database, tmp_path: Path) -> None:
    await filled(database)
    await database.submit(transactions.delete_many, transactions.Deletion(TENANT, "s1", 2.0))
    await database.submit(transactions.sweep_many, (TENANT, "s1"))
    assert (await database.read(left))[1] == [(TENANT, "s1")]
    await DurableLog(database, WakeUps()).heartbeat()
    assert await database.read(left) == (0, [])
    assert places_with(CANARY, tmp_path) == []
