"""/sessions: create, list (with long polling), read, fork and delete sessions.

/sessions/{sid}/state, messages (transcript), usage and artifacts are folds of the log.
"""

import asyncio
import re
from contextlib import suppress
from typing import Annotated

import msgspec
from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, Field
from starlette.responses import Response

from stellwerk.api.http.auth import RequireRead, RequireRun, on_behalf
from stellwerk.api.http.etags import answered, names, unchanged
from stellwerk.api.schema.openapi import (
    BODY,
    STORED,
    TEXTS,
    documented_router,
    errors,
    example_of,
    ok,
    returns,
    text,
    with_etag,
)
from stellwerk.api.schema.requests import Limit, RequestBody, SessionId
from stellwerk.api.schema.responses import Artifact, Artifacts, Json, SessionPage, SessionState, Transcript, address
from stellwerk.api.services import Services
from stellwerk.api.streams.reader import After, parse_position
from stellwerk.documents.todolists import file_name
from stellwerk.errors import InvalidField
from stellwerk.ids import digest_id
from stellwerk.runs.sessions import Session
from stellwerk.tenants.principals import Principal
from stellwerk.views import overview, usage
from stellwerk.views.checklist import markdown
from stellwerk.views.overview import SessionFile
from stellwerk.views.usage import UsageInfo

_LOOK = 1.0
"""Seconds between two checks of a long poll; a streaming run changes the list each time."""
_CURSOR = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,20})?)_(.{1,100})", re.DOTALL)
TaggedPage = tuple[bytes, str]
"""The body of a page and its ETag."""
MARKDOWN = "text/markdown; charset=utf-8"
_KNOWN = ("unknown_session", "storage_gone")


class SessionQuery(BaseModel):
    before: Annotated[str | None, Field(description="the `next` of the page before")] = None
    limit: Annotated[int, Field(ge=1, le=500, description="how many, at most")] = 50
    wait: Annotated[float, Field(ge=0, le=60, description="seconds to wait for a change, with `If-None-Match`")] = 0


async def session_page(services: Services, who: Principal, query: SessionQuery, known: str | None) -> TaggedPage:
    """The page; if the client already has it, a long poll until it changes or the wait is over."""
    seen = await _last_change(services, who)
    page = await _page(services, who, query)
    with suppress(TimeoutError):
        async with asyncio.timeout(query.wait):
            while known is not None and names(known, page[1]) and not services.wakes.closed:
                await asyncio.sleep(_LOOK)
                services.credentials.check_valid(who)
                if (now := await _last_change(services, who)) != seen:
                    seen, page = now, await _page(services, who, query)
    return page


async def _page(services: Services, who: Principal, query: SessionQuery) -> TaggedPage:
    before = None if query.before is None else _place(query.before)
    found = await services.sessions.list(who.tenant, before=before, limit=query.limit)
    body = msgspec.json.encode(
        SessionPage(sessions=found, next=_cursor(found[-1]) if len(found) == query.limit else None)
    )
    return body, f'"{digest_id(body.decode())}"'


def _cursor(last: Session) -> str:
    """The end of a page. It stays right while sessions move, because they move to the beginning."""
    return f"{last.last_activity_at!r}_{last.id}"


def _place(before: str) -> tuple[float, str]:
    found = _CURSOR.fullmatch(before)
    if found is None:
        raise InvalidField("before: this is not the `next` of a page; send that of the page before", field="before")
    return float(found[1]), found[2]


async def _last_change(services: Services, who: Principal) -> int:
    row = await services.database.read(lambda tx: tx.row("last_change", who.tenant))
    return int(row[0]) if row else 0


class NewSession(RequestBody):
    agent_system_id: Annotated[str, Field(min_length=1, max_length=64, examples=["demo"])]
    user_id: Annotated[
        str | None, Field(max_length=128, description="the user it belongs to; passed to graphs", examples=["ada"])
    ] = None
    workflow: Annotated[bool, Field(description="whether it is listed as a workflow, and not as a chat")] = False


class ForkOptions(RequestBody):
    position: Annotated[
        int | None, Field(ge=1, le=10**15, description="of the end of a run; without it, of the last", examples=[12])
    ] = None


def routes(services: Services) -> APIRouter:
    router = documented_router("sessions", "/sessions")

    @router.post("", **returns(201, Session, "Created", *BODY, "unknown_agent_system", *STORED, example="begun"))
    async def begin(who: RequireRun, request: Request, body: NewSession) -> Response:
        """Create a session with an agent system."""
        user = on_behalf(who, body.user_id)
        session = await services.sessions.begin(who.tenant, body.agent_system_id, user, is_workflow=body.workflow)
        return _begun(request, session)

    page = with_etag(ok(SessionPage, example_of(SessionPage), "A page"))

    @router.get("", responses={**page, **errors("invalid_limit", "storage_gone")})
    async def list_sessions(who: RequireRead, request: Request, query: Annotated[SessionQuery, Query()]) -> Response:
        """List sessions, by their last activity.

        With `wait` and the ETag of the last response as `If-None-Match`, the response comes when the page has changed.
        """
        body, tag = await session_page(services, who, query, request.headers.get("if-none-match"))
        return unchanged(request, tag) or answered(body, tag)

    @router.get("/{sid}", **returns(200, Session, "Its status", "unknown_session", "storage_gone"))
    async def find(who: RequireRead, sid: SessionId) -> Response:
        """Read a session."""
        return Json(await services.sessions.find(who.tenant, sid, titled=True))

    @router.delete("/{sid}", **returns(204, None, "Deleted; its id is never used again", "unknown_session", *STORED))
    async def delete(who: RequireRun, sid: SessionId) -> Response:
        """Delete a session and everything that belongs to it."""
        await services.sessions.delete(who.tenant, sid)
        return Response(status_code=204)

    forked = "Created, with the same envelopes at the same positions"
    unforkable = (*BODY, "unknown_session", "no_run_ended", "not_a_run_end", *STORED)

    @router.post("/{sid}/fork", **returns(201, Session, forked, *unforkable))
    async def fork(who: RequireRun, request: Request, sid: SessionId, body: ForkOptions | None = None) -> Response:
        """Fork a session: start another one with the same history.

        It can be cut at the end of any run, and is independent from there.
        """
        return _begun(request, await services.sessions.fork(who.tenant, sid, body.position if body else None))

    return router


def _begun(request: Request, session: Session) -> Response:
    return Json(session, 201, {"Location": address(request, f"/sessions/{session.id}")})


def state_routes(services: Services) -> APIRouter:
    router = documented_router("state", "/sessions/{sid}")

    @router.get("/messages", **returns(200, Transcript, "A page", "bad_cursor", "invalid_limit", *_KNOWN))
    async def messages(
        who: RequireRead, sid: SessionId, after: Annotated[After, Query()] = None, limit: Limit = 100
    ) -> Response:
        """The transcript, page by page: messages, questions, answers."""
        position = parse_position(after)
        found = await services.overviews.transcript(who.tenant, sid, after=position, limit=limit)
        return Json(Transcript(messages=found, next=found[-1].position if len(found) == limit else None))

    @router.get("/state", **returns(200, SessionState, "Folded up to `position`", *_KNOWN))
    async def state(who: RequireRead, sid: SessionId) -> Response:
        """The state of a session: status, questions, tasks, blocker, progress, usage."""
        seen = await services.overviews.of(who.tenant, sid)
        state: SessionState = {**overview.as_json(seen.overview), "position": seen.position}
        return Json(state)

    @router.get("/usage", **returns(200, UsageInfo, "So far", *_KNOWN))
    async def used(who: RequireRead, sid: SessionId) -> Response:
        """What a session has used: tokens, calls, seconds."""
        return Json(usage.as_json((await services.overviews.of(who.tenant, sid)).overview.usage))

    @router.get("/artifacts", **returns(200, Artifacts, "The to-do list, then the others", *_KNOWN))
    async def artifacts(who: RequireRead, request: Request, sid: SessionId) -> Response:
        """The files of a session, with links."""
        seen = await services.overviews.of(who.tenant, sid)
        listed = Artifact(
            kind="todolist",
            name="todolist.md",
            mime="text/markdown",
            href=address(request, f"/sessions/{sid}/artifacts/todolist.md"),
        )
        return Json(Artifacts(artifacts=[listed, *(_artifact(request, file) for file in seen.overview.documents)]))

    content = text("text/markdown", TEXTS["todolist"], "Also if there are no tasks")

    @router.get("/artifacts/todolist.md", responses={200: content, **errors(*_KNOWN)})
    async def todolist(who: RequireRead, sid: SessionId) -> Response:
        """The to-do list as Markdown."""
        seen = await services.overviews.of(who.tenant, sid)
        headers = {
            "Content-Disposition": f'inline; filename="{file_name(sid)}"',
            "X-Content-Type-Options": "nosniff",
            "Content-Security-Policy": "sandbox; default-src 'none'",
        }
        return Response(markdown(seen.overview.checklist), media_type=MARKDOWN, headers=headers)

    return router


def _artifact(request: Request, file: SessionFile) -> Artifact:
    return Artifact(
        kind="document",
        name=file.name,
        mime=file.mime,
        size=file.size,
        document_id=file.document_id,
        created_at=file.added_at,
        run_id=file.run_id,
        agent=file.agent,
        href=address(request, f"/files/{file.document_id}"),
    )
