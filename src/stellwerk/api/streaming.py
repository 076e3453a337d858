"""Where log and socket meet: cursors, frames, heartbeats, and readers that stall.

A reader is a cursor into the log. It costs nothing while nothing happens, is
never waited for, and comes back with the number of the last event it has.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from types import TracebackType
from typing import Annotated, Any, Self

import structlog
from pydantic import Field
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from stellwerk.api.credentials import Credentials
from stellwerk.dialects.base import Cursor
from stellwerk.dialects.native import Profile, shown
from stellwerk.envelope import frames
from stellwerk.envelope.frames import Origin, Stored
from stellwerk.errors import BadCursor
from stellwerk.log.follow import follow
from stellwerk.log.log import EventLog
from stellwerk.log.wake import Wakes
from stellwerk.tenants.principals import Principal

logger = structlog.get_logger(__name__)

STALL = 15.0
"""Seconds between two looks at a reader; one that takes nothing from one to the next is let go."""
_CURSOR = re.compile(r"([0-9]{1,15})(?:\.([0-9]{1,9}))?")
WHOLE = 10**9
"""More chunks than an envelope can have."""
After = Annotated[str | None, Field(description="the cursor: what comes behind this position; 0 and none mean all")]
ProfileWish = Annotated[
    Profile, Field(description="debug: also what only tells how a graph works inside, and stored prompts")
]
_RUN_END = b'{"type":"run_end"'
_CHUNK = 64 * 1024
_SHARED = 256


@dataclass(frozen=True, slots=True)
class Form:
    """How a stream looks on the wire."""

    media_type: str
    frame: Callable[[str, Stored, Origin], bytes]
    heartbeat: bytes
    farewell: bytes


# The heartbeat of SSE is a comment without an empty line: some clients take the pair for an event.
SSE = Form("text/event-stream", frames.sse, b": ping\n", b": the server is going down; come back with your last id\n")
NDJSON = Form("application/x-ndjson", frames.ndjson, b"\n", b"")


def cursor(text: str | None) -> int:
    """The position in a cursor; of ``12.3`` it is 12, as the part behind belongs to dialects."""
    return fine_cursor(text)[0]


def fine_cursor(text: str | None) -> Cursor:
    """The cursor of a dialect; one that names no chunk stands behind all chunks of its position."""
    if text is None:
        return 0, WHOLE
    found = _CURSOR.fullmatch(text)
    if found is None:
        raise BadCursor(text)
    return int(found[1]), WHOLE if found[2] is None else int(found[2])


@dataclass
class SharedFrames:
    """Live bytes are the same for every reader of a session with the same profile: made once, sent to all."""

    _made: dict[tuple[str, str, Profile], tuple[int, int, bytes]] = field(default_factory=dict)

    def live(self, session_id: str, batch: list[Stored], form: Form, profile: Profile) -> bytes:
        key, first, last = (session_id, form.media_type, profile), batch[0].position, batch[-1].position
        made = self._made.get(key)
        if made is None or made[:2] != (first, last):
            made = first, last, b"".join(form.frame(session_id, stored, "live") for stored in shown(batch, profile))
            self._made.pop(key, None)
            self._made[key] = made
            if len(self._made) > _SHARED:
                del self._made[next(iter(self._made))]
        return made[2]

    def forget(self, session_id: str) -> None:
        """Its log was rewritten."""
        for key in [key for key in self._made if key[0] == session_id]:
            del self._made[key]


@dataclass(frozen=True, slots=True)
class Reader:
    log: EventLog
    wakes: Wakes
    shared: SharedFrames
    credentials: Credentials
    who: Principal
    session_id: str
    form: Form
    profile: Profile

    async def stream(self, *, after: int, head: int, until_run_end: bool) -> AsyncIterator[bytes]:
        """Bytes behind ``after``; what lies at or below ``head`` is history, the rest is live.

        An empty piece says that something happened of which this reader sees nothing.
        With ``until_run_end`` it ends at the first end of a run; for whoever stands beyond the end of the log, at the
        first that comes.
        """
        known = min(after, head) if until_run_end else after
        async for batch in follow(
            self.log,
            self.wakes,
            tenant=self.who.tenant,
            session_id=self.session_id,
            after=known,
        ):
            if not self.credentials.holds(self.who):
                return
            if not batch:
                yield self.form.heartbeat
                continue
            end = end_of_run(batch) if until_run_end else None
            for chunk in self._chunks(behind(batch[:end], after), head):
                yield chunk
            if end is not None:
                return
        if self.wakes.closed and self.form.farewell:
            yield self.form.farewell

    def _chunks(self, batch: list[Stored], head: int) -> Iterator[bytes]:
        if batch and batch[0].position > head and sum(len(stored.body) for stored in batch) <= _CHUNK:
            yield self.shared.live(self.session_id, batch, self.form, self.profile)
        else:
            yield from self._pieces(batch, head)

    def _pieces(self, batch: list[Stored], head: int) -> Iterator[bytes]:
        seen = shown(batch, self.profile)
        origins: list[Origin] = ["replay" if stored.position <= head else "live" for stored in seen]
        return pieces(self.form.frame(self.session_id, *item) for item in zip(seen, origins, strict=True))


def behind(batch: list[Stored], after: int) -> list[Stored]:
    return batch if batch[0].position > after else [stored for stored in batch if stored.position > after]


def pieces(frames: Iterable[bytes]) -> Iterator[bytes]:
    """Frames joined to pieces of bounded size, so that a slow reader holds little; an empty one if there are none."""
    piece: list[bytes] = []
    size = made = 0
    for frame in frames:
        piece.append(frame)
        size += len(frame)
        if size >= _CHUNK:
            yield b"".join(piece)
            piece, size, made = [], 0, made + 1
    if piece or not made:
        yield b"".join(piece)


def end_of_run(batch: list[Stored], *, after: int = 0) -> int | None:
    """How much of the batch belongs to a run that ends in it, behind ``after``."""
    ends = (n for n, stored in enumerate(batch, 1) if stored.position > after and stored.body.startswith(_RUN_END))
    return next(ends, None)


class WatchedStream(StreamingResponse):
    """A streaming answer that lets go of a reader who takes nothing for 15 to 30 seconds.

    Whoever was sent nothing for as long, because nothing that happened was for him, hears the heartbeat.
    """

    _heartbeat = b""

    def holds(self) -> bool:
        """Whether it may go on."""
        return True

    async def stream_response(self, send: Send) -> None:
        with StallWatch() as watch:
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            async for chunk in self.body_iterator:
                if not self.holds():  # without an end, so that nobody takes it for whole
                    logger.info("reader_turned_away")
                    return
                if not chunk and not watch.silent:
                    continue
                watch.sending = True
                await send({"type": "http.response.body", "body": chunk or self._heartbeat, "more_body": True})
                watch.taken()
            await send({"type": "http.response.body", "body": b"", "more_body": False})


class Download(WatchedStream):
    """A file: cut off when what its reader has shown is taken no longer."""

    def __init__(
        self, pieces: AsyncIterator[bytes], headers: Mapping[str, str], credentials: Credentials, who: Principal
    ) -> None:
        super().__init__(pieces, headers=headers)
        self._credentials, self._who = credentials, who

    def holds(self) -> bool:
        return self._credentials.holds(self._who)


class EventStream(WatchedStream):
    """``place`` is held for it until it ends."""

    def __init__(
        self, chunks: AsyncIterator[bytes], media_type: str, heartbeat: bytes, place: AbstractContextManager[Any]
    ) -> None:
        self._heartbeat, self._place = heartbeat, place
        headers = {"Cache-Control": "no-cache, no-transform", "X-Accel-Buffering": "no"}
        super().__init__(chunks, headers=headers, media_type=media_type)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._place:
            await super().__call__(scope, receive, send)


class StallWatch:
    """Looks now and then whether the same piece is still being sent; cheaper than a timeout per piece.

    Around all that is sent: whoever takes nothing is let go at the end of the block.
    """

    def __init__(self) -> None:
        self._stalled = self.sending = self.silent = self._was_sending = self._sent = False
        self._loop, self._task = asyncio.get_running_loop(), asyncio.current_task()
        self._timer = self._loop.call_later(STALL, self._look)

    def taken(self) -> None:
        self.sending = self.silent = self._was_sending = False
        self._sent = True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        self._timer.cancel()
        if self._stalled:
            logger.info("reader_stalled", seconds=STALL)
        return self._stalled and isinstance(error, asyncio.CancelledError)

    def _look(self) -> None:
        if self.sending and self._was_sending and self._task is not None:
            self._stalled = True
            self._task.cancel()
            return
        self._was_sending = self.sending
        self.silent, self._sent = not self._sent, False
        self._timer = self._loop.call_later(STALL, self._look)
