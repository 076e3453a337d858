"""Dispatch: accepted runs get a slot at once, or wait in order; the run table is the queue.

Whatever happens to a driver, its run does not stay open: a run whose task ends
without ending it is closed like one that a crash left behind.
"""

import asyncio
from collections.abc import Coroutine
from dataclasses import replace
from functools import partial
from math import inf
from typing import Any

import structlog
from msgspec import UNSET

from stellwerk.agents.turn import Pause
from stellwerk.database.patience import RETRY, patiently
from stellwerk.database.port import Operation, R
from stellwerk.errors import Fenced, StorageFull, StorageGone
from stellwerk.ids import AnchoredClock, Clock
from stellwerk.log.log import Lease
from stellwerk.runs import intake, tables
from stellwerk.runs.commands import Accepted, Command, Regenerate, Reply, Send, Stop, Stopped
from stellwerk.runs.intake import Intake
from stellwerk.runs.recovery import close, orphans
from stellwerk.runs.runner import Runner
from stellwerk.runs.stores import Stores
from stellwerk.runs.tables import Claimed

logger = structlog.get_logger(__name__)

_DRAIN = 4.0
"""Seconds that runs have to end their step when the server goes down."""
LONG = 900.0
"""Seconds after which the operator is told that a run is still under way."""
_GRACE = 3.0
"""Seconds that a driver has to end when it is cancelled; after that it is left to its fence."""


class Dispatch:
    def __init__(self, stores: Stores, runner: Runner, clock: Clock, *, slots: int, waiting: int) -> None:
        self._stores, self._database, self._log = stores, stores.database, stores.log
        self._runner, self._clock = runner, clock
        self._slots, self._depth = slots, waiting
        self._reserved = 0
        self._running: dict[str, tuple[asyncio.Task[bool], Pause, Lease]] = {}
        """By session, as a session has one run at a time."""
        self._clocks: dict[str, Clock] = {}
        """That of the run that is driven here, by session."""
        self._leaving: set[asyncio.Task[bool]] = set()
        """Drivers whose run is over for everybody but them; they hold no slot."""
        self._stopping: dict[tuple[str, str], asyncio.Task[Stopped]] = {}
        self._broken: set[str] = set()
        """Sessions whose run is being closed, as its driver ended before it did."""
        self._errands: set[asyncio.Task[Any]] = set()
        self._claiming = self._claim_again = False
        self._closing = False
        self._unsure = False
        """Something may have been stored of which nobody was told."""

    async def send(self, send: Send) -> Accepted:
        """Accept a message: when this returns, it is in the log and its run will end visibly."""
        # Shielded: what is stored is also started, even if whoever sent it is gone by then.
        return await asyncio.shield(self._errand(self._accept(intake.accept_many, send)))

    async def reply(self, reply: Reply) -> Accepted:
        """Accept the answer to a question, in the same way."""
        return await asyncio.shield(self._errand(self._accept(intake.reply_many, reply)))

    async def regenerate(self, regenerate: Regenerate) -> Accepted:
        return await asyncio.shield(self._errand(self._accept(intake.regenerate_many, regenerate)))

    async def stop(self, stop: Stop) -> Stopped:
        """End what the session does: when this returns, its run is over, whatever its driver still believes."""
        key = stop.tenant, stop.session_id
        task = self._stopping.get(key)
        if task is None:  # whoever comes second waits for the same end
            task = self._stopping[key] = self._errand(self._stop(stop))
            task.add_done_callback(lambda _: self._stopping.pop(key))
        return await asyncio.shield(task)

    async def recover(self) -> None:
        """Take up every run that a former process left behind, then those that wait."""
        for orphan in await orphans(self._database, self._clock):
            self._start(orphan)
        self.claim()

    async def close(self) -> None:
        """Stop driving. Runs end their step if they can, and go on at the next start, with the others."""
        self._closing = True
        for _, pause, _ in self._running.values():
            pause.request_drain()
        drivers = [task for task, *_ in self._running.values()]
        if under_way := [*drivers, *self._errands]:
            await asyncio.wait(under_way, timeout=_DRAIN)
        tasks = [*drivers, *self._leaving, *self._errands]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=_GRACE)

    async def abandon(self, session_id: str) -> None:
        """Stop driving the session's run, if there is one, without another word about it."""
        task = self._dismiss(session_id)
        self.claim()  # its slot is free
        if task is not None:
            await asyncio.wait([task], timeout=_GRACE)

    def claim(self) -> None:
        """Take up what waits, as far as there are slots."""
        self._claim_again = True  # whoever is looking now may have looked too early
        if not self._claiming and not self._closing:
            self._claiming = True
            self._errand(self._claim_waiting())

    async def _accept(self, operation: Operation[Any, intake.Taken], command: Command) -> Accepted:
        claim = len(self._running) + self._reserved < self._slots and not self._closing
        self._reserved += claim
        try:
            item = Intake(command, claim, self._depth, self._stores.quotas.limits(command.tenant))
            commit = self._log.commit(operation, item, command.session_id, lambda done: done.stored)
            taken = await self._heard(commit)
            if taken.claimed is not None:
                await self._take_up(taken.claimed)
        finally:
            self._reserved -= claim
            self.claim()  # a slot may have become free meanwhile, or was reserved for nothing
        return taken.answer

    async def _heard(self, commit: "asyncio.Future[R]") -> R:
        try:
            return await commit
        except StorageGone:
            self._unsure = True
            self.claim()
            raise

    async def _stop(self, stop: Stop) -> Stopped:
        clock = self._clocks.get(stop.session_id, self._clock)
        stop = replace(stop, at=clock.now())
        commit = self._log.commit(intake.stop_many, stop, stop.session_id, lambda done: done.stored, urgent=True)
        halted = await self._heard(commit)
        before, claimed = halted.status, halted.claimed
        self._dismiss(stop.session_id)
        stopped = partial(Stopped, withdrawn=halted.withdrawn or UNSET)
        if claimed is None:
            head = await self._log.head(stop.tenant, stop.session_id)
            return stopped(status=before.status, round=before.round, run_id=before.run_id, position=head.position)
        try:
            position = await patiently(partial(close, self._database, self._log, clock, claimed), inf)
        except Fenced:
            await self._log.head(stop.tenant, stop.session_id)  # says so, if it was deleted meanwhile
            raise
        self.claim()
        own = claimed.lease.run_id != before.run_id
        return stopped(status="stopped", round=before.round + own, run_id=claimed.lease.run_id, position=position)

    def _dismiss(self, session_id: str) -> "asyncio.Task[bool] | None":
        """Cancel a driver whose run has been taken from it; it may take its time."""
        task, *_ = self._running.pop(session_id, (None,))
        if task is not None:
            del self._clocks[session_id]
            self._leaving.add(task)
            task.add_done_callback(self._leaving.discard)
            task.cancel()
        return task

    async def _claim_waiting(self) -> None:
        try:
            while self._claim_again:
                self._claim_again = False
                while not self._closing:
                    free = max(0, self._slots - len(self._running) - self._reserved)
                    if not (free or self._unsure) or await self._claim_some(free) < free:
                        break
        finally:
            self._claiming = False

    async def _claim_some(self, free: int) -> int:
        try:
            if self._unsure:
                await self._release_unheard()
            if await self._database.read(lambda tx: tx.row("runs_waiting", 1)) is None:
                return 0
            claimed = await self._database.submit(tables.claim_many, (free, self._clock.now()))
        except (StorageFull, StorageGone):
            self._unsure = True
            await asyncio.sleep(RETRY)
            return free
        for run in claimed:
            await self._take_up(run)
        return len(claimed)

    async def _release_unheard(self) -> None:
        """Put runs back into the queue that were claimed by a commit whose answer did not come: nobody drives them."""
        self._unsure = False
        # Asked on the writer: whoever was told of a claim before has taken it up by now.
        running = await self._database.submit(tables.running_many, None, urgent=True)
        held = {lease for *_, lease in self._running.values()}
        busy = self._broken | {session_id for _, session_id in self._stopping}
        lost = [lease for lease in running if lease not in held and lease.session_id not in busy]
        # What they were before that claim is not known any more.
        items = [tables.Release(lease, self._clock.now(), paused=False) for lease in lost]
        releases = [self._database.submit(tables.release_many, item, urgent=True) for item in items]
        for lease in lost:
            logger.warning("run_unheard", session=lease.session_id, run=lease.run_id)
            self._dismiss(lease.session_id)
        await asyncio.gather(*releases)

    async def _take_up(self, claimed: Claimed) -> None:
        """Drive the run, or leave it to the next process if this one has begun to end meanwhile."""
        if self._closing:
            release = tables.Release(claimed.lease, self._clock.now(), paused=not claimed.cut_off)
            await self._database.submit(tables.release_many, release, urgent=True)
        else:
            self._start(claimed)

    def _start(self, claimed: Claimed) -> None:
        lease, pause, clock = claimed.lease, Pause(), AnchoredClock(self._clock)
        task = asyncio.create_task(self._runner.run(claimed, pause, clock), name=f"run {lease.run_id}")
        self._clocks[lease.session_id] = clock
        self._running[lease.session_id] = task, pause, lease
        watch = asyncio.get_running_loop().call_later(LONG, _lasts_long, lease)
        task.add_done_callback(lambda done: self._ended(lease, done))
        task.add_done_callback(lambda _: watch.cancel())

    def _ended(self, lease: Lease, task: "asyncio.Task[bool]") -> None:
        failure = None if task.cancelled() else task.exception()  # looked at in any case, or Python complains
        if task in self._leaving:
            return
        clock = self._clock
        if self._running.get(lease.session_id, (None,))[0] is task:  # the next run may have begun meanwhile
            del self._running[lease.session_id]
            clock = self._clocks.pop(lease.session_id)
        if self._closing:
            return
        if task.cancelled() or failure is not None or not task.result():
            logger.warning("driver_ended", session=lease.session_id, run=lease.run_id, exc_info=failure)
            self._broken.add(lease.session_id)
            self._errand(self._close_broken(lease, clock))
        self.claim()

    async def _close_broken(self, lease: Lease, clock: Clock) -> None:
        """Close a run whose driver ended before it did; nothing, if somebody else has seen to it."""
        reclaim = partial(self._database.submit, tables.reclaim_many, (lease, clock.now()), urgent=True)
        for orphan in await patiently(reclaim, inf):
            await patiently(partial(close, self._database, self._log, clock, orphan), inf)
        self._broken.discard(lease.session_id)
        self._unsure = True
        self.claim()

    def _errand(self, work: Coroutine[Any, Any, Any]) -> "asyncio.Task[Any]":
        """A task of our own that somebody holds, so that it is not lost half-way."""
        task = asyncio.create_task(work)
        self._errands.add(task)
        task.add_done_callback(self._errands.discard)
        return task


def _lasts_long(lease: Lease) -> None:
    logger.warning("run_lasts_long", session=lease.session_id, run=lease.run_id, seconds=LONG)
