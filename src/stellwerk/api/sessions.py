"""/sessions: begin one, send to it, follow it, read it, delete it."""

import asyncio
from contextlib import aclosing, suppress
from typing import Annotated, Any, Literal

import msgspec
from fastapi import APIRouter, Header, Query, Request
from pydantic import BaseModel, ConfigDict, Field, StringConstraints
from starlette.responses import Response

from stellwerk.api.services import LOCAL_TENANT, Services
from stellwerk.api.streaming import NDJSON, SSE, WHOLE, EventStream, Reader, cursor, fine_cursor
from stellwerk.api.translation import Live, Name, TranslatedReader, chosen
from stellwerk.dialects.base import Cursor
from stellwerk.envelope import frames
from stellwerk.envelope.frames import Stored
from stellwerk.errors import InvalidField
from stellwerk.log.follow import follow
from stellwerk.runs.sessions import Session

TEXT_LIMIT = 64 * 1024
"""Characters: at four bytes each they still fit into one event."""
_PROBLEM = {"description": "problem+json: a stable code, what is wrong, and what to do"}

Text = Annotated[str, StringConstraints(min_length=1, max_length=TEXT_LIMIT)]
Key = Annotated[str | None, Header(alias="Idempotency-Key", min_length=1, max_length=255)]


class Body(BaseModel):
    model_config = ConfigDict(extra="forbid")


class NewSession(Body):
    agent_system_id: Annotated[str, Field(min_length=1, max_length=64, examples=["demo"])]
    user_id: Annotated[str | None, Field(max_length=128)] = None


class NewMessage(Body):
    text: Annotated[Text, Field(examples=["What is the weather like?"])]


class Wish(BaseModel):
    """How a reader wants to follow a session."""

    after: str | None = None
    until: Literal["run_end"] | None = None
    dialect: Name | None = None
    live: Live = False


class Json(Response):
    """Structs to bytes, without a detour through dictionaries."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        return msgspec.json.encode(content)


def routes(services: Services) -> APIRouter:
    router = APIRouter(prefix="/sessions", tags=["sessions"])
    _add_commands(router, services)
    _add_reading(router, services)
    return router


def _add_commands(router: APIRouter, services: Services) -> None:
    @router.post("", status_code=201, summary="Begin a session with an agent system", responses=may(404, 422, 507))
    async def begin(body: NewSession) -> Response:
        session = await services.sessions.begin(LOCAL_TENANT, body.agent_system_id, body.user_id)
        return Json(session, 201, {"Location": f"/sessions/{session.id}"})

    @router.post(
        "/{sid}/messages",
        status_code=202,
        summary="Send a message; it starts the next round",
        responses=may(404, 409, 422, 429, 507),
    )
    async def send(sid: str, body: NewMessage, key: Key = None) -> Response:
        if not body.text.strip():
            raise InvalidField("text: this must not be empty", field="text")
        return Json(await services.sessions.send(LOCAL_TENANT, sid, body.text, key=key), 202)

    @router.delete("/{sid}", status_code=204, summary="Delete a session and all it left", responses=may(404))
    async def delete(sid: str) -> Response:
        await services.sessions.delete(LOCAL_TENANT, sid)
        return Response(status_code=204)


def _add_reading(router: APIRouter, services: Services) -> None:
    @router.get("", summary="List sessions, newest first")
    async def list_sessions(before: str | None = None, limit: Annotated[int, Query(ge=1, le=500)] = 50) -> Response:
        found = await services.sessions.list(LOCAL_TENANT, before=before, limit=limit)
        return Json({"sessions": found, "next": found[-1].id if len(found) == limit else None})

    @router.get("/{sid}", summary="Where a session stands", responses=may(404))
    async def find(sid: str) -> Response:
        return Json(await services.sessions.find(LOCAL_TENANT, sid))

    @router.get("/{sid}/stream", summary="Follow a session as SSE, or as NDJSON by Accept", responses=may(400, 404))
    async def stream(
        request: Request,
        sid: str,
        wish: Annotated[Wish, Query()],
        last_event_id: Annotated[str | None, Header(alias="Last-Event-ID")] = None,
    ) -> Response:
        # A browser that reconnects repeats the address and adds its header, so the header is newer.
        after = fine_cursor(last_event_id if last_event_id is not None else wish.after)
        session = await services.sessions.find(LOCAL_TENANT, sid)
        if wish.dialect is not None:
            return _translated(services, session, wish, after)
        form = NDJSON if NDJSON.media_type in request.headers.get("accept", "") else SSE
        if _all_read(session, wish, (after[0], WHOLE)):
            return Response(media_type=form.media_type)
        reader = Reader(services.log, services.wakes, services.shared, LOCAL_TENANT, sid, form)
        chunks = reader.stream(after=after[0], head=session.position, until_run_end=wish.until is not None)
        return EventStream(chunks, form.media_type)

    @router.get("/{sid}/events", summary="Read a session page by page, waiting if asked", responses=may(400, 404))
    async def events(
        sid: str,
        after: str | None = None,
        limit: Annotated[int, Query(ge=1, le=1000)] = 500,
        wait: Annotated[float, Query(ge=0, le=60)] = 0,
    ) -> Response:
        position = cursor(after)
        head = await services.log.head(LOCAL_TENANT, sid)
        page = await services.log.read(LOCAL_TENANT, sid, after=position, limit=limit)
        if not page and wait:
            page = await _next_page(services, sid, position, limit=limit, wait=wait)
        lines = [frames.line(sid, s, "replay" if s.position <= head.position else "live") for s in page]
        last = page[-1].position if page else position
        return Response(b'{"events":[%b],"next":%d}' % (b",".join(lines), last), media_type="application/json")


def _translated(services: Services, session: Session, wish: Wish, after: Cursor) -> Response:
    spoken = chosen(wish.dialect or "chunks", live=wish.live)
    if _all_read(session, wish, after):
        return Response(media_type=spoken.media_type)
    reader = TranslatedReader(services, session.id, spoken)
    return EventStream(reader.stream(after=after, until_run_end=wish.until is not None), spoken.media_type)


def _all_read(session: Session, wish: Wish, after: Cursor) -> bool:
    """Whoever wants to read to the end of a run need not wait: nothing is under way, and he has it all."""
    return wish.until is not None and session.status != "running" and after >= (session.position, WHOLE)


async def _next_page(services: Services, sid: str, after: int, *, limit: int, wait: float) -> list[Stored]:
    events = follow(services.log, services.wakes, tenant=LOCAL_TENANT, session_id=sid, after=after)
    with suppress(TimeoutError):
        async with aclosing(events), asyncio.timeout(wait):
            async for page in events:
                if page:
                    return page[:limit]
    return []


def may(*statuses: int) -> dict[int | str, dict[str, Any]]:
    return dict.fromkeys(statuses, _PROBLEM)
