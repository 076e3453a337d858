"""Where log and dialect meet: a session, translated for somebody else's front end as it happens.

A translator remembers what it has opened, so it is fed from the start of the
trace that its reader is in; what the reader has seen already is held back.
"""

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from stellwerk.api.services import LOCAL_TENANT, Services
from stellwerk.api.streaming import WHOLE, end_of_run, pieces
from stellwerk.dialects import chunks, events
from stellwerk.dialects.base import Cursor, Dialect, Translator, translate
from stellwerk.envelope.frames import Stored
from stellwerk.envelope.model import decode
from stellwerk.errors import InvalidField
from stellwerk.log.follow import follow

Name = Literal["chunks", "events"]
Live = Annotated[bool, Field(description="also text as it is written, as text_delta lines; only in chunks")]

_DIALECTS: dict[Name, Dialect] = {"chunks": chunks.DIALECT, "events": events.DIALECT}
# A blank in front of the next line, and no line of its own: each line is one JSON object.
_HEARTBEAT = b" "


def chosen(name: Name, *, live: bool) -> Dialect:
    if not live:
        return _DIALECTS[name]
    if name != "chunks":
        raise InvalidField(f"live: {name} tells of finished steps only; leave it out, or take chunks", field="live")
    return chunks.LIVE


@dataclass(frozen=True, slots=True)
class TranslatedReader:
    services: Services
    session_id: str
    dialect: Dialect

    async def stream(self, *, after: Cursor, until_run_end: bool) -> AsyncIterator[bytes]:
        """The lines behind ``after``, then whatever comes; with ``until_run_end`` to the next end of a run."""
        services, translator = self.services, self.dialect.translator(self.session_id)
        told = after[0] if after[1] == WHOLE else after[0] - 1
        beginning = await self._beginning(after[0])
        async for batch in follow(
            services.log, services.wakes, tenant=LOCAL_TENANT, session_id=self.session_id, after=beginning
        ):
            if not batch:
                yield _HEARTBEAT
                continue
            end = end_of_run(batch, after=told) if until_run_end else None
            for piece in pieces(self._frames(translator, batch[:end], after)):
                yield piece
            if end is not None:
                return

    def _frames(self, translator: Translator, batch: list[Stored], after: Cursor) -> Iterator[bytes]:
        story = ((stored.position, decode(stored.body)) for stored in batch)
        return (self.dialect.frame(cursor, chunk) for cursor, chunk in translate(translator, story) if cursor > after)

    async def _beginning(self, position: int) -> int:
        """The cursor that shows the trace whole in which the position lies."""
        row = await self.services.database.read(
            lambda tx: tx.row("start_of_trace", self.session_id, LOCAL_TENANT, position)
        )
        return 0 if row is None or row[0] is None else int(row[0]) - 1
