"""The log on a database: what is committed is stored in its final bytes and shown at once."""

import asyncio
from collections.abc import Callable, Sequence
from typing import TypeVar, cast

import msgspec

from stellwerk.database.port import Database, Operation, P, R
from stellwerk.envelope.canonical import clean_text
from stellwerk.envelope.frames import Stored
from stellwerk.envelope.redaction import Redactors
from stellwerk.log import compaction, tables
from stellwerk.log.log import Entry, Head, Lease, NewSession, Touched, placed
from stellwerk.log.tally import Tally
from stellwerk.log.wake import Wakes
from stellwerk.threads import searched

Told = TypeVar("Told")


class DurableLog:
    def __init__(self, database: Database, wakes: Wakes, redactors: Redactors | None = None) -> None:
        self._database, self._wakes = database, wakes
        self.redactors = redactors or Redactors()
        """What must not get into the log of each tenant, whoever writes it."""
        self.tally = Tally()
        self._unfinished = True
        """A former process may have left a deletion half done."""

    async def cleaned(self, tenant: str, *texts: str) -> list[str]:
        """What a user of this tenant writes, without secrets of the tenant that it names by mistake."""
        return await searched("".join(texts), lambda: self.redactors.of(tenant).redact([*map(clean_text, texts)]))

    async def redacted(self, tenant: str, told: Told) -> Told:
        """The same for a payload, whose texts are clean."""
        return cast("Told", await searched(msgspec.json.encode(told), lambda: self.redactors.of(tenant).redact(told)))

    async def create(self, session: NewSession) -> None:
        await self._database.submit(tables.create_many, session)

    def append(self, lease: Lease, batch_no: int, entries: Sequence[Entry]) -> "asyncio.Future[int]":
        append = tables.Append(lease, batch_no, entries)
        return self.commit(tables.append_many, append, lease.session_id, lambda last: placed(last, entries))

    def commit(
        self,
        operation: Operation[P, R],
        item: P,
        session_id: str,
        stored: Callable[[R], list[Stored]],
        *,
        urgent: bool = False,
    ) -> "asyncio.Future[R]":
        """Submit an operation that appends among other things, and show what it ``stored``: then, not before."""

        def show(done: "asyncio.Future[R]") -> None:
            if not done.cancelled() and done.exception() is None:
                events = stored(done.result())
                self._wakes.show(session_id, events)
                self.tally.see(session_id, events)

        future = self._database.submit(operation, item, urgent=urgent)
        future.add_done_callback(show)
        return future

    async def retract(
        self, operation: Operation[P, R], item: P, session_id: str, stored: Callable[[R], list[Stored]]
    ) -> R:
        """Like ``commit``, for what rewrites the log: nobody is shown the old bodies, and no file holds them."""

        def take_back(done: R) -> list[Stored]:
            self._wakes.forget(session_id)
            self._unfinished = True
            return stored(done)

        done = await self.commit(operation, item, session_id, take_back, urgent=True)
        await self._finish_deletions()
        return done

    async def read(self, tenant: str, session_id: str, *, after: int, limit: int) -> list[Stored]:
        return await self._database.read(lambda tx: compaction.read(tx, tenant, session_id, after=after, limit=limit))

    async def head(self, tenant: str, session_id: str) -> Head:
        row = await self._database.read(lambda tx: tx.row("head", session_id, tenant))
        if row is None:
            raise tables.unknown_session(session_id)
        return Head(*row)

    async def touched(self, tenant: str, *, since: int, limit: int) -> list[Touched]:
        rows = await self._database.read(lambda tx: tx.rows("touched_since", tenant, since, limit))
        return [Touched(*row) for row in rows]

    async def delete(self, tenant: str, session_id: str, *, at: float, position: int | None = None) -> None:
        """With a ``position``, only if the log ends there; else ``Overtaken`` is raised, and nothing has happened."""
        deletion = tables.Deletion(tenant, session_id, at, position)
        await self._database.submit(tables.delete_many, deletion, urgent=True)
        self._wakes.bury(session_id)
        self.tally.forget(session_id)
        self._unfinished = True
        await self._finish_deletions()

    async def look_around(self) -> None:
        """Once a second: wake whoever missed a hint, and finish what could not be done at once."""
        self._wakes.remind()
        watched = self._wakes.watched()
        if watched:
            names = msgspec.json.encode(watched).decode()
            heads: dict[str, int] = dict(await self._database.read(lambda tx: tx.rows("heads", names)))
            self._wakes.ring(heads)
            for session_id in set(watched) - heads.keys():
                self._wakes.bury(session_id)
        if self._unfinished:
            await self._finish_deletions()

    async def _finish_deletions(self) -> None:
        """Sweep what deleted sessions left, then the files; repeated until all of it succeeded."""
        for tenant, session_id in await self._database.read(lambda tx: tx.rows("unswept")):
            while await self._database.submit(tables.sweep_many, (tenant, session_id), urgent=True):
                pass
        self._unfinished = not await self._database.truncate()
