"""/sessions: begin one, send to it, follow it, read it, delete it."""

from typing import Annotated, Any, Literal

import msgspec
from fastapi import APIRouter, Header, Query, Request
from pydantic import BaseModel, ConfigDict, Field, StringConstraints
from starlette.responses import Response

from stellwerk.api.paging import PageWish, page_of
from stellwerk.api.services import LOCAL_TENANT, Services
from stellwerk.api.streaming import NDJSON, SSE, WHOLE, EventStream, Reader, cursor, fine_cursor
from stellwerk.api.telling import Told
from stellwerk.api.translation import HEARTBEAT, Live, Name, TranslatedReader, chosen
from stellwerk.dialects.base import Cursor
from stellwerk.dialects.native import Profile
from stellwerk.envelope import frames
from stellwerk.envelope.canonical import PAYLOAD_DEPTH, canonical, clean_text
from stellwerk.envelope.payloads import Answered
from stellwerk.errors import InvalidField
from stellwerk.runs.commands import Accepted, IfBusy, Stopped
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
    if_busy: IfBusy = "reject"
    """While another round is under way: refuse this, do it afterwards, or stop that one."""


class NewAnswer(Body):
    ask_id: Annotated[str, Field(max_length=200)] = ""
    text: Annotated[Text | None, Field(examples=["blue"])] = None
    data: Any = None
    refused: bool = False


class ForkWish(Body):
    position: Annotated[int | None, Field(ge=1, le=10**15, examples=[12])] = None


class StopWish(Body):
    reason: Annotated[str | None, Field(max_length=500, examples=["I have seen enough"])] = None


class Wish(BaseModel):
    """How a reader wants to follow a session."""

    after: str | None = None
    until: Literal["run_end"] | None = None
    dialect: Name | None = None
    live: Live = False
    profile: Profile = "user"


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
    @router.post("", status_code=201, summary="Begin a session with an agent system", responses=may(400, 404, 422, 507))
    async def begin(request: Request, body: NewSession) -> Response:
        session = await services.sessions.begin(LOCAL_TENANT, body.agent_system_id, body.user_id)
        mounted_at = request.scope.get("root_path", "")
        return Json(session, 201, {"Location": f"{mounted_at}/sessions/{session.id}"})

    @router.post(
        "/{sid}/messages",
        status_code=202,
        summary="Send a message; it starts the next round",
        responses=may(400, 404, 409, 422, 429, 507),
    )
    async def send(sid: str, body: NewMessage, key: Key = None) -> Response:
        return Json(await sent(services, sid, body, key), 202)

    @router.post(
        "/{sid}/answers",
        status_code=202,
        summary="Answer a question; the round goes on",
        responses=may(400, 404, 409, 422, 429, 507),
    )
    async def answer(sid: str, body: NewAnswer, key: Key = None) -> Response:
        return Json(await answered(services, sid, body, key), 202)

    @router.post(
        "/{sid}/regenerate",
        status_code=202,
        summary="Answer the last message once more; the new round takes the place of the last",
        responses=may(404, 409, 422, 429, 507),
    )
    async def regenerate(sid: str, key: Key = None) -> Response:
        return Json(await services.sessions.regenerate(LOCAL_TENANT, sid, key=key), 202)

    @router.post(
        "/{sid}/fork",
        status_code=201,
        summary="Begin another session with what was said in this one, up to the end of a run",
        responses=may(400, 404, 409, 422, 507),
    )
    async def fork(request: Request, sid: str, body: ForkWish | None = None) -> Response:
        session = await services.sessions.fork(LOCAL_TENANT, sid, body.position if body else None)
        return Json(session, 201, {"Location": f"{request.scope.get('root_path', '')}/sessions/{session.id}"})

    @router.post(
        "/{sid}/stop", summary="Stop what is under way; nothing happens if nothing is", responses=may(400, 404)
    )
    async def stop(sid: str, body: StopWish | None = None) -> Response:
        return Json(await stopped(services, sid, body or StopWish()))

    @router.delete("/{sid}", status_code=204, summary="Delete a session and all it left", responses=may(404))
    async def delete(sid: str) -> Response:
        await services.sessions.delete(LOCAL_TENANT, sid)
        return Response(status_code=204)


async def sent(services: Services, sid: str, body: NewMessage, key: str | None) -> Accepted:
    if not body.text.strip():
        raise InvalidField("text: this must not be empty", field="text")
    return await services.sessions.send(LOCAL_TENANT, sid, body.text, key=key, if_busy=body.if_busy)


async def answered(services: Services, sid: str, body: NewAnswer, key: str | None) -> Accepted:
    text = None if body.text is None else clean_text(body.text)
    data = canonical(body.data, depth=PAYLOAD_DEPTH).value
    given = Answered(ask_id=body.ask_id, text=text, data=data, refused=body.refused)
    return await services.sessions.answer(LOCAL_TENANT, sid, given, key=key)


async def stopped(services: Services, sid: str, body: StopWish) -> Stopped:
    return await services.sessions.stop(LOCAL_TENANT, sid, reason=clean_text(body.reason) if body.reason else None)


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
        reader = Reader(services.log, services.wakes, services.shared, LOCAL_TENANT, sid, form, wish.profile)
        chunks = reader.stream(after=after[0], head=session.position, until_run_end=wish.until is not None)
        return EventStream(chunks, form.media_type, form.heartbeat)

    @router.get("/{sid}/events", summary="Read a session page by page, waiting if asked", responses=may(400, 404))
    async def events(sid: str, wish: Annotated[PageWish, Query()]) -> Response:
        position = cursor(wish.after)
        head = await services.log.head(LOCAL_TENANT, sid)
        page, last = await page_of(services, sid, wish, position)
        lines = [frames.line(sid, s, "replay" if s.position <= head.position else "live") for s in page]
        return Response(b'{"events":[%b],"next":%d}' % (b",".join(lines), last), media_type="application/json")


def _translated(services: Services, session: Session, wish: Wish, after: Cursor) -> Response:
    spoken = chosen(wish.dialect or "chunks", live=wish.live)
    if _all_read(session, wish, after):
        return Response(media_type=spoken.media_type)
    reader = TranslatedReader(services, Told(session.id, spoken, wish.profile))
    lines = reader.stream(after=after, until_run_end=wish.until is not None)
    return EventStream(lines, spoken.media_type, HEARTBEAT)


def _all_read(session: Session, wish: Wish, after: Cursor) -> bool:
    """Whoever wants to read to the end of a run need not wait: nothing is under way, and he has it all."""
    return wish.until is not None and session.status != "running" and after >= (session.position, WHOLE)


def may(*statuses: int) -> dict[int | str, dict[str, Any]]:
    return dict.fromkeys(statuses, _PROBLEM)
