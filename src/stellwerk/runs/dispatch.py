"""Dispatch: accepted runs get a slot at once, or wait in order; the run table is the queue.

Whatever happens to a driver, its run does not stay open: a run whose task ends
without ending it is closed like one that a crash left behind.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any

import structlog

from stellwerk.database.port import Database
from stellwerk.envelope.frames import Stored
from stellwerk.errors import StorageFull, StorageGone
from stellwerk.ids import Clock
from stellwerk.log.durable import DurableLog
from stellwerk.log.log import Lease
from stellwerk.runs import tables
from stellwerk.runs.commands import Accepted, Send
from stellwerk.runs.recovery import close_broken
from stellwerk.runs.runner import Runner

logger = structlog.get_logger(__name__)

_RETRY = 1.0
"""Seconds between two looks at a disk that is full."""
_GRACE = 5.0
"""Seconds that a driver has to end when it is told to; after that it is left to its fence."""


class Dispatch:
    def __init__(
        self, database: Database, log: DurableLog, runner: Runner, clock: Clock, *, slots: int, waiting: int
    ) -> None:
        self._database, self._log, self._runner, self._clock = database, log, runner, clock
        self._slots, self._depth = slots, waiting
        self._reserved = 0
        self._running: dict[str, asyncio.Task[bool]] = {}
        """By session, as a session has one run at a time."""
        self._errands: set[asyncio.Task[Any]] = set()
        self._claiming = False
        self._closing = False

    async def send(self, send: Send) -> Accepted:
        """Accept a message: when this returns, it is in the log and its run will end visibly."""
        # Shielded: what is stored is also started, even if whoever sent it is gone by then.
        return await asyncio.shield(self._errand(self._accept(send)))

    async def close(self) -> None:
        """Stop driving. What was under way is found and closed at the next start."""
        self._closing = True
        tasks = [*self._running.values(), *self._errands]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=_GRACE)

    async def abandon(self, session_id: str) -> None:
        """Stop driving the session's run, if there is one, without another word about it."""
        task = self._running.get(session_id)
        if task is not None:
            task.cancel()
            await asyncio.wait([task], timeout=_GRACE)

    def claim(self) -> None:
        """Take up what waits, as far as there are slots."""
        if not self._claiming and not self._closing:
            self._claiming = True
            self._errand(self._claim_waiting())

    async def _accept(self, send: Send) -> Accepted:
        claim = len(self._running) + self._reserved < self._slots and not self._closing
        intake = tables.Intake(send, claim, self._depth)
        self._reserved += claim
        try:
            taken = await self._log.commit(tables.accept_many, intake, send.session_id, lambda done: done.stored)
            if taken.lease is not None:
                self._start(taken.lease, taken.stored)
        finally:
            self._reserved -= claim
            self.claim()  # a slot may have become free meanwhile, or was reserved for nothing
        return taken.answer

    async def _claim_waiting(self) -> None:
        try:
            while (free := self._slots - len(self._running) - self._reserved) > 0:
                if await self._claim_some(free) < free:
                    return
        finally:
            self._claiming = False

    async def _claim_some(self, free: int) -> int:
        if await self._database.read(lambda tx: tx.row("runs_waiting", 1)) is None:
            return 0
        try:
            claimed = await self._database.submit(tables.claim_many, free)
        except (StorageFull, StorageGone):
            await asyncio.sleep(_RETRY)
            return free
        for run in claimed:
            self._start(run.lease, run.beginning)
        return len(claimed)

    def _start(self, lease: Lease, beginning: list[Stored]) -> None:
        task = asyncio.create_task(self._runner.run(lease, beginning), name=f"run {lease.run_id}")
        self._running[lease.session_id] = task
        task.add_done_callback(lambda done: self._ended(lease, done))

    def _ended(self, lease: Lease, task: "asyncio.Task[bool]") -> None:
        if self._running.get(lease.session_id) is task:  # the session's next run may have begun meanwhile
            del self._running[lease.session_id]
        if self._closing:
            return
        if task.cancelled() or task.exception() is not None or not task.result():
            failure = None if task.cancelled() else task.exception()
            logger.warning("driver_ended", session=lease.session_id, run=lease.run_id, exc_info=failure)
            self._errand(self._close_broken(lease))
        self.claim()

    async def _close_broken(self, lease: Lease) -> None:
        while True:
            try:
                return await close_broken(self._database, self._log, self._clock, lease)
            except (StorageFull, StorageGone):
                await asyncio.sleep(_RETRY)

    def _errand(self, work: Coroutine[Any, Any, Any]) -> "asyncio.Task[Any]":
        """A task of our own that somebody holds, so that it is not lost half-way."""
        task = asyncio.create_task(work)
        self._errands.add(task)
        task.add_done_callback(self._errands.discard)
        return task
