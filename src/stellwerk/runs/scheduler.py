"""The scheduler: which run starts next, at once or when a slot is free; its queue is a table.

Every run ends, whatever happens to its driver: a run whose task ended too early
is closed like one that a crash interrupted.
"""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import aclosing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import structlog
from msgspec import UNSET

from stellwerk.agents.runtime.context import Pause
from stellwerk.cluster.member import Member
from stellwerk.database.port import Database, R, retry_storage
from stellwerk.documents.store import DocumentStore
from stellwerk.documents.todolists import Todolists
from stellwerk.envelope.model import decode
from stellwerk.errors import Fenced, StorageFull, StorageGone
from stellwerk.ids import AnchoredClock, Clock
from stellwerk.log.durable import DurableLog
from stellwerk.log.log import Lease
from stellwerk.log.transactions import unknown_session
from stellwerk.runs import transactions
from stellwerk.runs.accept import accept_many, stop_many
from stellwerk.runs.commands import Accepted, RunCommand, Stop, Stopped
from stellwerk.runs.resume import close
from stellwerk.runs.transactions import ClaimedRun
from stellwerk.tenants.quotas import TenantQuotas
from stellwerk.timings import Timings

logger = structlog.get_logger(__name__)

Drive = Callable[[ClaimedRun, Pause, Clock], Coroutine[Any, Any, bool]]
"""Drives a run to its end, or until it is paused; False if the run was not ended."""

_RUN_END = b'{"type":"run_end"'
_GRACE = 3.0
"""Seconds in which a cancelled driver may end; after that only its fence holds it."""


@dataclass(frozen=True, slots=True)
class SessionStorage:
    """Everything that holds data of a session."""

    database: Database
    log: DurableLog
    documents: DocumentStore
    todolists: Todolists
    data: Path
    """The folder that all of them are in."""
    quotas: TenantQuotas
    timings: Timings = Timings()


class _Driver(NamedTuple):
    task: "asyncio.Task[bool]"
    pause: Pause
    lease: Lease
    clock: Clock


class Scheduler:
    def __init__(
        self,
        storage: SessionStorage,
        drive: Drive,
        clock: Clock,
        *,
        slots: int,
        waiting: int,
        node: Member | None = None,
    ) -> None:
        self._storage = storage
        self._node = node
        self._database = storage.database
        self._log = storage.log
        self._drive = drive
        self._clock = clock
        self._slots = slots
        self._queue_limit = waiting
        self._timings = storage.timings
        self._retry = partial(retry_storage, every=storage.timings.storage_retry)
        self._reserved = 0
        self._running: dict[str, _Driver] = {}
        """By session, as a session has one run at a time."""
        self._cancelled: set[asyncio.Task[bool]] = set()
        """Drivers whose run is over for everyone else; they hold no slot."""
        self._stopping: dict[tuple[str, str], asyncio.Task[Stopped]] = {}
        self._broken: set[str] = set()
        """Sessions whose run is being closed, because its driver ended before the run."""
        self._tasks: set[asyncio.Task[Any]] = set()
        self._claiming = False
        self._claim_again = False
        self._closing = False
        self._commit_in_doubt = False
        """A commit may have succeeded although its acknowledgement was lost."""

    async def accept(self, command: RunCommand) -> Accepted:
        """Accept input: on return it is in the log, and its run will end visibly."""
        # Shielded: a run that is stored is also started, even if the client is gone by then.
        return await asyncio.shield(self._spawn(self._accept(command)))

    async def stop(self, stop: Stop) -> Stopped:
        """Stop the session's run: on return it is over, even if its driver still works."""
        key = stop.tenant, stop.session_id
        task = self._stopping.get(key)
        if task is None:  # a second stop waits for the same end
            task = self._stopping[key] = self._spawn(self._stop(stop))
            task.add_done_callback(lambda _: self._stopping.pop(key))
        return await asyncio.shield(task)

    async def recover(self) -> None:
        """Continue the runs that the last process left, then start those that wait."""
        if self._node is None and await self._database.read(lambda tx: tx.row("runs_running")) is not None:
            now = self._clock.now()
            for orphan in await self._database.submit(transactions.claim_orphans, now, urgent=True):
                self._start(orphan)
        self.claim()

    async def close(self) -> None:
        """Shut down. Runs finish their step if they can, and continue at the next start."""
        self._closing = True
        for driver in self._running.values():
            driver.pause.request_drain()
        drivers = [driver.task for driver in self._running.values()]
        if under_way := [*drivers, *self._tasks]:
            await asyncio.wait(under_way, timeout=self._timings.drain)
        tasks = [*drivers, *self._cancelled, *self._tasks]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=_GRACE)

    async def abandon(self, session_id: str) -> None:
        """Cancel the driver of a deleted session, if there is one; nothing more is logged."""
        task = self._cancel_driver(session_id)
        self.claim()  # its slot is free
        if task is not None:
            await asyncio.wait([task], timeout=_GRACE)

    @property
    def free(self) -> int:
        """Slots for further runs; none while other nodes regard this one as gone, and could take them at once."""
        if self._node is not None and not self._node.is_alive:
            return 0
        return max(0, self._slots - len(self._running) - self._reserved)

    def claim(self) -> None:
        """Start waiting runs, as far as there are free slots; other nodes may have some."""
        if self._node is not None and not self.free:
            self._node.announce_waiting()
        self.claim_here()

    def claim_here(self) -> None:
        """Start waiting runs, as far as there are free slots."""
        self._claim_again = True  # a claim under way may have looked too early
        if not self._claiming and not self._closing:
            self._claiming = True
            self._spawn(self._claim_waiting())

    async def claim_due(self) -> None:
        """Start delayed runs whose time has come; the run table knows them, so a restart forgets none."""
        now = self._clock.now()
        if await self._database.read(lambda tx: tx.row("a_delayed_run_is_due", now)) is not None:
            self.claim()

    async def _accept(self, command: RunCommand) -> Accepted:
        claim = self.free > 0 and not self._closing and command.options.start_at is None
        self._reserved += claim
        try:
            limits = self._storage.quotas.limits(command.tenant)
            item = replace(command, claim=claim, queue_limit=self._queue_limit, limits=limits)
            commit = self._log.commit(accept_many, item, command.session_id, lambda done: done.stored)
            accepted = await self._confirmed(commit)
            if accepted.claimed is not None:
                await self._start_or_release(accepted.claimed)
        finally:
            self._reserved -= claim
            self.claim()  # a slot may be free now, or was reserved in vain
        return accepted.answer

    async def _confirmed(self, commit: "asyncio.Future[R]") -> R:
        try:
            return await commit
        except StorageGone:
            self._commit_in_doubt = True
            self.claim()
            raise

    async def _stop(self, stop: Stop) -> Stopped:
        driver = self._running.get(stop.session_id)
        clock = self._clock if driver is None else driver.clock
        stop = replace(stop, at=clock.now())
        commit = self._log.commit(stop_many, stop, stop.session_id, lambda done: done.stored, urgent=True)
        result = await self._confirmed(commit)
        before, claimed = result.status, result.claimed
        self._cancel_driver(stop.session_id)
        stopped = partial(Stopped, withdrawn=result.withdrawn or UNSET)
        if claimed is None:
            head = await self._log.head(stop.tenant, stop.session_id)
            return stopped(status=before.status, round=before.round, run_id=before.run_id, position=head.position)
        try:
            position = await self._retry(partial(close, self._database, self._log, clock, claimed))
        except Fenced:
            await self._log.head(stop.tenant, stop.session_id)  # raises NotFound if it was deleted
            if self._node is None:
                raise
            position = await self._end_of(claimed)  # another node stops it as well, and came later
        self.claim()
        own = claimed.lease.run_id != before.run_id
        return stopped(status="stopped", round=before.round + own, run_id=claimed.lease.run_id, position=position)

    async def _end_of(self, claimed: ClaimedRun) -> int:
        """Wait for the end of a run that another node closes; returns its position."""
        lease = claimed.lease
        follower = self._log.follow(lease.tenant, lease.session_id, after=claimed.after)
        async with aclosing(follower):
            async for batch in follower:
                for stored in batch:
                    if stored.body.startswith(_RUN_END) and decode(stored.body).run_id == lease.run_id:
                        return stored.position
        raise unknown_session(lease.session_id)

    def _cancel_driver(self, session_id: str) -> "asyncio.Task[bool] | None":
        """Cancel a driver that has lost its run. It may take a while to end."""
        driver = self._running.pop(session_id, None)
        if driver is None:
            return None
        self._cancelled.add(driver.task)
        driver.task.add_done_callback(self._cancelled.discard)
        driver.task.cancel()
        return driver.task

    async def _claim_waiting(self) -> None:
        try:
            while self._claim_again:
                self._claim_again = False
                while not self._closing:
                    free = self.free
                    if not (free or self._commit_in_doubt) or await self._claim_some(free) < free:
                        break
        finally:
            self._claiming = False

    async def _claim_some(self, free: int) -> int:
        try:
            if self._commit_in_doubt:
                await self._release_undriven()
            now = self._clock.now()
            if await self._database.read(lambda tx: tx.row("runs_waiting", 1, now)) is None:
                return 0
            claimed = await self._database.submit(transactions.claim_many, (free, now))
        except (StorageFull, StorageGone):
            self._commit_in_doubt = True
            await asyncio.sleep(self._timings.storage_retry)
            return free
        for run in claimed:
            await self._start_or_release(run)
        return len(claimed)

    async def _release_undriven(self) -> None:
        """Requeue claimed runs without a driver: the acknowledgement of their claim was lost."""
        self._commit_in_doubt = False
        if self._node is not None:
            return  # they are looked for all the time
        # Read on the writer: every acknowledged claim has its driver by now.
        running = await self._database.submit(transactions.running_many, None, urgent=True)
        driven = {driver.lease for driver in self._running.values()}
        busy = self._broken | {session_id for _, session_id in self._stopping}
        lost = [lease for lease in running if lease not in driven and lease.session_id not in busy]
        # Whether they were paused before that claim is unknown.
        releases = [self._release(lease, paused=False) for lease in lost]
        for lease in lost:
            logger.warning("run_unheard", session=lease.session_id, run=lease.run_id)
            self._cancel_driver(lease.session_id)
        await asyncio.gather(*releases)

    async def _start_or_release(self, claimed: ClaimedRun) -> None:
        """Drive the run, or leave it to the next process if this one is shutting down."""
        if self._closing:
            await self._release(claimed.lease, paused=not claimed.cut_off)
        else:
            self._start(claimed)

    def _release(self, lease: Lease, *, paused: bool) -> "asyncio.Future[bool]":
        release = transactions.Release(lease, self._clock.now(), paused)
        return self._database.submit(transactions.release_many, release, urgent=True)

    # What other nodes have to do with it.

    def driven(self) -> dict[str, Lease]:
        """The runs that are driven here, by session."""
        return {session_id: driver.lease for session_id, driver in self._running.items()}

    def is_closing_run(self, session_id: str) -> bool:
        """Whether its run is ended without a driver, after a stop or a failure."""
        return session_id in self._broken or any(busy == session_id for _, busy in self._stopping)

    def lose(self, lease: Lease) -> None:
        """Cancel the driver of a run that another node has, or that is gone."""
        if self.driven().get(lease.session_id) == lease:
            logger.info("run_lost", session=lease.session_id, run=lease.run_id)
            self._cancel_driver(lease.session_id)
            self._log.metrics.forget(lease.session_id)

    async def put_back(self, lease: Lease) -> None:
        """Requeue a run of this node that nothing drives: the acknowledgement of its claim was lost."""
        logger.warning("run_unheard", session=lease.session_id, run=lease.run_id)
        await self._release(lease, paused=False)  # whether it was paused before that claim is unknown

    async def take_over(self) -> int:
        """Go on with runs whose node is gone, as far as there are free slots."""
        if self._closing or not (free := self.free):
            return 0
        self._reserved += free
        try:
            await self._database.submit(transactions.end_connections_of_gone_nodes, None, urgent=True)
            item = (free, self._clock.now())
            claimed = await self._database.submit(transactions.take_over_many, item, urgent=True)
            for run in claimed:
                logger.warning("run_taken_over", session=run.lease.session_id, run=run.lease.run_id)
                await self._start_or_release(run)
        finally:
            self._reserved -= free
        return len(claimed)

    def _start(self, claimed: ClaimedRun) -> None:
        lease = claimed.lease
        if (before := self._running.get(lease.session_id)) is not None and before.lease.run_id == lease.run_id:
            self._cancel_driver(lease.session_id)  # another node had the run meanwhile
        pause = Pause()
        clock = AnchoredClock(self._clock)
        task = asyncio.create_task(self._drive(claimed, pause, clock), name=f"run {lease.run_id}")
        self._running[lease.session_id] = driver = _Driver(task, pause, lease, clock)
        slow = self._timings.slow_run
        about = logger.bind(session=lease.session_id, run=lease.run_id)
        warn = partial(about.warning, "run_lasts_long", seconds=slow)
        watch = asyncio.get_running_loop().call_later(slow, warn)
        task.add_done_callback(lambda _: self._ended(driver))
        task.add_done_callback(lambda _: watch.cancel())

    def _ended(self, driver: _Driver) -> None:
        task, _, lease, clock = driver
        failure = None if task.cancelled() else task.exception()  # retrieved, or Python complains
        if task in self._cancelled:
            return
        if self._running.get(lease.session_id) is driver:  # the next run may have begun
            del self._running[lease.session_id]
        if self._closing:
            return
        if task.cancelled() or failure is not None or not task.result():
            logger.warning("driver_ended", session=lease.session_id, run=lease.run_id, exc_info=failure)
            self._broken.add(lease.session_id)
            self._spawn(self._close_broken(lease, clock))
        self.claim()

    async def _close_broken(self, lease: Lease, clock: Clock) -> None:
        """Close a run whose driver ended before it, unless it was closed or claimed meanwhile."""
        item = (lease, clock.now())
        reclaim = partial(self._database.submit, transactions.reclaim_many, item, urgent=True)
        for orphan in await self._retry(reclaim):
            await self._retry(partial(close, self._database, self._log, clock, orphan))
        self._broken.discard(lease.session_id)
        self._commit_in_doubt = True
        self.claim()

    def _spawn(self, work: Coroutine[Any, Any, Any]) -> "asyncio.Task[Any]":
        """Start a task and hold it, so that it is not garbage-collected half-way."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task
