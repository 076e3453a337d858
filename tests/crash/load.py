"""Load: clients that begin sessions, talk and listen until the server is gone, and note down every answer."""

import asyncio
from dataclasses import dataclass, field
from itertools import count
from random import Random

import httpx2

from tests.crash.ledger import Book, Ledger, Sent
from tests.crash.wire import NDJSON, SSE, Inbox

SESSIONS = 10
FRESH = 3
"""Sessions that are begun under load; as many of the older ones fall silent."""
_TEXTS = ("What is the weather like", "Tell me something", "weather and wind", "Good\u2028morning, it is “späť” here")


@dataclass
class Load:
    ledger: Ledger
    random: Random
    talking: list[Book] = field(default_factory=list)
    requests: int = 0
    _numbers: "count[int]" = field(default_factory=count)

    async def run(self, client: httpx2.AsyncClient) -> None:
        """Until every connection is gone; what was on its way to a client is still taken in."""
        self.requests += 1
        fresh = FRESH if self.talking else SESSIONS
        self.random.shuffle(self.talking)
        del self.talking[: max(0, len(self.talking) + fresh - SESSIONS)]
        known = [self._take_part(client, book) for book in self.talking]
        await asyncio.gather(*known, *(self._begin(client) for _ in range(fresh)))

    async def send(self, client: httpx2.AsyncClient, book: Book, sent: Sent) -> None:
        """Send it and note the answer; whoever gets none may raise TransportError."""
        headers = {"Idempotency-Key": sent.key} if sent.key else {}
        path = f"/sessions/{book.session_id}/messages"
        answer = await client.post(path, json={"text": sent.text}, headers=headers)
        if answer.status_code == 202:
            sent.answer = answer.content
        elif answer.status_code == 409:
            sent.refused = True
        else:
            book.surprises.append(f"session {book.session_id}: {answer.status_code} {answer.text}")

    def new_message(self) -> Sent:
        number = next(self._numbers)
        key = f"key-{number}" if self.random.random() < 0.6 else None
        return Sent(f"{self.random.choice(_TEXTS)}? ({number})", key)

    async def _begin(self, client: httpx2.AsyncClient) -> None:
        try:
            answer = await client.post("/sessions", json={"agent_system_id": "demo"})
        except httpx2.TransportError:
            return
        book = Book(answer.json()["id"], self.random.choice((SSE, NDJSON)))
        self.ledger.books[book.session_id] = book
        self.talking.append(book)
        await self._take_part(client, book)

    async def _take_part(self, client: httpx2.AsyncClient, book: Book) -> None:
        quiet = asyncio.Event()
        listening = asyncio.create_task(self._listen(client, book, quiet))
        await self._talk(client, book, listening, quiet)
        await listening

    async def _talk(
        self, client: httpx2.AsyncClient, book: Book, listening: "asyncio.Task[None]", quiet: asyncio.Event
    ) -> None:
        """One message after the other, each when the run before it is over."""
        try:
            while not listening.done():
                sent = self.new_message()
                book.sent.append(sent)
                quiet.clear()
                await self.send(client, book, sent)
                await quiet.wait()
        except httpx2.TransportError:
            return

    async def _listen(self, client: httpx2.AsyncClient, book: Book, quiet: asyncio.Event) -> None:
        headers = {"Accept": book.media_type, "Last-Event-ID": str(book.last)}
        path = f"/sessions/{book.session_id}/stream?profile=debug"
        inbox, after = Inbox(book.media_type), book.last
        try:
            async with client.stream("GET", path, headers=headers) as answer:
                async for chunk in answer.aiter_bytes():
                    for frame in inbox.feed(chunk):
                        book.receive(frame, after=after)
                        after = frame.position
                        if b'"type":"run_end"' in frame.line:
                            quiet.set()
            book.surprises.append(f"session {book.session_id}: the server ended a stream that nobody left")
        except httpx2.TransportError:
            pass
        quiet.set()
