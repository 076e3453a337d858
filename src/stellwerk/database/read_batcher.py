"""Read batching: reads of one turn of the event loop share one trip to a reader thread.

Under load a trip costs more than the query: two threads compete for the interpreter. A read never
waits for an earlier batch, and a read that fails does not fail the others of its batch.
"""

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

from stellwerk.database.port import Database, Transaction

R = TypeVar("R")


class ReadBatcher:
    def __init__(self, database: Database) -> None:
        self._database = database
        self._pending: list[Callable[[Transaction], Any]] = []

    async def read(self, query: Callable[[Transaction], R]) -> R:
        if not self._pending:
            self._batch = asyncio.create_task(self._read_pending())
        batch = self._batch
        place = len(self._pending)
        self._pending.append(query)
        await asyncio.wait([batch])
        if batch.exception() is not None:
            return await self._database.read(query)
        found: R = batch.result()[place]
        return found

    async def _read_pending(self) -> list[Any]:
        queries = self._pending
        self._pending = []
        return await self._database.read(lambda tx: [query(tx) for query in queries])
