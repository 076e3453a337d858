"""/sessions/{sid}/stream (SSE, NDJSON), /events (paging, long polling) and /stream-tickets.

/stream-test is a one-shot request: a whole conversation in, the answer streamed as NDJSON.
"""

from contextlib import ExitStack
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Header, Query, Request, Response
from msgspec import Raw
from pydantic import BaseModel, BeforeValidator, Field

from stellwerk.api.http.auth import RequireRead, RequireRun, StreamReader, on_behalf
from stellwerk.api.schema import shared
from stellwerk.api.schema.openapi import BODY, STORED, STREAMS, UNUSABLE, documented_router, errors, returns
from stellwerk.api.schema.responses import EventPage, TicketInfo
from stellwerk.api.schema.shared import Json, RequestBody, SessionId
from stellwerk.api.services import Services
from stellwerk.api.streams import reader, translated
from stellwerk.api.streams.reader import WHOLE, After, ProfileParameter, Reader
from stellwerk.api.streams.shared_translation import StreamKey
from stellwerk.api.streams.translated import DialectName, LiveParameter, TranslatedReader
from stellwerk.envelope import frames
from stellwerk.errors import InvalidField, StellwerkError
from stellwerk.runs.commands import JobOptions
from stellwerk.spec.model import ChatMessage
from stellwerk.tenants.audit import about, without_audit
from stellwerk.tenants.principals import Principal

SESSION_HEADER = "Stellwerk-Session"
"""The header with the id of the session that a one-shot request has created."""
_SENT_BY_BROWSERS = "as `after`; browsers send it by themselves"
LastEventId = Annotated[str | None, Header(alias="Last-Event-ID", description=_SENT_BY_BROWSERS)]
_UNTIL = "end with the next end of a run; at once if no run is active and everything was read"


class TicketRequest(RequestBody):
    session_id: str = Field(max_length=64, examples=[shared.SESSION_ID])


class StreamQuery(BaseModel):
    after: After = None
    last_event_id: str | None = Field(
        None, alias="lastEventId", description="as `Last-Event-ID`, for pages that send no header"
    )
    until: Literal["run_end"] | None = Field(None, description=_UNTIL)
    dialect: DialectName | None = Field(None, description="lines of this dialect (NDJSON) in place of envelopes")
    live: LiveParameter = False
    profile: ProfileParameter = "user"

    def newest(self, header: str | None) -> str | None:
        """A reader that reconnects repeats the address and adds its last id: a browser in the header."""
        if header is not None:
            return header
        return self.after if self.last_event_id is None else self.last_event_id


class EventQuery(BaseModel):
    after: After = None
    limit: int = Field(500, ge=1, le=1000, description="how many, at most")
    wait: float = Field(0, ge=0, le=60, description="seconds to wait for the next event, if there is none")
    profile: ProfileParameter = "user"


class SpokenMessage(ChatMessage):
    content: shared.Text


class StreamAgentRequest(RequestBody):
    agent_system_id: str = Field("demo", min_length=1, max_length=64)
    messages: list[Annotated[SpokenMessage, BeforeValidator(shared.limit_fields)]] = Field(
        [], max_length=500, description="the last one is the user's, which is answered; may be empty with `input`"
    )
    input: Any = Field(None, description="an object with keys of the graph's `input_schema`")
    config: shared.RunConfig | None = None
    context: dict[str, Any] | None = Field(None, description="by the graph's `context_schema`")
    webhook: shared.Webhook = None
    on_completion: Literal["keep", "delete"] = Field(
        "keep", description="delete: the session is deleted a minute after its run has ended"
    )


def routes(services: Services) -> APIRouter:
    router = documented_router("reading", "/sessions/{sid}")
    refused = errors("bad_cursor", "unknown_session", "invalid_until", "storage_gone")

    @router.get("/stream", responses={200: STREAMS["session"], **refused})
    async def stream(
        who: StreamReader,
        request: Request,
        sid: SessionId,
        query: Annotated[StreamQuery, Query()],
        last_event_id: LastEventId = None,
    ) -> Response:
        """Follow a session as SSE, or as NDJSON by Accept.

        First what is stored after the cursor, then new events. It stays open between runs. To try it on this
        page, set `until` to `run_end`: the page cannot show a response that does not end.
        """
        after = reader.parse_cursor(query.newest(last_event_id))
        session = await services.sessions.find(who.tenant, sid)
        head = session.position
        until_run_end = query.until is not None
        if query.dialect is None:
            wants_lines = reader.NDJSON.media_type in request.headers.get("accept", "")
            form = reader.NDJSON if wants_lines else reader.SSE
            after = (after[0], WHOLE)
            native = Reader(services.streams, who, sid, query.profile, form)
            chunks = native.stream(after=after[0], head=head, until_run_end=until_run_end)
        else:
            form = translated.LINES
            dialect = translated.dialect_named(query.dialect, live=query.live)
            lines = TranslatedReader(services.streams, who, StreamKey(sid, dialect, query.profile))
            chunks = lines.stream(after=after, head=head, until_run_end=until_run_end)
        if until_run_end and session.status != "running" and after >= (head, WHOLE):
            return Response(media_type=form.media_type)  # everything was read, and no run is active
        place = services.quotas.stream(who.tenant, sid)
        return reader.EventStream(chunks, form, place, services.streams.timings)

    paged = "A page; empty only at the end of the log"
    problems = ("bad_cursor", "unknown_session", "invalid_limit", "storage_gone")

    @router.get("/events", **returns(200, EventPage, paged, *problems))
    async def events(who: RequireRead, sid: SessionId, query: Annotated[EventQuery, Query()]) -> Response:
        """Read the events of a session page by page, with long polling."""
        position = reader.parse_position(query.after)
        head = await services.log.head(who.tenant, sid)
        pages = Reader(services.streams, who, sid, query.profile)
        page, last = await pages.page(after=position, limit=query.limit, wait=query.wait)
        lines = [frames.line(sid, each, reader.origin(each, head.position)) for each in page]
        # Joined, and never parsed.
        return Json(EventPage(events=Raw(b"[%b]" % b",".join(lines)), next=last))

    return router


def ticket_routes(services: Services) -> APIRouter:
    router = documented_router("reading")
    good_for = "Valid for one connection, within half a minute"
    refused = (*BODY, "unknown_session", "overloaded", "storage_gone")

    @router.post("/stream-tickets", **returns(201, TicketInfo, good_for, *refused))
    async def sell(who: RequireRead, body: TicketRequest) -> Response:
        """Create a ticket for a stream, for a reader that cannot send a header.

        Add it to the address: `/sessions/{sid}/stream?ticket=…`. An EventSource that lost its connection needs
        a new one, and `after` with the last id it has.
        """
        about(sid=body.session_id)
        session = await services.sessions.find(who.tenant, body.session_id)
        ticket = services.credentials.tickets.issue(who, session.id)
        issued = TicketInfo(ticket=ticket.value, expires_at=ticket.until)
        return Json(issued, 201, {"Cache-Control": "no-store"})

    return router


def one_shot_routes(services: Services) -> APIRouter:
    router = documented_router("one request")
    problems = (*BODY, "unknown_agent_system", *UNUSABLE, "overloaded", *STORED)

    @router.post("/stream-test", responses={200: STREAMS["one_shot"], **errors(*problems)})
    async def stream_test(
        who: RequireRun,
        body: StreamAgentRequest,
        dialect: Annotated[DialectName, Query(description="how the lines look")] = "chunks",
        live: LiveParameter = False,
        profile: ProfileParameter = "user",
    ) -> Response:
        """Send a conversation to an agent system, and stream its answer as NDJSON.

        It creates a session, which stays, or is deleted after its run with `on_completion: delete`. The stream ends
        with the run; disconnecting does not stop the run.
        """
        spoken = translated.dialect_named(dialect, live=live)
        with ExitStack() as held:  # the quota of streams first: no run starts without a reader
            held.enter_context(services.quotas.stream(who.tenant))
            session_id, after = await _begun(services, who, body)
            place = held.pop_all()
        lines = TranslatedReader(services.streams, who, StreamKey(session_id, spoken, profile))
        chunks = lines.stream(after=(after, WHOLE), head=after, until_run_end=True)
        answer = reader.EventStream(chunks, translated.LINES, place, services.streams.timings)
        answer.headers[SESSION_HEADER] = session_id
        return answer

    return router


async def _begun(services: Services, who: Principal, body: StreamAgentRequest) -> tuple[str, int]:
    """A new session whose first run is under way, and the cursor that shows the run whole."""
    sessions = services.sessions
    tenant = who.tenant
    _check_messages(body)
    services.webhooks.check(tenant, body.webhook)
    parameters = shared.run_parameters(who, body.input, body.config, body.context)
    is_ephemeral = body.on_completion == "delete"
    with without_audit():  # what counts is that its first message is accepted
        session = await sessions.begin(tenant, body.agent_system_id, on_behalf(who, None), is_ephemeral=is_ephemeral)
    about(made=session.id)
    run = JobOptions(webhook=body.webhook)
    try:
        accepted = await sessions.send_conversation(tenant, session.id, body.messages, parameters=parameters, run=run)
    except StellwerkError:
        with without_audit():  # a client that tries again sends all of it again
            await sessions.delete(tenant, session.id)
        raise
    return session.id, accepted.after


def _check_messages(body: StreamAgentRequest) -> None:
    if not body.messages:
        if body.input is None:
            raise InvalidField("messages: this must not be empty, unless input goes with it", field="messages")
        return
    last = body.messages[-1]
    if last.role != "user" or not last.content.strip():
        said = "messages: the last one must be the user's, and not empty"
        raise InvalidField(said, field="messages")
