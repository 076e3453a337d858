"""Reads of one turn of the event loop share a trip to a reader thread, and nothing of it outlives its callers."""

import asyncio
import gc
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

from stellwerk.database.port import Database, R, ReadBatcher, Transaction
from stellwerk.database.sqlite import Sqlite


class Found:
    """An object that can be referred to weakly."""


class Counted(Sqlite):
    trips = 0

    async def read(self, query: Callable[[Transaction], R]) -> R:
        self.trips += 1
        return await super().read(query)


def refuse(tx: Transaction) -> None:
    raise ValueError("refused")


async def test_reads_of_one_turn_share_a_trip_and_a_failure_stays_alone(tmp_path: Path) -> None:
    database = Counted(tmp_path / "test.db")
    await database.open()
    reads = ReadBatcher(database)
    assert list(await asyncio.gather(reads.read(lambda tx: 1), reads.read(lambda tx: 2))) == [1, 2]
    assert database.trips == 1
    one, refused, two = await asyncio.gather(
        reads.read(lambda tx: 1), reads.read(refuse), reads.read(lambda tx: 2), return_exceptions=True
    )
    assert (one, two) == (1, 2) and isinstance(refused, ValueError)
    await database.close()


async def test_a_read_that_fails_when_its_caller_is_gone_is_not_reported(database: Database) -> None:
    reads, go_on, reported = ReadBatcher(database), threading.Event(), list[dict[str, Any]]()
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: reported.append(context))

    def refuse_late(tx: Transaction) -> None:
        go_on.wait(10)
        raise ValueError("refused")

    cancelled = asyncio.create_task(reads.read(refuse_late))
    for _ in range(3):
        await asyncio.sleep(0)  # the trip is under way
    cancelled.cancel()
    await asyncio.wait([cancelled])
    del cancelled
    go_on.set()
    assert await reads.read(lambda tx: 3) == 3
    await asyncio.sleep(0.1)
    gc.collect()
    assert reported == []


async def test_results_are_not_held_until_the_next_read(database: Database) -> None:
    reads = ReadBatcher(database)
    found = weakref.ref(await reads.read(lambda tx: Found()))
    for _ in range(100):  # the reader thread lets go of it in its own time
        await asyncio.sleep(0.01)
        gc.collect()
        if found() is None:
            return
    raise AssertionError("the result is still held")
