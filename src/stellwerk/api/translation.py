"""Where log and dialect meet: a session, translated for somebody else's front end as it happens.

A translator remembers what it has opened, so it is fed from the start of the
trace that its reader is in, or of the session if its dialect needs that; what the
reader has seen already is held back.
"""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AbstractContextManager, aclosing
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field

from stellwerk.api.services import Services
from stellwerk.api.streaming import NDJSON, SSE, WHOLE, EventStream, end_of_run, pieces
from stellwerk.api.telling import Frame, Telling, Told
from stellwerk.dialects import chunks, events
from stellwerk.dialects.base import Cursor, Dialect
from stellwerk.envelope.frames import Stored
from stellwerk.errors import InvalidField
from stellwerk.log.follow import follow
from stellwerk.tenants.principals import Principal

Name = Literal["chunks", "events"]
Live = Annotated[bool, Field(description="also text as it is written, as text_delta lines; only in chunks")]

_DIALECTS: dict[Name, Dialect] = {"chunks": chunks.DIALECT, "events": events.DIALECT}
# Of NDJSON a blank in front of the next line, and no line of its own: each line is one JSON object.
_HEARTBEATS = {NDJSON.media_type: b" ", SSE.media_type: SSE.heartbeat}


def chosen(name: Name, *, live: bool) -> Dialect:
    if not live:
        return _DIALECTS[name]
    if name != "chunks":
        raise InvalidField(f"live: {name} tells of finished steps only; leave it out, or take chunks", field="live")
    return chunks.LIVE


@dataclass(frozen=True, slots=True)
class TranslatedReader:
    services: Services
    who: Principal
    told: Told

    def answer(
        self, *, after: Cursor, head: int, until_run_end: bool, place: AbstractContextManager[Any]
    ) -> EventStream:
        chunks = self.stream(after=after, head=head, until_run_end=until_run_end)
        return EventStream(chunks, self.told.dialect.media_type, self._heartbeat, place)

    async def stream(self, *, after: Cursor, head: int, until_run_end: bool) -> AsyncIterator[bytes]:
        """The lines behind ``after``, then whatever comes; with ``until_run_end`` to the next end of a run.

        Who stands beyond ``head``, the end of the log, has not read the end that comes next, whatever he says.
        """
        known = min(head, after[0] if after[1] == WHOLE else after[0] - 1)
        async with aclosing(self._batches(after[0])) as batches:
            async for batch, frames in batches:
                if not self.services.credentials.holds(self.who):
                    return
                if not batch:
                    yield self._heartbeat
                    continue
                end = end_of_run(batch, after=known) if until_run_end else None
                last = batch[-1 if end is None else end - 1].position, WHOLE
                for piece in pieces(frame for cursor, frame in frames if after < cursor <= last):
                    yield piece
                if end is not None:
                    return
                after = max(after, last)

    @property
    def _heartbeat(self) -> bytes:
        return _HEARTBEATS[self.told.dialect.media_type]

    async def _batches(self, position: int) -> AsyncGenerator[tuple[list[Stored], list[Frame]], None]:
        """From where the translator must begin, and anew from there if the others have gone too far ahead."""
        log, wakes, session_id = self.services.log, self.services.wakes, self.told.session_id
        left_behind = True
        while left_behind:
            telling = Telling(self.told, await self._beginning(position))
            follower = follow(log, wakes, tenant=self.who.tenant, session_id=session_id, after=telling.position)
            try:
                async with aclosing(follower):
                    left_behind = False
                    async for batch in follower:
                        frames = telling.tell(batch) if batch else []
                        if left_behind := frames is None:
                            break
                        yield batch, frames
                        if batch:  # not telling.position: those he shares with may be in a later trace already
                            position = max(position, batch[-1].position)
                        telling = self.services.tellings.joined(telling)
            finally:
                self.services.tellings.left(telling)

    async def _beginning(self, position: int) -> int:
        """The cursor that shows all that the translator must know to go on at the position."""
        if self.told.dialect.memory == "session":
            return 0
        row = await self.services.database.read(
            lambda tx: tx.row("start_of_trace", self.told.session_id, self.who.tenant, position)
        )
        return 0 if row is None or row[0] is None else int(row[0]) - 1
