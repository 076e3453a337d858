"""Session streams: cursors, SSE and NDJSON framing, heartbeats, long polling and the slow-client timeout.

A reader is a cursor into the log. It costs nothing while nothing happens, is never
waited for, and resumes with the position of the last event it has.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import AbstractContextManager, aclosing, suppress
from dataclasses import dataclass, field
from typing import Annotated, Any, Self

import structlog
from pydantic import Field
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from stellwerk.api.http.auth import Credentials
from stellwerk.api.streams.shared_translation import SharedTranslations
from stellwerk.database.port import Database
from stellwerk.dialects.base import Cursor
from stellwerk.dialects.native import Profile, shown
from stellwerk.envelope import frames
from stellwerk.envelope.frames import Origin, Stored
from stellwerk.errors import BadCursor
from stellwerk.log.durable import DurableLog
from stellwerk.log.notify import WakeUps
from stellwerk.tenants.principals import Principal
from stellwerk.timings import Timings

logger = structlog.get_logger(__name__)

_CURSOR = re.compile(r"([0-9]{1,15})(?:\.([0-9]{1,9}))?")
WHOLE = 10**9  # more chunks than an envelope can have
AFTER = "the cursor: only events after this position; 0 and none mean all"
After = Annotated[str | None, Field(description=AFTER)]
_PROFILE = "debug: also internals of graphs, and stored prompts"
ProfileParameter = Annotated[Profile, Field(description=_PROFILE)]
_RUN_END = b'{"type":"run_end"'
_CHUNK = 64 * 1024
_CACHED = 256


@dataclass(frozen=True, slots=True)
class StreamFormat:
    """A stream on the wire."""

    media_type: str
    heartbeat: bytes
    frame: Callable[[str, Stored, Origin], bytes] = frames.ndjson
    """An envelope; a dialect has frames of its own."""
    farewell: bytes = b""
    cut: bool = False
    """A stream that the server ends early is cut off, because its clients take a clean end for the end of a run."""


class StreamCut(Exception):
    """Ends a response without its last chunk: what the client has is incomplete."""


_FAREWELL = b": the server is going down; come back with your last id\n"
# The heartbeat of SSE is a comment without an empty line: some clients take the pair for an event.
SSE = StreamFormat("text/event-stream", b": ping\n", frames.sse, _FAREWELL)
NDJSON = StreamFormat("application/x-ndjson", b"\n")


def parse_position(text: str | None) -> int:
    """Of ``12.3`` it is 12: the part after the dot belongs to dialects."""
    return parse_cursor(text)[0]


def parse_cursor(text: str | None) -> Cursor:
    """The cursor of a dialect; one that names no chunk is behind all chunks of its position."""
    if text is None:
        return 0, WHOLE
    found = _CURSOR.fullmatch(text)
    if found is None:
        raise BadCursor(text)
    return int(found[1]), WHOLE if found[2] is None else int(found[2])


@dataclass
class FrameCache:
    """Live frames are built once for all readers of a session with the same profile."""

    _built: dict[tuple[str, str, Profile, bool], tuple[int, int, bytes]] = field(default_factory=dict)

    def live(
        self, session_id: str, batch: list[Stored], form: StreamFormat, profile: Profile, *, details: bool = False
    ) -> bytes:
        key = (session_id, form.media_type, profile, details)
        first, last = batch[0].position, batch[-1].position
        built = self._built.get(key)
        if built is None or built[:2] != (first, last):
            live = (form.frame(session_id, stored, "live") for stored in shown(batch, profile, details=details))
            built = first, last, b"".join(live)
            self._built.pop(key, None)
            self._built[key] = built
            if len(self._built) > _CACHED:
                del self._built[next(iter(self._built))]
        return built[2]

    def forget(self, session_id: str) -> None:
        for key in [key for key in self._built if key[0] == session_id]:
            del self._built[key]


@dataclass(frozen=True, slots=True)
class StreamSource:
    """Everything that readers need, and what they share."""

    database: Database
    log: DurableLog
    wakes: WakeUps
    credentials: Credentials
    timings: Timings = Timings()
    frames: FrameCache = field(default_factory=FrameCache)
    translations: SharedTranslations = field(default_factory=SharedTranslations)

    def forget(self, session_id: str) -> None:
        """Drop frames and translations of a session whose log was rewritten."""
        self.frames.forget(session_id)
        self.translations.forget(session_id)


@dataclass(frozen=True, slots=True)
class Reader:
    source: StreamSource
    who: Principal
    session_id: str
    profile: Profile
    form: StreamFormat = SSE

    async def stream(self, *, after: int, head: int, until_run_end: bool) -> AsyncIterator[bytes]:
        """Bytes behind ``after``; what lies at or below ``head`` is replayed, the rest is live.

        An empty chunk means that something happened that the profile hides. With ``until_run_end``
        the stream ends at the first end of a run, even if the cursor is beyond the end of the log.
        """
        known = min(after, head) if until_run_end else after
        async for batch in self.source.log.follow(self.who.tenant, self.session_id, after=known):
            if not self.source.credentials.is_valid(self.who):
                return
            if not batch:
                yield self.form.heartbeat
                continue
            end = end_of_run(batch) if until_run_end else None
            for chunk in self._chunks(_behind(batch[:end], after), head):
                yield chunk
            if end is not None:
                return
        if self.source.wakes.closed and self.form.farewell:
            yield self.form.farewell

    async def page(self, *, after: int, limit: int, wait: float = 0) -> tuple[list[Stored], int]:
        """The next envelopes and the cursor behind them; a long poll if ``wait`` is given.

        What the profile hides is read over: a page is empty only at the end of the log.
        """
        log, tenant = self.source.log, self.who.tenant
        while batch := await log.read(tenant, self.session_id, after=after, limit=limit):
            page, after = self._cut(batch, limit)
            if page:
                return page, after
        if not wait:
            return [], after
        with suppress(TimeoutError):
            follower = log.follow(tenant, self.session_id, after=after)
            async with asyncio.timeout(wait), aclosing(follower):
                async for batch in follower:
                    self.source.credentials.check_valid(self.who)
                    page, after = self._cut(batch, limit) if batch else ([], after)
                    if page:
                        return page, after
        return [], after

    @property
    def _has_details(self) -> bool:
        """On a server without keys every reader is on its own machine: the operator."""
        credentials = self.source.credentials
        return not credentials.asked_for and not credentials.checked_before

    def _cut(self, batch: list[Stored], limit: int) -> tuple[list[Stored], int]:
        seen = shown(batch, self.profile, details=self._has_details)
        page = seen[:limit]
        return page, page[-1].position if len(page) < len(seen) else batch[-1].position

    def _chunks(self, batch: list[Stored], head: int) -> Iterator[bytes]:
        if batch and batch[0].position > head and sum(len(stored.body) for stored in batch) <= _CHUNK:
            details = self._has_details
            live = self.source.frames.live(self.session_id, batch, self.form, self.profile, details=details)
            return iter([live])
        seen = shown(batch, self.profile, details=self._has_details)
        return joined(self.form.frame(self.session_id, each, origin(each, head)) for each in seen)


def origin(stored: Stored, head: int) -> Origin:
    """Replay, if it was stored before the reader connected."""
    return "replay" if stored.position <= head else "live"


def _behind(batch: list[Stored], after: int) -> list[Stored]:
    return batch if batch[0].position > after else [stored for stored in batch if stored.position > after]


def joined(frames: Iterable[bytes]) -> Iterator[bytes]:
    """Chunks of bounded size, so that a slow reader holds little; an empty one if there is no frame."""
    chunk: list[bytes] = []
    size = made = 0
    for frame in frames:
        chunk.append(frame)
        size += len(frame)
        if size >= _CHUNK:
            yield b"".join(chunk)
            chunk, size, made = [], 0, made + 1
    if chunk or not made:
        yield b"".join(chunk)


def end_of_run(batch: list[Stored], *, after: int = 0) -> int | None:
    """How much of the batch belongs to a run that ends in it, behind ``after``."""
    for count, stored in enumerate(batch, 1):
        if stored.position > after and stored.body.startswith(_RUN_END):
            return count
    return None


class TimedStream(StreamingResponse):
    """A streaming response that drops a client which takes nothing for 15 to 30 seconds.

    A client that was sent nothing for as long, because its profile hides what happened, gets the
    heartbeat. The response is cut off, without an end, once ``is_valid`` is false.
    """

    def __init__(
        self,
        chunks: AsyncIterator[bytes],
        timings: Timings,
        *,
        heartbeat: bytes = b"",
        is_valid: Callable[[], bool] | None = None,
        **response: Any,
    ) -> None:
        self._timings = timings
        self._heartbeat = heartbeat
        self._is_valid = is_valid
        super().__init__(chunks, **response)

    async def stream_response(self, send: Send) -> None:
        with SlowClientTimeout(self._timings.reader_check) as timeout:
            start = {"status": self.status_code, "headers": self.raw_headers}
            await send({"type": "http.response.start", **start})
            with suppress(StreamCut):
                async for chunk in self.body_iterator:
                    if self._is_valid is not None and not self._is_valid():
                        logger.info("reader_turned_away")
                        return
                    if not chunk and not timeout.silent:
                        continue
                    timeout.sending = True
                    body = chunk or self._heartbeat
                    await send({"type": "http.response.body", "body": body, "more_body": True})
                    timeout.taken()
                await send({"type": "http.response.body", "body": b"", "more_body": False})


class EventStream(TimedStream):
    """A stream of a session; its place in the quota of open streams is held until it ends."""

    def __init__(
        self, chunks: AsyncIterator[bytes], form: StreamFormat, place: AbstractContextManager[Any], timings: Timings
    ) -> None:
        self._place = place
        headers = {"Cache-Control": "no-cache, no-transform", "X-Accel-Buffering": "no"}
        super().__init__(chunks, timings, heartbeat=form.heartbeat, headers=headers, media_type=form.media_type)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._place:
            await super().__call__(scope, receive, send)


class SlowClientTimeout:
    """Ends its block if the same chunk is still being sent at two checks; cheaper than a timeout per chunk."""

    def __init__(self, check_every: float) -> None:
        self._check_every = check_every
        self._stalled = self.sending = self.silent = self._was_sending = self._sent = False
        self._task = asyncio.current_task()
        self._loop = asyncio.get_running_loop()
        self._timer = self._loop.call_later(self._check_every, self._check)

    def taken(self) -> None:
        self.sending = self.silent = self._was_sending = False
        self._sent = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        self._timer.cancel()
        if self._stalled:
            logger.info("reader_stalled", seconds=self._check_every)
        return self._stalled and isinstance(error, asyncio.CancelledError)

    def _check(self) -> None:
        if self.sending and self._was_sending and self._task is not None:
            self._stalled = True
            self._task.cancel()
            return
        self._was_sending = self.sending
        self.silent = not self._sent
        self._sent = False
        self._timer = self._loop.call_later(self._check_every, self._check)
