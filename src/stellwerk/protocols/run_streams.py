"""Runs as responses: the stream of one run in a dialect, and the wait for the end of a run."""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import aclosing, suppress
from typing import Any, NamedTuple

from fastapi import Response
from starlette.types import Message as AsgiMessage
from starlette.types import Receive, Scope, Send

from stellwerk.api.services import Services
from stellwerk.api.streams.ends import AllUntil
from stellwerk.api.streams.reader import WHOLE, EventStream, StreamFormat
from stellwerk.api.streams.shared_translation import StreamKey
from stellwerk.api.streams.translated import TranslatedReader
from stellwerk.database.port import Transaction
from stellwerk.dialects.base import Cursor, Dialect
from stellwerk.envelope.model import Message, RunEnd, decode
from stellwerk.errors import Conflict, NotFound, StorageGone
from stellwerk.log.log import Head
from stellwerk.log.transactions import unknown_session
from stellwerk.runs.commands import Accepted
from stellwerk.runs.transactions import status_of
from stellwerk.tenants.audit import without_audit
from stellwerk.tenants.principals import Principal

_RUN_END = b'{"type":"run_end"'
_WITHDRAWN = b'"action":"removed"'
EVENTS = StreamFormat("text/event-stream", b": ping\n", cut=True)


def run_of(accepted: Accepted) -> str:
    """The run that a message or an answer leads to, also if it is enqueued."""
    queued = accepted.queued_run_id
    return queued if isinstance(queued, str) else accepted.run_id


class FollowedRun(NamedTuple):
    """A run, and the position behind which it is followed."""

    who: Principal
    session_id: str
    run_id: str
    after: int = 0


async def stream_of_run(
    services: Services,
    run: FollowedRun,
    dialect: Dialect,
    *,
    cursor: Cursor | None = None,
    headers: Mapping[str, str] | None = None,
    keep: Callable[[Any], bool] | None = None,
) -> EventStream:
    """The run up to its end, then the end of the response; cut off if the server goes down before.

    A reader that reconnects names the last frame it has by its ``cursor``, or chooses frames by their tags.
    """
    place = services.quotas.stream(run.who.tenant, run.session_id)
    reader = TranslatedReader(services.streams, run.who, StreamKey(run.session_id, dialect, "user"), EVENTS, keep)
    head = await services.log.head(run.who.tenant, run.session_id)
    chunks = reader.stream(after=cursor or (run.after, WHOLE), head=head.position, run_id=run.run_id)
    response = EventStream(chunks, EVENTS, place, services.streams.timings)
    response.headers.update(headers or {})
    return response


async def stream_of_session(services: Services, who: Principal, session_id: str, dialect: Dialect) -> Response:
    """All runs, up to the end of the one under way; cut off if the server goes down before."""
    end = await services.database.read(lambda tx: _end_of_session(tx, who.tenant, session_id))
    if not end.position:
        return Response(dialect.closing, media_type=dialect.media_type)
    place = services.quotas.stream(who.tenant, session_id)
    reader = TranslatedReader(services.streams, who, StreamKey(session_id, dialect, "user"), EVENTS)
    chunks = reader.stream(after=(0, WHOLE), head=end.position, until=end)
    return EventStream(chunks, EVENTS, place, services.streams.timings)


def _end_of_session(tx: Transaction, tenant: str, session_id: str) -> AllUntil:
    row = tx.row("head", session_id, tenant)
    if row is None:
        raise unknown_session(session_id)
    status = status_of(tx, tenant, session_id)
    is_under_way = status.status == "running" and not status.awaiting_user_input
    return AllUntil(Head(*row).position, status.run_id if is_under_way else None)


async def end_of_run(services: Services, run: FollowedRun) -> RunEnd | None:
    """Wait for the end of a run; None if its session is deleted meanwhile.

    Raises:
        NotFound: the message was withdrawn before the run started.
        StorageGone: the server goes down before; the run goes on after its start.
    """
    async with aclosing(services.log.follow(run.who.tenant, run.session_id, after=run.after)) as batches:
        async for batch in batches:
            services.credentials.check_valid(run.who)
            for stored in batch:
                if stored.body.startswith(_RUN_END):
                    end = decode(stored.body)
                    if isinstance(end, RunEnd) and end.run_id == run.run_id:
                        return end
                elif _WITHDRAWN in stored.body and isinstance(decode(stored.body), Message):
                    await services.sessions.run(run.who.tenant, run.session_id, run.run_id)
    if services.wakes.closed:
        raise StorageGone("the server is going down; the run goes on when it is back")
    return None


async def stop_run(services: Services, run: FollowedRun, reason: str | None = None) -> bool:
    """Stop a run, or withdraw its message if it has not begun; False if it is over."""
    status = await services.database.read(lambda tx: status_of(tx, run.who.tenant, run.session_id))
    if status.run_id == run.run_id and status.status == "running" and not status.awaiting_user_input:
        await services.sessions.stop(run.who.tenant, run.session_id, reason=reason)
        return True
    with suppress(Conflict, NotFound):
        await services.sessions.withdraw(run.who.tenant, run.session_id, run_id=run.run_id)
        return True
    return False


class StoppedWithClient(Response):
    """The stream of a run that is stopped if its client is gone before its end."""

    def __init__(self, stream: EventStream, services: Services, run: FollowedRun) -> None:
        self._stream = stream
        self._services = services
        self._run = run
        self._is_over = self._is_gone = False
        self.background = None
        stream.body_iterator = self._watched(stream.body_iterator)
        self.status_code = stream.status_code
        self.raw_headers = stream.raw_headers

    async def _watched(self, chunks: Any) -> AsyncIterator[bytes]:
        async for chunk in chunks:
            yield chunk
        self._is_over = True

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def received() -> AsgiMessage:
            message = await receive()
            self._is_gone |= message["type"] == "http.disconnect"
            return message

        await self._stream(scope, received, send)
        if self._is_gone and not self._is_over and not self._services.wakes.closed:
            with without_audit(), suppress(NotFound):
                await stop_run(self._services, self._run, "the client disconnected")
