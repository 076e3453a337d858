"""The log on a database: committed envelopes are stored in final bytes, then shown at once.

Positions are 1, 2, 3 … per session, given inside the transaction that stores the event, without
gaps and for ever. A reader is a cursor: nothing here knows who reads.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from functools import partial
from typing import TypeVar

import msgspec

from stellwerk.database.port import Database, Operation, P, R
from stellwerk.envelope.frames import Stored
from stellwerk.envelope.model import Envelope, decode
from stellwerk.envelope.to_json import clean_text
from stellwerk.log import compaction, transactions
from stellwerk.log.log import CreateSession, Head, Lease, LogEntry
from stellwerk.log.metrics import LogMetrics
from stellwerk.log.notify import WakeUps
from stellwerk.redaction.redactor import Redactors
from stellwerk.threads import in_thread

PAGE = 500
"""The most envelopes of one read."""
LONG = 16 * 1024
"""Characters or bytes whose search for secrets is worth a thread."""
Payload = TypeVar("Payload")


class DurableLog:
    """``unaudited`` is the same database without audit entries, for the batches of running graphs."""

    def __init__(
        self,
        database: Database,
        wakes: WakeUps,
        redactors: Redactors | None = None,
        *,
        unaudited: Database | None = None,
    ) -> None:
        self._database, self._wakes = database, wakes
        self._unaudited = unaudited or database
        self.redactors = redactors or Redactors()
        """The secrets that must not get into the log of each tenant."""
        self.metrics = LogMetrics()
        self.announce: Callable[[str, int], None] | None = None
        """Called with each session that was written here and its head; with 0 if it was rewritten or deleted."""
        self._unfinished = True
        """A former process may have left a deletion half done."""

    async def cleaned(self, tenant: str, *texts: str) -> list[str]:
        """A user's text without secrets of the tenant that it contains by mistake."""
        redact = self.redactors.of(tenant).redact
        clean = [*map(clean_text, texts)]
        return redact(clean) if sum(map(len, texts)) < LONG else await in_thread(redact, clean)

    async def redacted(self, tenant: str, payload: Payload) -> Payload:
        """The same for a payload, whose texts are clean."""
        redact = self.redactors.of(tenant).redact
        is_short = len(msgspec.json.encode(payload)) < LONG
        return redact(payload) if is_short else await in_thread(redact, payload)

    async def create(self, session: CreateSession) -> None:
        """Begin an empty session.

        Raises:
            Conflict: the id is in use, or belonged to a session that was deleted.
        """
        await self._database.submit(transactions.create_many, session)

    def append(self, lease: Lease, batch_no: int, entries: Sequence[LogEntry]) -> "asyncio.Future[int]":
        """Append in one transaction; durable when the future gives the position of the last entry.

        Batches of a lease are numbered 1, 2, 3 …; one that is stored already is not stored again.

        Raises (through the future):
            Fenced: the lease has moved on; nothing was written, stop at once.
        """
        append = transactions.Append(lease, batch_no, entries)
        future = self._unaudited.submit(transactions.append_many, append)
        return self._shown(future, lease.session_id, lambda last: transactions.placed(last, entries))

    def commit(
        self,
        operation: Operation[P, R],
        item: P,
        session_id: str,
        stored: Callable[[R], list[Stored]],
        *,
        urgent: bool = False,
    ) -> "asyncio.Future[R]":
        """Submit an operation that appends, and show what it ``stored`` only after the commit."""
        return self._shown(self._database.submit(operation, item, urgent=urgent), session_id, stored)

    def _shown(
        self, future: "asyncio.Future[R]", session_id: str, stored: Callable[[R], list[Stored]]
    ) -> "asyncio.Future[R]":
        def show(done: "asyncio.Future[R]") -> None:
            if not done.cancelled() and done.exception() is None:
                events = stored(done.result())
                self._wakes.show(session_id, events)
                self.metrics.see(session_id, events)
                if events and self.announce is not None:
                    self.announce(session_id, events[-1].position)

        future.add_done_callback(show)
        return future

    async def retract(
        self, operation: Operation[P, R], item: P, session_id: str, stored: Callable[[R], list[Stored]]
    ) -> R:
        """Like ``commit``, for a rewrite: no reader is shown old bodies, and no file holds them."""

        def take_back(done: R) -> list[Stored]:
            self._wakes.forget(session_id)
            self._announce_loss(session_id)
            self._unfinished = True
            return stored(done)

        done = await self.commit(operation, item, session_id, take_back, urgent=True)
        await self._finish_deletions()
        return done

    async def read(self, tenant: str, session_id: str, *, after: int, limit: int) -> list[Stored]:
        """Envelopes behind ``after``, up to ``limit`` or ``PAGE_BYTES``; none of other tenants."""
        page = partial(compaction.read, tenant=tenant, session_id=session_id, after=after, limit=limit)
        return await self._database.read(page)

    async def envelopes(
        self, tenant: str, session_id: str, *, after: int = 0, before: int | None = None
    ) -> list[Envelope]:
        """What is stored behind ``after``, and in front of ``before`` if that is given."""
        found: list[Envelope] = []
        limit = PAGE
        while before is None or (limit := min(PAGE, before - after - 1)) > 0:
            page = await self.read(tenant, session_id, after=after, limit=limit)
            if not page:
                break
            found += [decode(stored.body) for stored in page]
            after = page[-1].position
        return found

    async def follow(self, tenant: str, session_id: str, *, after: int) -> AsyncGenerator[list[Stored], None]:
        """Yield what is behind ``after``, then whatever comes, until the session is deleted.

        An empty list says that nothing has happened for a while. Without gap or repetition: the
        watch begins before the first read.
        """
        read = partial(self.read, tenant, session_id, limit=PAGE)
        with self._wakes.watch(session_id) as channel:
            while not channel.gone:
                while batch := channel.since(after) or await read(after=after):
                    after = batch[-1].position
                    yield batch
                    if after == channel.head:
                        break  # the tail says that there is no more; the log need not be asked
                while not await channel.beyond(after):
                    yield []

    async def head(self, tenant: str, session_id: str) -> Head:
        row = await self._database.read(lambda tx: tx.row("head", session_id, tenant))
        if row is None:
            raise transactions.unknown_session(session_id)
        return Head(*row)

    async def delete(self, tenant: str, session_id: str, *, at: float, position: int | None = None) -> None:
        """Remove a session for good and leave only a tombstone; its id is never used again.

        With a ``position``, only if the log ends there; else raise ``Overtaken``, do nothing.
        """
        deletion = transactions.Deletion(tenant, session_id, at, position)
        await self._database.submit(transactions.delete_many, deletion, urgent=True)
        self._wakes.close_deleted(session_id)
        self._announce_loss(session_id)
        self.metrics.forget(session_id)
        self._unfinished = True
        await self._finish_deletions()

    async def heartbeat(self) -> None:
        """Once a second: wake the readers that missed a hint, and finish deletions that failed."""
        self._wakes.heartbeat()
        watched = self._wakes.watched()
        if watched:
            names = msgspec.json.encode(watched).decode()
            rows = await self._database.read(lambda tx: tx.rows("heads", names))
            self._wakes.compare(watched, rows)
        if self._unfinished:
            await self._finish_deletions()

    def _announce_loss(self, session_id: str) -> None:
        if self.announce is not None:
            self.announce(session_id, 0)

    async def _finish_deletions(self) -> None:
        """Sweep what deleted sessions left, then the files; repeated until all of it succeeded."""
        for tenant, session_id in await self._database.read(lambda tx: tx.rows("unswept")):
            grave = (tenant, session_id)
            while await self._database.submit(transactions.sweep_many, grave, urgent=True):
                pass
        self._unfinished = not await self._database.truncate()
