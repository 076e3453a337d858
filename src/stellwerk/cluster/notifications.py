"""Notifications between nodes, by LISTEN and NOTIFY. They are hints: one may be lost, and a poll finds the rest.

They go out after the commit, on a connection that does not wait for the disk: a commit that
notifies holds a lock of the whole database, and none of ours may wait for it.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor

import psycopg
import structlog

from stellwerk.cluster.node import Connect
from stellwerk.database import dialect
from stellwerk.database.postgres import Connection
from stellwerk.metrics import Counter

logger = structlog.get_logger(__name__)

CHANNEL = "stellwerk"
LONGEST = 7800
"""Bytes of one notification; PostgreSQL takes less than 8,000."""
_WAITING, _CHANGED = "!waiting", "!changed"
_RECONNECT = 1.0


class News:
    """What was announced since the last time: sessions with their heads, and whether something else is to be read."""

    def __init__(self) -> None:
        self.heads: dict[str, int] = {}
        """By session; 0 if it was rewritten or deleted."""
        self.waiting = False
        """A run waits for a node with a free slot."""
        self.changed = False
        """A change number has risen."""

    def __bool__(self) -> bool:
        return bool(self.heads) or self.waiting or self.changed

    def pieces(self, node: str) -> Iterator[str]:
        words = [f"{session_id}:{head}" for session_id, head in self.heads.items()]
        words += [_WAITING] * self.waiting + [_CHANGED] * self.changed
        piece = node
        for word in words:
            if len(piece) + 1 + len(word) > LONGEST:
                yield piece
                piece = node
            piece += f" {word}"
        yield piece

    def hear(self, words: list[str]) -> None:
        for word in words:
            session_id, _, head = word.rpartition(":")
            if word == _WAITING:
                self.waiting = True
            elif word == _CHANGED:
                self.changed = True
            elif session_id and head.isdecimal():
                self.see(session_id, int(head))

    def see(self, session_id: str, head: int) -> None:
        known = self.heads.get(session_id, head)
        self.heads[session_id] = max(known, head) if head and known else 0


class Announcer:
    """Sends what was announced, once for all commits that landed together."""

    def __init__(self, connect: Connect, node: str) -> None:
        self._connect, self._node = connect, node
        self._connection: Connection | None = None
        self._thread = ThreadPoolExecutor(1, "announcer")
        self._news = News()
        self._scheduled = False
        self.is_closed = False
        self.sent = Counter(
            "stellwerk_notifications_total", "Notifications of this node to the others, by outcome.", "outcome"
        )

    def session(self, session_id: str, head: int) -> None:
        """Its log has grown; with 0 as head, it was rewritten or deleted."""
        if session_id.isascii() and not {" ", ":"} & {*session_id}:
            self._news.see(session_id, head)
            self._schedule()

    def waiting(self) -> None:
        self._news.waiting = True
        self._schedule()

    async def close(self, *, lasts: bool) -> None:
        """``lasts``: tell the others to look for what this node has left."""
        self.is_closed = True
        loop = asyncio.get_running_loop()
        if lasts:
            self._news.waiting = True
            await loop.run_in_executor(self._thread, self._send, [*self._news.pieces(self._node)])
        await loop.run_in_executor(self._thread, self._disconnect)
        self._thread.shutdown()

    def _schedule(self) -> None:
        if not self._scheduled and not self.is_closed:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._launch)  # behind all that landed in this turn

    def _launch(self) -> None:
        if self.is_closed or not self._news:
            self._scheduled = False
            return
        news, self._news = self._news, News()
        on_loop = asyncio.get_running_loop().call_soon_threadsafe
        flight: Future[str] = self._thread.submit(self._send, [*news.pieces(self._node)])
        flight.add_done_callback(lambda done: on_loop(self._landed, done.result()))

    def _landed(self, outcome: str) -> None:
        self.sent.add(outcome)
        self._launch()  # what was announced meanwhile

    # On the thread.

    def _send(self, pieces: list[str]) -> str:
        try:
            if self._connection is None:
                self._connection = self._connect({"synchronous_commit": "off"})
                self._connection.autocommit = True
            self._connection.execute(dialect.queries()["announce"], [CHANNEL, pieces])
            return "sent"
        except psycopg.Error as error:
            logger.info("notifications_not_sent", error=str(error).strip().partition("\n")[0])
            self._disconnect()
            return "lost"

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


class Listener:
    """Hears the other nodes, on the event loop; ``hear`` gets the words of a notification."""

    def __init__(self, connect: Connect, node: str, hear: Callable[[list[str]], None]) -> None:
        self._connect, self._node, self._hear = connect, node, hear
        self._connection: Connection | None = None
        self._task: asyncio.Task[None] | None = None
        self._lost = asyncio.Event()

    def open(self) -> None:
        self._task = asyncio.create_task(self._keep_listening())

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _keep_listening(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            connecting = loop.run_in_executor(None, self._connected)
            try:
                self._connection = await asyncio.shield(connecting)
            except asyncio.CancelledError:
                connecting.add_done_callback(_close_late)
                raise
            except psycopg.Error as error:
                logger.info("notifications_not_heard", error=str(error).strip().partition("\n")[0])
                await asyncio.sleep(_RECONNECT)
                continue
            self._lost.clear()
            descriptor = self._connection.fileno()
            loop.add_reader(descriptor, self._read)
            try:
                await self._lost.wait()
            finally:
                loop.remove_reader(descriptor)
                self._connection.close()
            await asyncio.sleep(_RECONNECT)

    def _connected(self) -> Connection:
        connection = self._connect({})
        connection.autocommit = True
        connection.execute(f"LISTEN {CHANNEL}")
        return connection

    def _read(self) -> None:
        assert self._connection is not None
        inside = self._connection.pgconn
        try:
            inside.consume_input()
        except psycopg.Error:
            self._lost.set()
            return
        while (heard := inside.notifies()) is not None:
            node, *words = heard.extra.decode("ascii", "replace").split(" ")
            if node != self._node:
                self._hear(words)


def _close_late(connecting: "asyncio.Future[Connection]") -> None:
    if not connecting.cancelled() and connecting.exception() is None:
        connecting.result().close()


def risen(before: Mapping[str, int], now: Mapping[str, int]) -> list[str]:
    """Whose number is another one than before."""
    return [what for what, number in now.items() if before.get(what) != number]
