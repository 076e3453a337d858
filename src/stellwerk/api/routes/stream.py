"""/sessions/{sid}/stream (SSE, NDJSON), /events (paging, long polling) and /stream-tickets.

/stream-test is a one-shot request: a whole conversation in, the answer streamed as NDJSON.
"""

from contextlib import ExitStack
from typing import Annotated, Literal

from fastapi import APIRouter, Header, Query, Request
from pydantic import BaseModel, BeforeValidator, Field
from starlette.responses import Response

from stellwerk.api.http.audit import names
from stellwerk.api.http.auth import RequireRead, RequireRun, StreamReader, on_behalf
from stellwerk.api.schema.openapi import BODY, STORED, STREAMS, UNUSABLE, documented_router, errors, returns
from stellwerk.api.schema.requests import SESSION_ID, RequestBody, SessionId, Text, limit_fields
from stellwerk.api.schema.responses import EventPage, Json, TicketInfo
from stellwerk.api.services import Services
from stellwerk.api.streams.reader import (
    NDJSON,
    SSE,
    WHOLE,
    After,
    EventStream,
    ProfileParameter,
    Reader,
    parse_cursor,
    parse_position,
)
from stellwerk.api.streams.shared_translation import StreamKey
from stellwerk.api.streams.translated import LINES, DialectName, LiveParameter, TranslatedReader, dialect_named
from stellwerk.envelope import frames
from stellwerk.errors import InvalidField, StellwerkError
from stellwerk.spec.model import ChatMessage
from stellwerk.tenants.audit import about, without_audit
from stellwerk.tenants.principals import Principal


class TicketRequest(RequestBody):
    session_id: Annotated[str, Field(max_length=64, examples=[SESSION_ID])]


class StreamQuery(BaseModel):
    after: After = None
    last_event_id: Annotated[
        str | None, Field(alias="lastEventId", description="as `Last-Event-ID`, for pages that send no header")
    ] = None
    until: Annotated[
        Literal["run_end"] | None,
        Field(description="end with the next end of a run; at once if no run is active and everything was read"),
    ] = None
    dialect: Annotated[
        DialectName | None, Field(description="lines of this dialect (NDJSON) in place of envelopes")
    ] = None
    live: LiveParameter = False
    profile: ProfileParameter = "user"

    def newest(self, header: str | None) -> str | None:
        """A reader that reconnects repeats the address and adds its last id: a browser as header, a polyfill here."""
        return next((each for each in (header, self.last_event_id, self.after) if each is not None), None)


class EventQuery(BaseModel):
    after: After = None
    limit: Annotated[int, Field(ge=1, le=1000, description="how many, at most")] = 500
    wait: Annotated[float, Field(ge=0, le=60, description="seconds to wait for the next event, if there is none")] = 0
    profile: ProfileParameter = "user"


def routes(services: Services) -> APIRouter:
    router = documented_router("reading", "/sessions/{sid}")

    refused = errors("bad_cursor", "unknown_session", "invalid_until", "storage_gone")

    @router.get("/stream", responses={200: STREAMS["session"], **refused})
    async def stream(
        who: StreamReader,
        request: Request,
        sid: SessionId,
        query: Annotated[StreamQuery, Query()],
        last_event_id: Annotated[
            str | None, Header(alias="Last-Event-ID", description="as `after`; browsers send it by themselves")
        ] = None,
    ) -> Response:
        """Follow a session as SSE, or as NDJSON by Accept.

        First what is stored after the cursor, then new events. It stays open between runs. To try it on this
        page, set `until` to `run_end`: the page cannot show a response that does not end.
        """
        after = parse_cursor(query.newest(last_event_id))
        session = await services.sessions.find(who.tenant, sid)
        head, until_run_end = session.position, query.until is not None
        if query.dialect is None:
            form = NDJSON if NDJSON.media_type in request.headers.get("accept", "") else SSE
            after = (after[0], WHOLE)
            reader = Reader(services.streams, who, sid, query.profile, form)
            chunks = reader.stream(after=after[0], head=head, until_run_end=until_run_end)
        else:
            form = LINES
            key = StreamKey(sid, dialect_named(query.dialect, live=query.live), query.profile)
            translated = TranslatedReader(services.streams, who, key)
            chunks = translated.stream(after=after, head=head, until_run_end=until_run_end)
        if until_run_end and session.status != "running" and after >= (head, WHOLE):
            return Response(media_type=form.media_type)  # everything was read, and no run is active
        place = services.quotas.stream(who.tenant, sid)
        return EventStream(chunks, form, place, services.streams.timings)

    page_problems = ("bad_cursor", "unknown_session", "invalid_limit", "storage_gone")

    @router.get("/events", **returns(200, EventPage, "A page; empty only at the end of the log", *page_problems))
    async def events(who: RequireRead, sid: SessionId, query: Annotated[EventQuery, Query()]) -> Response:
        """Read the events of a session page by page, with long polling."""
        position = parse_position(query.after)
        head = await services.log.head(who.tenant, sid)
        reader = Reader(services.streams, who, sid, query.profile)
        page, last = await reader.page(after=position, limit=query.limit, wait=query.wait)
        lines = [frames.line(sid, s, "replay" if s.position <= head.position else "live") for s in page]
        return Json(EventPage.of(lines, last))

    return router


def ticket_routes(services: Services) -> APIRouter:
    router = documented_router("reading")

    good_for = "Valid for one connection, within half a minute"
    refused = (*BODY, "unknown_session", "overloaded", "storage_gone")

    @router.post("/stream-tickets", **returns(201, TicketInfo, good_for, *refused))
    async def sell(request: Request, who: RequireRead, body: TicketRequest) -> Response:
        """Create a ticket for a stream, for a reader that cannot send a header.

        Add it to the address: `/sessions/{sid}/stream?ticket=…`. An EventSource that lost its connection needs
        a new one, and `after` with the last id it has.
        """
        names(request, sid=body.session_id)
        session = await services.sessions.find(who.tenant, body.session_id)
        ticket = services.credentials.tickets.issue(who, session.id)
        issued = TicketInfo(ticket=ticket.value, expires_at=ticket.until)
        return Json(issued, 201, {"Cache-Control": "no-store"})

    return router


SESSION_HEADER = "Stellwerk-Session"
"""The header with the id of the session."""
_MOST_MESSAGES = 500


class SpokenMessage(ChatMessage):
    content: Text


class StreamAgentRequest(RequestBody):
    agent_system_id: Annotated[str, Field(min_length=1, max_length=64)] = "demo"
    messages: Annotated[
        list[Annotated[SpokenMessage, BeforeValidator(limit_fields)]],
        Field(min_length=1, max_length=_MOST_MESSAGES, description="the last one is the user's, which is answered"),
    ]


_ONE_SHOT_PROBLEMS = (*BODY, "unknown_agent_system", *UNUSABLE, "overloaded", *STORED)


def one_shot_routes(services: Services) -> APIRouter:
    router = documented_router("one request")

    @router.post("/stream-test", responses={200: STREAMS["one_shot"], **errors(*_ONE_SHOT_PROBLEMS)})
    async def stream_test(
        who: RequireRun,
        body: StreamAgentRequest,
        dialect: Annotated[DialectName, Query(description="how the lines look")] = "chunks",
        live: LiveParameter = False,
        profile: ProfileParameter = "user",
    ) -> Response:
        """Send a conversation to an agent system, and stream its answer as NDJSON.

        It creates a session, which stays. The stream ends with the run; disconnecting does not stop the run.
        """
        spoken = dialect_named(dialect, live=live)
        with ExitStack() as held:  # the quota of streams comes first: no run starts without a reader
            held.enter_context(services.quotas.stream(who.tenant))
            session_id, after = await _begun(services, who, body)
            place = held.pop_all()
        reader = TranslatedReader(services.streams, who, StreamKey(session_id, spoken, profile))
        lines = reader.stream(after=(after, WHOLE), head=after, until_run_end=True)
        answer = EventStream(lines, LINES, place, services.streams.timings)
        answer.headers[SESSION_HEADER] = session_id
        return answer

    return router


async def _begun(services: Services, who: Principal, body: StreamAgentRequest) -> tuple[str, int]:
    """A new session whose first run is under way, and the cursor that shows the run whole."""
    last = body.messages[-1]
    if last.role != "user" or not last.content.strip():
        raise InvalidField("messages: the last one must be the user's, and not empty", field="messages")
    with without_audit():  # what counts is that its first message is accepted
        session = await services.sessions.begin(who.tenant, body.agent_system_id, on_behalf(who, None))
    about(made=session.id)
    try:
        accepted = await services.sessions.send_conversation(who.tenant, session.id, body.messages)
    except StellwerkError:
        with without_audit():
            await services.sessions.delete(who.tenant, session.id)  # a client that tries again sends all of it again
        raise
    return session.id, accepted.after
