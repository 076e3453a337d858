"""One node of several: its heartbeat, what it says to the others, and what it does when they say something.

Hints come by notification. Once a second everything is read that they would have said.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterator
from dataclasses import replace

import msgspec
import structlog

from stellwerk.cluster.node import Heartbeat, NodeInfo
from stellwerk.cluster.notifications import Announcer, Listener, News, risen
from stellwerk.database.port import Database
from stellwerk.database.postgres import Postgres
from stellwerk.envelope.frames import Stored
from stellwerk.envelope.packing import PACKED
from stellwerk.errors import StorageFull, StorageGone
from stellwerk.log.log import PAGE_BYTES
from stellwerk.log.notify import WakeUps
from stellwerk.metrics import Counter, gauge

logger = structlog.get_logger(__name__)

EVERY = 1.0
"""Seconds between two looks at what may have been missed."""


class Cluster:
    """``open`` it before this process may have runs, ``close`` it when it has none any more."""

    def __init__(self, postgres: Database, wakes: WakeUps, info: NodeInfo, *, notifies: bool = True) -> None:
        assert isinstance(postgres, Postgres)
        self.info = replace(info, id=postgres.node)
        self.id = postgres.node
        self._database = postgres
        wakes.is_shared = True
        self._wakes = wakes
        self._heartbeat = Heartbeat(postgres.beside, self.info)
        self._announcer = Announcer(postgres.beside, self.id)
        self._listener = Listener(postgres.beside, self.id, self._hear)
        self._notifies = notifies
        self._news = News()
        self._reacting: asyncio.Task[None] | None = None
        self._looking: asyncio.Task[None] | None = None
        self._numbers: dict[str, int] = {}
        self._changes: dict[str, list[Callable[[], Awaitable[None]]]] = {}
        self.on_written: Callable[[Collection[str]], Awaitable[None]] | None = None
        """Called with the sessions that other nodes have written."""
        self.on_waiting: Callable[[], None] | None = None
        """Called when a run waits."""
        self.on_look: Callable[[], Awaitable[None]] | None = None
        """Called once a second."""
        self._counters = {
            "taken": Counter("stellwerk_runs_taken_over_total", "Runs that this node took over from one that is gone."),
            "lost": Counter("stellwerk_runs_lost_total", "Runs whose driver here was ended: another node has the run."),
            "strays": Counter("stellwerk_runs_stray_total", "Runs of this node that nothing drove, back in the queue."),
        }

    async def open(self) -> None:
        await self._heartbeat.open()
        self._numbers = dict(await self._database.read(lambda tx: tx.rows("change_numbers")))
        if self._notifies:
            self._listener.open()
        else:
            self._announcer.is_closed = True

    def start(self) -> None:
        """From here on what other nodes do has effects here."""
        self._looking = asyncio.create_task(self._keep_looking())

    async def close(self) -> None:
        """Leave: from here on the others may have what is left of this node."""
        for task in (self._looking, self._reacting):
            if task is not None:
                task.cancel()
                await asyncio.wait([task])
        await self._listener.close()
        await self._heartbeat.close()
        await self._announcer.close(lasts=self._notifies)

    @property
    def is_alive(self) -> bool:
        return self._heartbeat.is_alive

    @property
    def is_steady(self) -> bool:
        return self._heartbeat.is_steady

    @property
    def is_leader(self) -> bool:
        return self._heartbeat.is_leader

    def announce_session(self, session_id: str, head: int) -> None:
        """This node has written it; with 0 as head, rewritten or deleted it."""
        self._announcer.session(session_id, head)

    def announce_waiting(self) -> None:
        self._announcer.waiting()

    def on_change(self, what: str, read_again: Callable[[], Awaitable[None]]) -> None:
        """Call it whenever the change number of ``what`` has risen, on whatever node."""
        self._changes.setdefault(what, []).append(read_again)

    def count_lost(self, runs: int) -> None:
        self._counters["lost"].add(by=runs)

    def count_taken_over(self, runs: int) -> None:
        self._counters["taken"].add(by=runs)

    def count_strays(self, runs: int) -> None:
        self._counters["strays"].add(by=runs)

    def metrics(self) -> Iterator[str]:
        for counter in (self._heartbeat.late, *self._counters.values(), self._announcer.sent):
            yield from counter.lines()
        leads = [((), float(self.is_leader))]
        yield from gauge("stellwerk_leader", "Whether this node does what one does for all.", (), leads)

    # What others say.

    def _hear(self, words: list[str]) -> None:
        self._news.hear(words)
        if self._looking is not None and self._reacting is None:
            self._reacting = asyncio.create_task(self._react())
            self._reacting.add_done_callback(self._reacted)

    def _reacted(self, done: "asyncio.Task[None]") -> None:
        self._reacting = None
        if not done.cancelled() and (error := done.exception()) is not None:
            if not isinstance(error, StorageFull | StorageGone):
                raise error
            logger.info("notifications_not_followed", error=error.message)

    async def _react(self) -> None:
        while self._news:
            news, self._news = self._news, News()
            if news.waiting and self.on_waiting is not None:
                self.on_waiting()
            await self._follow(news.heads)
            if news.changed:
                await self._read_changes()
            if news.heads and self.on_written is not None:
                await self.on_written(news.heads.keys())

    async def _follow(self, heads: dict[str, int]) -> None:
        """Bring what readers here watch up to date: one read for all of them."""
        watched = self._wakes.heads(heads)
        if not watched:
            return
        behind = [(session_id, known) for session_id, known in watched.items() if 0 < known < heads[session_id]]
        rewritten = [session_id for session_id in watched if not heads[session_id]]
        for session_id in rewritten:
            self._wakes.forget(session_id)
        await self._show(behind)
        # A reader that has read nothing through its channel yet reads by itself.
        self._wakes.ring({session_id: heads[session_id] for session_id in watched})
        if rewritten:
            await self._read_heads(rewritten)

    async def _show(self, behind: list[tuple[str, int]]) -> None:
        if not behind:
            return
        known = msgspec.json.encode(behind).decode()
        found: dict[str, list[Stored]] = {}
        packed: set[str] = set()
        for session_id, position, body, type_ in await self._database.read(
            lambda tx: tx.rows("events_behind", known, PAGE_BYTES)
        ):
            if type_ == PACKED or session_id in packed:
                packed.add(session_id)
            else:
                found.setdefault(session_id, []).append(Stored(position, body))
        now = self._wakes.heads(found)
        for session_id, events in found.items():
            if new := [stored for stored in events if stored.position > now.get(session_id, 0)]:
                self._wakes.show(session_id, new)

    async def _read_heads(self, sessions: Collection[str]) -> None:
        names = msgspec.json.encode([*sessions]).decode()
        self._wakes.compare(sessions, await self._database.read(lambda tx: tx.rows("heads", names)))

    async def _read_changes(self) -> None:
        numbers: dict[str, int] = dict(await self._database.read(lambda tx: tx.rows("change_numbers")))
        for what in risen(self._numbers, numbers):
            for read_again in self._changes.get(what, ()):
                await read_again()
            self._numbers[what] = numbers[what]

    # Once a second.

    async def _keep_looking(self) -> None:
        while True:
            await asyncio.sleep(EVERY)
            try:
                await self._read_changes()
                if self.on_waiting is not None:
                    self.on_waiting()
                if self.on_look is not None:
                    await self.on_look()
            except (StorageFull, StorageGone) as error:
                logger.info("cluster_not_looked_at", error=error.message)


def node_of(role: str, version: str, slots: int, lease: float, loop_patience: float) -> NodeInfo:
    """What other nodes see of this one. One that takes requests only drives no runs, and does no chores."""
    drives = role != "api"
    return NodeInfo(
        role=role,
        version=version,
        slots=slots if drives else 0,
        lease=lease,
        loop_patience=loop_patience,
        may_lead=drives,
    )
