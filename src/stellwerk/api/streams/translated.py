"""Translated streams: a session in a dialect of another front end, as it happens.

A translator remembers what it has opened, so it is fed from the start of the reader's trace, or
of the session if the dialect needs that. Lines that the reader already has are held back.
"""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from stellwerk.api.streams.reader import NDJSON, WHOLE, StreamFormat, StreamSource, end_of_run, joined
from stellwerk.api.streams.shared_translation import Frame, SharedTranslation, StreamKey
from stellwerk.dialects.base import Cursor, Dialect
from stellwerk.dialects.registry import DIALECTS
from stellwerk.envelope.frames import Stored
from stellwerk.errors import InvalidField
from stellwerk.tenants.principals import Principal

DialectName = Literal["chunks", "events"]
_LIVE = "also text while it is generated, as text_delta lines; only in chunks"
LiveParameter = Annotated[bool, Field(description=_LIVE)]
# The heartbeat is a blank in front of the next line: each line is one JSON object.
LINES = StreamFormat(NDJSON.media_type, heartbeat=b" ")


def dialect_named(name: DialectName, *, live: bool) -> Dialect:
    if not live:
        return DIALECTS[name]
    if name != "chunks":
        said = f"live: {name} has finished steps only; leave it out, or use chunks"
        raise InvalidField(said, field="live")
    return DIALECTS["chunks-live"]


@dataclass(frozen=True, slots=True)
class TranslatedReader:
    source: StreamSource
    who: Principal
    key: StreamKey
    form: StreamFormat = LINES

    async def stream(self, *, after: Cursor, head: int, until_run_end: bool) -> AsyncIterator[bytes]:
        """The frames behind ``after``, then the live ones; with ``until_run_end`` up to the next end of a run.

        A cursor beyond ``head``, the end of the log, has not seen the next end of a run.
        """
        known = min(head, after[0] if after[1] == WHOLE else after[0] - 1)
        async with aclosing(self._batches(after[0])) as batches:
            async for batch, frames in batches:
                if not self.source.credentials.is_valid(self.who):
                    return
                if not batch:
                    yield self.form.heartbeat
                    continue
                end = end_of_run(batch, after=known) if until_run_end else None
                last = batch[-1 if end is None else end - 1].position, WHOLE
                for chunk in joined(frame for cursor, frame in frames if after < cursor <= last):
                    yield chunk
                if end is not None:
                    return
                after = max(after, last)

    async def _batches(self, position: int) -> AsyncGenerator[tuple[list[Stored], list[Frame]], None]:
        """Batches with their frames. A reader that the shared translation has left behind starts over."""
        source = self.source
        left_behind = True
        while left_behind:
            translation = SharedTranslation(self.key, await self._start(position))
            after = translation.position
            follower = source.log.follow(self.who.tenant, self.key.session_id, after=after)
            try:
                async with aclosing(follower):
                    left_behind = False
                    async for batch in follower:
                        frames = translation.translate(batch) if batch else []
                        if left_behind := frames is None:
                            break
                        yield batch, frames
                        if batch:  # not translation.position: the shared one may be in a later trace already
                            position = max(position, batch[-1].position)
                        translation = source.translations.join(translation)
            finally:
                source.translations.leave(translation)

    async def _start(self, position: int) -> int:
        """The cursor from which a translator must read to continue at the position."""
        if self.key.dialect.memory == "session":
            return 0
        session = (self.key.session_id, self.who.tenant)
        row = await self.source.database.read(lambda tx: tx.row("start_of_trace", *session, position))
        return 0 if row is None or row[0] is None else int(row[0]) - 1
