"""Group commit: the half of a database that lives on the event loop.

All bookkeeping happens on the loop; the writer thread only ever sees a batch that was handed to it.
So there is no lock, and a batch that fails on the writer thread fails its own jobs and nothing else.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future as Flight
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from stellwerk.database.port import Operation, P, R, Transaction
from stellwerk.errors import StorageClosed, StorageFull, StorageGone
from stellwerk.metrics import Histogram

_BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5)


@dataclass(frozen=True, slots=True)
class Job:
    operation: Operation[Any, Any]
    item: Any
    future: "asyncio.Future[Any]"
    urgent: bool


class GroupCommit(ABC):
    """``open`` it on the loop that uses it; ``close`` it there, too."""

    def __init__(self, name: str, *, readers: int) -> None:
        self.commit_seconds = Histogram("stellwerk_commit_seconds", "Seconds that a commit took.", bounds=_BOUNDS)
        self._pending: list[Job] = []
        self._waiting: list[Callable[[], None]] = []
        self._in_flight = False
        self._closing: asyncio.Future[None] | None = None
        self._writer = ThreadPoolExecutor(1, f"{name}-writer")
        self._readers = ThreadPoolExecutor(readers, f"{name}-reader")

    async def open(self) -> None:
        self._loop = asyncio.get_running_loop()
        await self._loop.run_in_executor(self._writer, self._open_writer)

    def submit(self, operation: Operation[P, R], item: P, *, urgent: bool = False) -> "asyncio.Future[R]":
        future: asyncio.Future[R] = self._loop.create_future()
        if self._closing is not None:
            future.set_exception(StorageClosed())
            return future
        if not self._pending and not self._in_flight:
            # Not at once: what else this turn of the loop submits shares the commit.
            self._loop.call_soon(self._take_off)
        self._pending.append(Job(operation, item, future, urgent))
        return future

    def when_free(self, call: Callable[[], None]) -> None:
        if self._in_flight:
            self._waiting.append(call)
        else:
            self._loop.call_soon(call)

    async def check(self) -> None:
        await self._loop.run_in_executor(self._readers, self._check)

    async def read(self, query: Callable[[Transaction], R]) -> R:
        return await self._loop.run_in_executor(self._readers, self._read, query)

    async def close(self) -> None:
        if self._closing is None:
            self._closing = self._loop.create_future()
            if not self._pending and not self._in_flight:
                self._closing.set_result(None)
        await asyncio.shield(self._closing)
        self._readers.shutdown()
        await self._loop.run_in_executor(self._writer, self._close_connections)
        self._writer.shutdown()

    # On the writer thread.

    @abstractmethod
    def _open_writer(self) -> None: ...

    @abstractmethod
    def _commit(self, batch: list[Job]) -> list[Any]:
        """All jobs in one transaction; an outcome per job, or an exception for the whole batch."""

    @abstractmethod
    def _close_connections(self) -> None: ...

    # On a reader thread.

    @abstractmethod
    def _check(self) -> None: ...

    @abstractmethod
    def _read(self, query: Callable[[Transaction], R]) -> R: ...

    # On the loop.

    def _take_off(self) -> None:
        if self._in_flight or not self._pending:
            return
        batch, self._pending = self._pending, []
        self._launch(batch)

    def _launch(self, batch: list[Job]) -> None:
        self._in_flight, self._took_off = True, self._loop.time()
        on_loop = self._loop.call_soon_threadsafe
        flight = self._writer.submit(self._commit, batch)
        flight.add_done_callback(lambda done: on_loop(self._landed, batch, done))

    def _landed(self, batch: list[Job], flight: Flight[list[Any]]) -> None:
        self._in_flight = False
        self.commit_seconds.add(self._loop.time() - self._took_off)
        failure = flight.exception()
        if failure is None:
            for job, outcome in zip(batch, flight.result(), strict=True):
                _settle(job, outcome)
        elif len(batch) > 1 and not isinstance(failure, StorageFull | StorageGone):
            # One bad item must not fail its neighbours: each again, alone.
            self._pending[:0] = batch[1:]
            self._launch(batch[:1])
            return
        else:
            for job in batch:
                _settle(job, failure)
        waiting, self._waiting = self._waiting, []
        for call in waiting:
            self._loop.call_soon(call)  # each for itself: one that raises must not stop the others
        # Behind them: what they hand over shares the next commit.
        self._loop.call_soon(self._take_off)
        if self._closing is not None and not self._pending and not self._closing.done():
            self._closing.set_result(None)


def applied(transaction: Transaction, batch: Sequence[Job], *, full: bool = False) -> Iterator[Any]:
    """The outcomes of the jobs; on a ``full`` disk, only urgent ones are admitted."""
    for (operation, admitted), jobs in groupby(batch, key=lambda job: (job.operation, job.urgent or not full)):
        items = [job.item for job in jobs]
        yield from operation(transaction, items) if admitted else [StorageFull() for _ in items]


def _settle(job: Job, outcome: Any) -> None:
    if job.future.done():  # the caller was cancelled; the write is committed
        return
    if isinstance(outcome, BaseException):
        job.future.set_exception(outcome)
    else:
        job.future.set_result(outcome)
