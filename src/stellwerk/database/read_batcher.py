"""Read batching: reads of one turn of the event loop share one trip to a reader thread.

Under load a trip costs more than the query: two threads compete for the interpreter. A read never
waits for an earlier batch, and a read that fails does not fail the others of its batch.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from stellwerk.database.port import Database, Transaction

R = TypeVar("R")
_Read = tuple[Callable[[Transaction], Any], "asyncio.Future[Any]"]


class ReadBatcher:
    def __init__(self, database: Database) -> None:
        self._database = database
        self._pending: list[_Read] = []
        self._batches: set[asyncio.Task[None]] = set()

    async def read(self, query: Callable[[Transaction], R]) -> R:
        future: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        if not self._pending:
            batch = asyncio.create_task(self._run_pending())
            self._batches.add(batch)
            batch.add_done_callback(self._batches.discard)
        self._pending.append((query, future))
        return await future

    async def _run_pending(self) -> None:
        reads = self._pending
        self._pending = []
        await self._run(reads)

    async def _run(self, reads: Sequence[_Read]) -> None:
        batch = self._database.read(lambda tx: [query(tx) for query, _ in reads])
        found: list[Any] | BaseException = (await asyncio.gather(batch, return_exceptions=True))[0]
        if isinstance(found, BaseException) and len(reads) > 1:
            await asyncio.gather(*(self._run([read]) for read in reads))
            return
        for number, (_, future) in enumerate(reads):
            if future.done():  # the caller was cancelled
                continue
            if isinstance(found, BaseException):
                future.set_exception(found)
            else:
                future.set_result(found[number])
