"""Clients of several nodes: they go on at another node when one gives no answer, and read on where they were."""

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field

import httpx2

from tests.crash.ledger import Book
from tests.crash.load import FRESH, SESSIONS, Load
from tests.crash.wire import Inbox

_PAUSE = 0.1
"""Seconds before a client tries again."""


@dataclass
class Traffic(Load):
    """The load of one machine that dies, but that nothing ends it: only ``end`` does."""

    sessions: int = SESSIONS
    _over: asyncio.Event = field(default_factory=asyncio.Event)
    reconnected: int = 0
    ended_early: list[str] = field(default_factory=list)
    """Streams that a node without trouble ended."""

    def begin(self) -> None:
        self._over.clear()

    def end(self) -> None:
        """No further request; what is on its way comes in."""
        self._over.set()

    async def run(self, client: httpx2.AsyncClient) -> None:
        """Until the end; some sessions are begun, and as many of the older ones fall silent."""
        fresh = self.sessions * FRESH // SESSIONS if self.talking else self.sessions
        self.random.shuffle(self.talking)
        del self.talking[: max(0, len(self.talking) + fresh - self.sessions)]
        known = [self._take_part(client, book) for book in self.talking]
        await asyncio.gather(*known, *(self._begin(client) for _ in range(fresh)))

    async def _take_part(self, client: httpx2.AsyncClient, book: Book) -> None:
        quiet = asyncio.Event()
        listening = asyncio.create_task(self._listen(client, book, quiet))
        try:
            while not self._over.is_set():
                turn = asyncio.create_task(self._one_turn(client, book, quiet))
                while not turn.done():
                    await asyncio.wait([turn], timeout=_PAUSE)
                    if self._over.is_set():
                        quiet.set()
                with suppress(httpx2.TransportError):
                    await turn
                    continue
                await asyncio.sleep(_PAUSE)
        finally:
            listening.cancel()
            await asyncio.wait([listening])
        if not listening.cancelled():
            listening.result()

    async def _listen(self, client: httpx2.AsyncClient, book: Book, quiet: asyncio.Event) -> None:
        path = f"/sessions/{book.session_id}/stream?profile=debug"
        while not self._over.is_set():
            inbox, after = Inbox(book.media_type), book.last
            headers = {"Accept": book.media_type, "Last-Event-ID": str(after)}
            try:
                async with client.stream("GET", path, headers=headers) as answer:
                    if answer.status_code != 200:
                        book.surprises.append(f"session {book.session_id}: a stream was answered {answer.status_code}")
                        return
                    async for chunk in answer.aiter_bytes():
                        for frame in inbox.feed(chunk):
                            book.receive(frame, after=after)
                            after = frame.position
                            if b'"type":"run_end"' in frame.line:
                                quiet.set()
                node = answer.extensions["node"]
                if not node.in_trouble:
                    self.ended_early.append(f"session {book.session_id}: node {node.number} ended a stream")
            except httpx2.TransportError:
                pass
            self.reconnected += 1
            await asyncio.sleep(_PAUSE)
