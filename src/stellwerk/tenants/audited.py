"""Audit entries in the transaction of what they record: a crash leaves both, or neither.

Who asks for something says what is to be recorded, and the first write that is worth it takes that along. A write that
is refused takes nothing along; what was not taken along is recorded by itself.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from stellwerk.database.port import Database, Operation, P, R, Transaction

Write = Callable[[Transaction], None]
"""Appends entries to their chains."""
Made = Callable[[Any], str]
"""The id of what an operation makes of an item."""


class Due:
    """What a request is to leave in the audit, as soon as something of it is stored."""

    def __init__(self, compose: Callable[[Mapping[str, str]], Write]) -> None:
        self._compose = compose
        self.ids: dict[str, str] = {}
        """That it is about, as far as those know who do it."""
        self._is_taken = self._is_over = False
        self.is_written = False

    @property
    def is_open(self) -> bool:
        """Whether a write may take it along."""
        return not self._is_taken and not self._is_over

    def take(self) -> Write:
        self._is_taken = True
        return self._compose(self.ids)

    def settle(self, done: "asyncio.Future[Any]") -> None:
        """What was refused has taken nothing along; a commit whose request was cancelled has its entry."""
        self.is_written = done.cancelled() or (done.exception() is None and done.result() is not False)
        self._is_taken = self.is_written

    def end(self) -> None:
        """What is done later does not belong to it."""
        self._is_over = True


_due: ContextVar[Due | None] = ContextVar("audit_due", default=None)


@contextmanager
def recording(due: Due) -> Iterator[None]:
    """What is done in here, and in tasks that it starts, may take this along; nothing that comes later."""
    before = _due.set(due)
    try:
        yield
    finally:
        _due.reset(before)
        due.end()


@contextmanager
def unrecorded() -> Iterator[None]:
    """What is done in here is a part of something else, which has the entry."""
    before = _due.set(None)
    try:
        yield
    finally:
        _due.reset(before)


def about(**ids: str) -> None:
    """The ids that the entry of this request is about, in addition to those of its address."""
    if (due := _due.get()) is not None:
        due.ids.update(ids)


@dataclass(frozen=True, slots=True)
class _Joined:
    operation: Operation[Any, Any]
    item: Any
    write: Write


class AuditedDatabase:
    """A database whose writes take along what is due.

    ``recorded`` are the operations that do so, each with a way to tell the id of what it makes, if it makes anything.
    """

    def __init__(self, database: Database, recorded: Mapping[Operation[Any, Any], Made | None]) -> None:
        self._database, self._recorded = database, recorded
        self.commit_seconds = database.commit_seconds
        self.when_free, self.truncate, self.close = database.when_free, database.truncate, database.close

    def submit(self, operation: Operation[P, R], item: P, *, urgent: bool = False) -> "asyncio.Future[R]":
        due = _due.get()
        if due is None or not due.is_open or operation not in self._recorded:
            return self._database.submit(operation, item, urgent=urgent)
        if (made := self._recorded[operation]) is not None:
            due.ids["made"] = made(item)
        future = self._database.submit(_join_many, _Joined(operation, item, due.take()), urgent=urgent)
        future.add_done_callback(due.settle)
        return future

    async def read(self, query: Callable[[Transaction], R]) -> R:
        return await self._database.read(query)


def _join_many(tx: Transaction, items: Sequence[_Joined]) -> list[Any]:
    outcomes: list[Any] = []
    for operation, group in groupby(items, key=lambda joined: joined.operation):
        outcomes += operation(tx, [joined.item for joined in group])
    for joined, outcome in zip(items, outcomes, strict=True):
        if outcome is not False and not isinstance(outcome, Exception):
            joined.write(tx)
    return outcomes
