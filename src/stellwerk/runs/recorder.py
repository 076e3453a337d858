"""The recorder: one run's way into the log.

Envelopes go in as they happen, are merged while they wait, and are appended
when due; at most one batch is under way. A slow disk therefore makes batches
larger and not more numerous, and what waits is text, not a queue of events.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import Any

from stellwerk.database.port import Operation, P, R, Transaction
from stellwerk.envelope.model import Envelope
from stellwerk.errors import StorageFull, StorageGone
from stellwerk.log import tables as log_tables
from stellwerk.log.durable import DurableLog
from stellwerk.log.log import Lease, entry, placed
from stellwerk.log.tables import Append
from stellwerk.log.tick import Tick
from stellwerk.runs.tables import Finish, finish_many
from stellwerk.stream.calls import OpenCalls
from stellwerk.stream.sampler import Sampler

PATIENCE = 30
"""Seconds that a run waits for a disk that is full or gone."""
_RETRY = 1.0


@dataclass(frozen=True, slots=True)
class _Companion:
    """A write that is committed together with a batch of envelopes."""

    append: Append
    operation: Operation[Any, Any]
    item: Any


def _append_with_companion(tx: Transaction, pairs: Sequence[_Companion]) -> list[int | Exception]:
    outcomes = _write_companions(tx, pairs)
    written = [n for n, outcome in enumerate(outcomes) if not isinstance(outcome, Exception)]
    for n, last in zip(written, log_tables.append_many(tx, [pairs[n].append for n in written]), strict=True):
        if isinstance(last, Exception):
            raise last  # its companion is written already: all of it must be rolled back
        outcomes[n] = last
    return outcomes


def _write_companions(tx: Transaction, pairs: Sequence[_Companion]) -> list[Any]:
    outcomes: list[Any] = []
    for operation, group in groupby(pairs, key=lambda pair: pair.operation):
        outcomes += operation(tx, [pair.item for pair in group])
    return outcomes


class Recorder:
    """``lost`` is called when the log takes nothing more from this run."""

    def __init__(self, log: DurableLog, tick: Tick, lease: Lease, *, window: float, lost: Callable[[], None]) -> None:
        self._log, self._tick, self._lease, self._lost = log, tick, lease, lost
        self._sampler = Sampler(window)
        self._batch_no = 0
        self._due: float | None = None
        self._landing: asyncio.Future[None] | None = None
        self.calls = OpenCalls()
        self.failure: BaseException | None = None

    def feed(self, envelope: Envelope) -> None:
        self._sampler.feed(envelope, self._tick.now())
        self._schedule()

    async def commit_with(self, operation: Operation[Any, Any], item: Any) -> None:
        """Commit the item in one transaction with all that was fed so far."""
        await self._clear()
        append = self._next_batch()
        if append.entries:
            await self._fly(append, _append_with_companion, _Companion(append, operation, item))
        else:
            session_id = self._lease.session_id
            await _patiently(lambda: self._log.commit(operation, item, session_id, lambda _: []))

    async def finish(self, last_words: Iterable[Envelope]) -> None:
        """Commit the last envelopes and the end of the run; nothing can follow."""
        await self._clear()
        # The last words are made only now: which calls are open depends on what was still waiting.
        stamped = [*self._take(), *map(self.calls.stamp, last_words)]
        append = self._batch(stamped)
        await self._fly(append, finish_many, Finish(append, stamped), urgent=True)

    def _schedule(self) -> None:
        due = self._sampler.due()
        if due is None or self._landing is not None or self.failure is not None:
            return
        if self._due is None or due < self._due:
            self._due = due
            if due <= self._tick.now():
                self._tick.soon(self._flush)
            else:
                self._tick.at(due, self._flush)

    def _flush(self) -> None:
        self._due = None
        if self._landing is None and self.failure is None and self._sampler.due() is not None:
            append = self._next_batch()
            if append.entries:
                self._landing = asyncio.get_running_loop().create_future()
                self._launch(append, patience=PATIENCE)

    def _take(self) -> list[Envelope]:
        return [self.calls.stamp(envelope) for envelope in self._sampler.take(self._tick.now())]

    def _next_batch(self) -> Append:
        return self._batch(self._take())

    def _batch(self, envelopes: Sequence[Envelope]) -> Append:
        self._batch_no += bool(envelopes)
        return Append(self._lease, self._batch_no, [entry(envelope) for envelope in envelopes])

    def _launch(self, append: Append, *, patience: float) -> None:
        future = self._log.append(append.lease, append.batch_no, append.entries)
        future.add_done_callback(partial(self._landed, append, patience))

    def _landed(self, append: Append, patience: float, future: "asyncio.Future[int]") -> None:
        error = future.exception()
        if isinstance(error, StorageFull | StorageGone) and patience > 0:
            again = partial(self._launch, append, patience=patience - _RETRY)
            asyncio.get_running_loop().call_later(_RETRY, again)
            return
        if error is not None:
            self.failure = error
            self._lost()
        self._open()

    async def _fly(self, append: Append, operation: Operation[P, int], item: P, *, urgent: bool = False) -> None:
        """As ``_launch``, for somebody who waits for it."""
        self._landing = asyncio.get_running_loop().create_future()
        stored = partial(placed, entries=append.entries)
        session_id = self._lease.session_id
        try:
            await _patiently(lambda: self._log.commit(operation, item, session_id, stored, urgent=urgent))
        finally:
            self._open()

    async def _clear(self) -> None:
        """Wait until nothing of ours is under way."""
        while self._landing is not None:
            await asyncio.shield(self._landing)
        if self.failure is not None:
            raise self.failure

    def _open(self) -> None:
        landing, self._landing = self._landing, None
        if landing is not None and not landing.done():
            landing.set_result(None)
        self._schedule()


async def _patiently(submit: Callable[[], Awaitable[R]]) -> R:
    for _ in range(int(PATIENCE / _RETRY)):
        try:
            return await submit()
        except (StorageFull, StorageGone):
            await asyncio.sleep(_RETRY)
    return await submit()
