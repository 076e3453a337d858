"""/sessions/{sid}/stream and events: what happens in a session, as it happens or page by page."""

from typing import Annotated, Literal

from fastapi import APIRouter, Header, Query, Request
from pydantic import BaseModel, Field
from starlette.responses import Response

from stellwerk.api import examples, openapi, refusals
from stellwerk.api.answers import EventPage, Json
from stellwerk.api.credentials import Following, Reading
from stellwerk.api.openapi import may, says
from stellwerk.api.paging import PageWish, page_of
from stellwerk.api.services import Services
from stellwerk.api.sessions import Sid
from stellwerk.api.streaming import NDJSON, SSE, WHOLE, After, EventStream, ProfileWish, Reader, cursor, fine_cursor
from stellwerk.api.telling import Told
from stellwerk.api.translation import Live, Name, TranslatedReader, chosen
from stellwerk.dialects.base import Cursor
from stellwerk.envelope import frames
from stellwerk.runs.sessions import Session
from stellwerk.tenants.principals import Principal

_EVENTS = EventPage.of(examples.native(frames.ndjson).splitlines(), 5)
_STREAM = {
    "description": "Envelopes, or lines of a dialect",
    "content": {
        SSE.media_type: openapi.sse(openapi.envelope(), envelopes=examples.native(frames.sse)),
        NDJSON.media_type: openapi.lines(
            *(openapi.envelope(), openapi.dialect_line()),
            envelopes=examples.native(frames.ndjson),
            chunks=examples.CHUNKS,
            events=examples.EVENTS,
        ),
    },
}


class Wish(BaseModel):
    """How a reader wants to follow a session."""

    after: After = None
    last_event_id: Annotated[
        str | None, Field(alias="lastEventId", description="as `Last-Event-ID`, of pages that send no header")
    ] = None
    until: Annotated[
        Literal["run_end"] | None,
        Field(description="end with the next end of a run; at once if nothing is under way and all is read"),
    ] = None
    dialect: Annotated[Name | None, Field(description="lines of this dialect (NDJSON) in place of envelopes")] = None
    live: Live = False
    profile: ProfileWish = "user"

    def newest(self, header: str | None) -> str | None:
        """Who reconnects repeats the address and adds what he has: a browser in its header, a polyfill here."""
        return next((each for each in (header, self.last_event_id, self.after) if each is not None), None)


def routes(services: Services) -> APIRouter:
    router = APIRouter(prefix="/sessions/{sid}", tags=["reading"], default_response_class=Response)
    _add_stream(router, services)
    _add_pages(router, services)
    return router


def _add_stream(router: APIRouter, services: Services) -> None:
    @router.get(
        "/stream",
        summary="Follow a session as SSE, or as NDJSON by Accept",
        responses={
            200: _STREAM,
            **may(refusals.CURSOR, refusals.NO_SESSION, refusals.UNTIL, refusals.GONE),
        },
    )
    async def stream(
        who: Following,
        request: Request,
        sid: Sid,
        wish: Annotated[Wish, Query()],
        last_event_id: Annotated[
            str | None, Header(alias="Last-Event-ID", description="as `after`; browsers send it by themselves")
        ] = None,
    ) -> Response:
        """First what is stored behind the cursor, then whatever comes. It stays open between runs. To try it on this
        page, write `run_end` into `until`: a page of forms cannot show what does not end."""
        after = fine_cursor(wish.newest(last_event_id))
        session = await services.sessions.find(who.tenant, sid)
        if wish.dialect is not None:
            return _translated(services, who, session, wish, after)
        form = NDJSON if NDJSON.media_type in request.headers.get("accept", "") else SSE
        if _all_read(session, wish, (after[0], WHOLE)):
            return Response(media_type=form.media_type)
        place = services.quotas.stream(who.tenant, sid)
        reader = Reader(*services.reading(), who, sid, form, wish.profile)
        chunks = reader.stream(after=after[0], head=session.position, until_run_end=wish.until is not None)
        return EventStream(chunks, form.media_type, form.heartbeat, place)


def _add_pages(router: APIRouter, services: Services) -> None:
    @router.get(
        "/events",
        summary="Read a session page by page, waiting if asked",
        responses={
            200: says(EventPage, _EVENTS, "A page; empty only at the end of the log"),
            **may(refusals.CURSOR, refusals.NO_SESSION, refusals.LIMIT, refusals.GONE),
        },
    )
    async def events(who: Reading, sid: Sid, wish: Annotated[PageWish, Query()]) -> Response:
        position = cursor(wish.after)
        head = await services.log.head(who.tenant, sid)
        page, last = await page_of(services, who, sid, wish, position)
        lines = [frames.line(sid, s, "replay" if s.position <= head.position else "live") for s in page]
        return Json(EventPage.of(lines, last))


def _translated(services: Services, who: Principal, session: Session, wish: Wish, after: Cursor) -> Response:
    spoken = chosen(wish.dialect or "chunks", live=wish.live)
    if _all_read(session, wish, after):
        return Response(media_type=spoken.media_type)
    reader = TranslatedReader(services, who, Told(session.id, spoken, wish.profile))
    place = services.quotas.stream(who.tenant, session.id)
    return reader.answer(after=after, head=session.position, until_run_end=wish.until is not None, place=place)


def _all_read(session: Session, wish: Wish, after: Cursor) -> bool:
    """Whoever wants to read to the end of a run need not wait: nothing is under way, and he has it all."""
    return wish.until is not None and session.status != "running" and after >= (session.position, WHOLE)
