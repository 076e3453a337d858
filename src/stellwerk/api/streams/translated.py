"""Translated streams: a session in a dialect of another front end, as it happens.

A translator remembers what it has opened, so it is fed from the start of the reader's trace, or
of the session if the dialect needs that. Lines that the reader already has are held back.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import msgspec
from pydantic import Field

from stellwerk.api.streams.ends import OneRun, StreamEnd, UntilRunEnd
from stellwerk.api.streams.reader import NDJSON, WHOLE, StreamCut, StreamFormat, StreamSource, joined
from stellwerk.api.streams.shared_translation import Frame, SharedTranslation, StreamKey
from stellwerk.database.port import Row, Transaction
from stellwerk.dialects.base import Cursor, Dialect
from stellwerk.dialects.registry import DIALECTS
from stellwerk.envelope.frames import Stored
from stellwerk.envelope.model import decode
from stellwerk.errors import InvalidField
from stellwerk.log.durable import PAGE
from stellwerk.log.log import PAGE_BYTES
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
    keep: Callable[[Any], bool] | None = None
    """Chooses frames by the tags that the dialect gives them."""

    async def stream(
        self,
        *,
        after: Cursor,
        head: int,
        until_run_end: bool = False,
        run_id: str | None = None,
        until: StreamEnd | None = None,
    ) -> AsyncIterator[bytes]:
        """The frames behind ``after``, then the live ones; with ``until_run_end`` up to the next end of a run.

        A cursor beyond ``head``, the end of the log, has not seen the next end of a run. With ``run_id`` the
        frames of that run only, up to its end; a run that is enqueued is waited for until it is withdrawn.
        ``until`` is any other end.

        Raises:
            StreamCut: before its end, where the form asks for it.
        """
        end = until or await self._end(after, head, until_run_end=until_run_end, run_id=run_id)
        if end is not None:
            skip = max(min(after, (head, WHOLE)), end.skip)
            async with aclosing(self._batches(after[0] if end.start is None else end.start, skip)) as batches:
                async for batch, frames in batches:
                    if not self.source.credentials.is_valid(self.who):
                        self._cut()
                        return
                    if not batch:
                        yield self.form.heartbeat
                        continue
                    count = end.found(batch)
                    last = batch[-1 if count is None else count - 1].position, WHOLE
                    if self.keep is not None:
                        frames = [frame for frame in frames if self.keep(frame[1])]
                    begin = after if run_id is None else max(after, end.begin)
                    for chunk in joined(frame for cursor, _, frame in frames if begin < cursor <= last):
                        yield chunk
                    if count is not None:
                        break
                    after = max(after, last)
                else:
                    if self.source.wakes.closed or end.is_under_way:  # or the session was deleted meanwhile
                        self._cut()
                        return
        if self.key.dialect.closing:
            yield self.key.dialect.closing

    def _cut(self) -> None:
        if self.form.cut:
            raise StreamCut

    async def _end(self, after: Cursor, head: int, *, until_run_end: bool, run_id: str | None) -> StreamEnd | None:
        """None if there is no such run, and none can come."""
        if until_run_end:
            return UntilRunEnd(min(head, after[0] if after[1] == WHOLE else after[0] - 1))
        if run_id is None:
            return StreamEnd()
        place = (run_id, self.key.session_id, self.who.tenant)
        row = await self.source.database.read(lambda tx: tx.row("place_of_run", *place))
        return None if row is None else OneRun(run_id, *row)

    async def _batches(self, position: int, skip: Cursor) -> AsyncGenerator[tuple[list[Stored], list[Frame]], None]:
        """Batches with their frames. A reader that the shared translation has left behind starts over."""
        source = self.source
        left_behind = True
        while left_behind:
            translation = await self._translation(position, skip)
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
                            skip = max(skip, (batch[-1].position, WHOLE))
                        translation = source.translations.join(translation)
            finally:
                source.translations.leave(translation)

    async def _translation(self, position: int, skip: Cursor) -> SharedTranslation:
        """A private one from where a translator must begin to continue at the position."""
        start = await self._start(position)
        translation = SharedTranslation(self.key, start, skip=skip)
        if self.key.dialect.recalls and start:
            await self._recall(translation)
        return translation

    async def _start(self, position: int) -> int:
        if self.key.dialect.memory == "session":
            return 0
        session = (self.key.session_id, self.who.tenant)
        row = await self.source.database.read(lambda tx: tx.row("start_of_trace", *session, position))
        return 0 if row is None or row[0] is None else int(row[0]) - 1

    async def _recall(self, translation: SharedTranslation) -> None:
        types = msgspec.json.encode(self.key.dialect.recalls).decode()
        after, start = 0, translation.position

        def page(tx: Transaction) -> list[Row]:
            wanted = (self.key.session_id, after, types, self.who.tenant, PAGE)
            return tx.rows_within(PAGE_BYTES, "events_of_types", *wanted)

        while after < start and (rows := await self.source.database.read(page)):
            translation.recall(decode(body) for position, body in rows if position <= start)
            after = rows[-1][0]
