"""Dispatch: accepted runs get a slot at once, or wait in order; the run table is the queue."""

import asyncio

from stellwerk.database.port import Database
from stellwerk.envelope.frames import Stored
from stellwerk.errors import StorageFull, StorageGone
from stellwerk.log.durable import DurableLog
from stellwerk.log.log import Lease
from stellwerk.runs import tables
from stellwerk.runs.commands import Accepted, Send
from stellwerk.runs.runner import Runner

_RETRY = 1.0
"""Seconds between two looks at a disk that is full."""


class Dispatch:
    def __init__(self, database: Database, log: DurableLog, runner: Runner, *, slots: int, waiting: int) -> None:
        self._database, self._log, self._runner = database, log, runner
        self._slots, self._depth = slots, waiting
        self._reserved = 0
        self._running: dict[str, asyncio.Task[None]] = {}
        """By session, as a session has one run at a time."""
        self._claiming: asyncio.Task[None] | None = None
        self._closing = False

    async def send(self, send: Send) -> Accepted:
        """Accept a message: when this returns, it is in the log and its run will end visibly."""
        claim = len(self._running) + self._reserved < self._slots and not self._closing
        intake = tables.Intake(send, claim, self._depth)
        self._reserved += claim
        try:
            taken = await self._log.commit(tables.accept_many, intake, send.session_id, lambda done: done.stored)
        finally:
            self._reserved -= claim
        if taken.lease is not None:
            self._start(taken.lease, taken.stored)
        elif taken.stored:
            self._claim()  # a slot may have become free meanwhile
        return taken.answer

    async def close(self) -> None:
        """Stop driving. What was under way is found and closed at the next start."""
        self._closing = True
        if self._claiming is not None:
            self._claiming.cancel()
        for task in self._running.values():
            task.cancel()
        await asyncio.gather(*self._running.values(), return_exceptions=True)

    async def abandon(self, session_id: str) -> None:
        """Stop driving the session's run, if there is one, without another word about it."""
        task = self._running.get(session_id)
        if task is not None:
            task.cancel()
            await asyncio.wait([task])

    def resume_waiting(self) -> None:
        """Take up what a former process had accepted but not begun."""
        self._claim()

    def _start(self, lease: Lease, beginning: list[Stored]) -> None:
        task = asyncio.create_task(self._runner.run(lease, beginning), name=f"run {lease.run_id}")
        self._running[lease.session_id] = task
        task.add_done_callback(lambda done: self._ended(lease.session_id, done))

    def _ended(self, session_id: str, task: "asyncio.Task[None]") -> None:
        if self._running.get(session_id) is task:  # the session's next run may have begun meanwhile
            del self._running[session_id]
        self._claim()

    def _claim(self) -> None:
        if self._claiming is None and not self._closing:
            self._claiming = asyncio.create_task(self._claim_waiting(), name="claim")
            self._claiming.add_done_callback(self._claimed)

    def _claimed(self, _: "asyncio.Task[None]") -> None:
        self._claiming = None

    async def _claim_waiting(self) -> None:
        while (free := self._slots - len(self._running) - self._reserved) > 0:
            try:
                claimed = await self._database.submit(tables.claim_many, free)
            except (StorageFull, StorageGone):
                await asyncio.sleep(_RETRY)
                continue
            for lease, after in claimed:
                beginning = await self._log.read(lease.tenant, lease.session_id, after=after, limit=2)
                self._start(lease, beginning)
            if len(claimed) < free:
                return
