"""Load: clients that begin sessions, talk, answer, stop, regenerate, fork and listen until the server is gone.

They note every answer.
"""

import asyncio
from dataclasses import dataclass, field
from itertools import count
from random import Random

import httpx2

from tests.crash.ledger import Book, Kind, Ledger, Sent
from tests.crash.wire import NDJSON, SSE, Inbox

SESSIONS = 20
FRESH = 5
"""Sessions that are begun under load; as many of the older ones fall silent."""
_WISHES = ("order it", "delegate it", "ask me", "Tell me something", "Good\u2028morning, it is “späť” here")
_ENQUEUED, _STOPPED = 0.25, 0.2
"""Shares of the messages that another one follows at once, or a stop."""
_REGENERATED, _FORKED = 0.15, 0.1
"""Shares of the rounds that begin with the last message once more, or with a fork."""


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
        path = f"/sessions/{book.session_id}/{sent.kind}"
        answer = await client.post(path, json=sent.body(), headers=headers)
        if answer.status_code in (200, 202):
            sent.answer = answer.content
        elif answer.status_code == 409:
            sent.refused = True
        else:
            book.surprises.append(f"session {book.session_id}: {answer.status_code} {answer.text}")

    def new_message(self, wish: str | None = None, *, enqueue: bool = False) -> Sent:
        return self._new(f"{wish or self.random.choice(_WISHES)}?", enqueue=enqueue)

    def _new(self, text: str, *, enqueue: bool = False, kind: Kind = "messages") -> Sent:
        number = next(self._numbers)
        key = f"key-{number}" if self.random.random() < 0.6 else None
        return Sent(f"{text} ({number})", key, kind, enqueue)

    async def _begin(self, client: httpx2.AsyncClient) -> None:
        try:
            answer = await client.post("/sessions", json={"agent_system_id": "kill-loop"})
        except httpx2.TransportError:
            return
        book = Book(answer.json()["id"], self.random.choice((SSE, NDJSON)))
        self.ledger.books[book.session_id] = book
        self.talking.append(book)
        await self._take_part(client, book)

    async def _take_part(self, client: httpx2.AsyncClient, book: Book) -> None:
        quiet = asyncio.Event()
        listening = asyncio.create_task(self._listen(client, book, quiet))
        try:
            while not listening.done():
                await self._one_turn(client, book, quiet)
        except httpx2.TransportError:
            pass
        await listening

    async def _one_turn(self, client: httpx2.AsyncClient, book: Book, quiet: asyncio.Event) -> None:
        """A message or an answer, when nothing is under way; and perhaps something that does not wait."""
        quiet.clear()
        standing = (await client.get(f"/sessions/{book.session_id}")).json()
        if standing["status"] != "running":
            if self.random.random() < _FORKED:
                await self._fork(client, book)
            regenerate = book.sent and self.random.random() < _REGENERATED
            first = self._new("", kind="regenerate") if regenerate else self.new_message()
            await self._send_new(client, book, first)
            if self.random.random() < _ENQUEUED:
                await self._send_new(client, book, self.new_message(enqueue=True))
            if self.random.random() < _STOPPED:
                await asyncio.sleep(self.random.uniform(0, 0.3))
                await self._send_new(client, book, Sent("enough", kind="stop"))
                return
        elif standing["awaiting_user_input"]:
            await self._send_new(client, book, self._new("that way", kind="answers"))
        if book.sent[-1].kind != "regenerate" or not book.sent[-1].refused:  # then nothing is under way
            await quiet.wait()

    async def _fork(self, client: httpx2.AsyncClient, book: Book) -> None:
        """At the end of the last run; it takes part from the next start of the server on."""
        answer = await client.post(f"/sessions/{book.session_id}/fork")
        if answer.status_code == 201:
            new, position = str(answer.json()["id"]), int(answer.json()["position"])
            fork = Book(new, book.media_type, log=book.log[:position], forked=position)
            self.ledger.books[new] = fork
            self.talking.append(fork)

    async def _send_new(self, client: httpx2.AsyncClient, book: Book, sent: Sent) -> None:
        book.sent.append(sent)
        await self.send(client, book, sent)

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
