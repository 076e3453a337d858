"""The heartbeat of a node: a row with a lease, renewed on a thread and a connection of its own.

The event loop may be busy, and the writer may wait for a lock: neither makes a node look dead.
Only the clock of the database counts.
"""

import asyncio
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

import psycopg
import structlog

from stellwerk.database import dialect
from stellwerk.database.port import Lock
from stellwerk.database.postgres import Connection, advisory_key
from stellwerk.metrics import Counter

logger = structlog.get_logger(__name__)

_BEATS_PER_LEASE = 5
_BURIED_AFTER = 600.0
"""Seconds after its lease that the row of a killed node stays, for operators to see."""
_LEADER = advisory_key(Lock("leader"))

Connect = Callable[[dict[str, str]], Connection]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeInfo:
    id: str = ""
    role: str
    version: str
    slots: int
    lease: float
    """Seconds after its last beat until a node counts as gone."""
    loop_patience: float = 60.0
    """Seconds without an answer of the event loop after which it beats no more: it drives nothing then."""
    may_lead: bool = True


class Heartbeat:
    def __init__(self, connect: Connect, info: NodeInfo) -> None:
        self._connect, self._info = connect, info
        self._connection: Connection | None = None
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._keep_beating, name="heartbeat", daemon=True)
        self._last = 0.0
        """When the last beat came through, on the clock of this process."""
        self._at = 0.0
        """The same, on the clock of the database."""
        self._steady_from: float | None = None
        self._leads = False
        self._answered = 0.0
        self.late = Counter(
            "stellwerk_beats_late_total", "Heartbeats of this node that failed, or came after its lease."
        )

    async def open(self) -> None:
        """Beat once: from here on this node may have runs."""
        self._loop = asyncio.get_running_loop()
        self._answer()
        await self._loop.run_in_executor(None, self._first_beat)
        self._thread.start()

    async def close(self) -> None:
        """The others need not wait for the end of its lease."""
        self._ending.set()
        await self._loop.run_in_executor(None, self._leave)

    @property
    def is_alive(self) -> bool:
        return time.monotonic() - self._last < self._info.lease and not self._ending.is_set()

    @property
    def is_steady(self) -> bool:
        steady = self._steady_from
        return self.is_alive and steady is not None and self._at - steady >= self._info.lease

    @property
    def is_leader(self) -> bool:
        return self._leads and self.is_alive

    # On the thread.

    def _first_beat(self) -> None:
        try:
            self._beat()
        except psycopg.Error as error:
            self._failed(error)

    def _keep_beating(self) -> None:
        every = self._info.lease / _BEATS_PER_LEASE
        while not self._ending.wait(every):
            if time.monotonic() - self._answered > self._info.loop_patience:
                self._fall_silent()
                continue
            self._loop.call_soon_threadsafe(self._answer)
            try:
                self._beat()
            except psycopg.Error as error:
                self._failed(error)

    def _beat(self) -> None:
        info, named = self._info, dialect.queries()
        if self._connection is None:
            # A node that is stopped must not stay the leader: the server ends its silent connection.
            silent = f"{max(1000, int(info.lease * 2000))}ms"
            patience = f"{max(1000, int(info.lease * 1000))}ms"
            settings = {"idle_session_timeout": silent, "statement_timeout": patience, "lock_timeout": patience}
            self._connection = self._connect(settings)
            self._connection.autocommit = True
        values = (info.id, info.role, info.version, info.slots, info.lease)
        row = self._connection.execute(named["beat"], values).fetchone()
        assert row is not None
        now, until = row
        if until is not None and until < now:
            self.late.add()
            logger.warning("node_was_regarded_as_gone", seconds=round(now - until, 1))
            self._steady_from = None
        if self._steady_from is None:
            self._steady_from = now
        self._at, self._last = now, time.monotonic()
        if info.may_lead:
            self._lead()

    def _lead(self) -> None:
        assert self._connection is not None
        named = dialect.queries()
        if not self._leads:
            row = self._connection.execute(named["lead"], [_LEADER]).fetchone()
            self._leads = bool(row and row[0])
            if self._leads:
                logger.info("node_leads", node=self._info.id)
                self._connection.execute(named["bury_nodes"], [_BURIED_AFTER])

    def _failed(self, error: psycopg.Error) -> None:
        self.late.add()
        if self._steady_from is not None:
            logger.warning("heartbeat_failed", error=str(error).strip().partition("\n")[0])
        self._steady_from, self._leads = None, False
        self._disconnect()

    def _fall_silent(self) -> None:
        if self._steady_from is not None:
            logger.error("loop_stands_still", seconds=self._info.loop_patience, what="no heartbeats until it answers")
        self.late.add()
        self._steady_from, self._leads = None, False
        self._disconnect()  # and with it the lock of the leader

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _leave(self) -> None:
        if self._thread.is_alive():
            self._thread.join()
        try:
            if self._connection is not None:
                self._connection.execute(dialect.queries()["leave_cluster"], [self._info.id])
        except psycopg.Error as error:  # its lease ends by itself
            logger.warning("node_did_not_leave", error=str(error).strip().partition("\n")[0])
        self._disconnect()

    # On the loop.

    def _answer(self) -> None:
        self._answered = time.monotonic()
