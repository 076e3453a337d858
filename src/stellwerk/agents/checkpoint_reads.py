"""Reads that begin together share one trip to a reader thread.

Under load every trip costs more than the query: two threads take turns at the
interpreter, and many runs begin in the same turn of the loop. A read never
waits for one that began before it, and one that fails does not fail the others.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from stellwerk.database.port import Database, Transaction

R = TypeVar("R")
_Asked = tuple[Callable[[Transaction], Any], "asyncio.Future[Any]"]


class SharedReads:
    def __init__(self, database: Database) -> None:
        self._database = database
        self._asked: list[_Asked] = []
        self._trips: set[asyncio.Task[None]] = set()

    async def read(self, query: Callable[[Transaction], R]) -> R:
        future: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        if not self._asked:
            trip = asyncio.create_task(self._travel())
            self._trips.add(trip)
            trip.add_done_callback(self._trips.discard)
        self._asked.append((query, future))
        return await future

    async def _travel(self) -> None:
        asked, self._asked = self._asked, []
        await self._answer(asked)

    async def _answer(self, asked: Sequence[_Asked]) -> None:
        trip = self._database.read(lambda tx: [query(tx) for query, _ in asked])
        found: list[Any] | BaseException = (await asyncio.gather(trip, return_exceptions=True))[0]
        if isinstance(found, BaseException) and len(asked) > 1:
            await asyncio.gather(*(self._answer([alone]) for alone in asked))
            return
        for number, (_, future) in enumerate(asked):
            if future.done():  # whoever asked was cancelled
                continue
            if isinstance(found, BaseException):
                future.set_exception(found)
            else:
                future.set_result(found[number])
