"""/sessions: create, list (with long polling), read, fork and delete sessions.

/sessions/{sid}/state, messages (transcript), usage and artifacts are folds of the log.
"""

import asyncio
import re
from contextlib import suppress
from typing import Annotated

import msgspec
from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel, Field

from stellwerk.api.http.auth import RequireRead, RequireRun, on_behalf
from stellwerk.api.http.etags import answered, names, unchanged
from stellwerk.api.schema import openapi
from stellwerk.api.schema.openapi import BODY, STORED, documented_router, errors, returns
from stellwerk.api.schema.responses import Artifact, Artifacts, SessionPage, SessionState, Transcript
from stellwerk.api.schema.shared import GivenDefaults, Json, Limit, RequestBody, SessionId, address
from stellwerk.api.services import Services
from stellwerk.api.streams.reader import AFTER, parse_position
from stellwerk.documents.todolists import file_name
from stellwerk.errors import InvalidField
from stellwerk.ids import digest_id
from stellwerk.runs.sessions import Session
from stellwerk.tenants.principals import Principal
from stellwerk.views import overview, usage
from stellwerk.views.checklist import markdown

_CHECK_EVERY = 1.0
"""Seconds between two checks of a long poll; a streaming run changes the list each time."""
_CURSOR = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,20})?)_(.{1,100})", re.DOTALL)
_KNOWN = ("unknown_session", "storage_gone")


class SessionQuery(BaseModel):
    before: str | None = Field(None, description="the `next` of the page before")
    limit: int = Field(50, ge=1, le=500, description="how many, at most")
    wait: float = Field(0, ge=0, le=60, description="seconds to wait for a change, with `If-None-Match`")


class NewSession(GivenDefaults):
    agent_system_id: str = Field(min_length=1, max_length=64, examples=["demo"])
    user_id: Annotated[str | None, Field(max_length=128)] = Field(
        None, description="the user it belongs to; passed to graphs", examples=["ada"]
    )
    workflow: bool = Field(False, description="whether it is listed as a workflow, and not as a chat")


class ForkOptions(RequestBody):
    position: Annotated[int | None, Field(ge=1, le=10**15)] = Field(
        None, description="of the end of a run; without it, of the last", examples=[12]
    )


def routes(services: Services) -> APIRouter:
    router = documented_router("sessions", "/sessions")
    created = (*BODY, "unknown_agent_system", "system_changed", "graph_unusable", "missing_secret", *STORED)

    @router.post("", **returns(201, Session, "Created", *created, example="begun"))
    async def begin(who: RequireRun, request: Request, body: NewSession) -> Response:
        """Create a session with an agent system.

        `config` and `context` are for graphs: each of its messages has them, key by key, unless it has its own.
        """
        user = on_behalf(who, body.user_id)
        system = body.agent_system_id
        session = await services.sessions.begin(
            who.tenant, system, user, is_workflow=body.workflow, defaults=body.parameters(who)
        )
        return _begun(request, session)

    page = openapi.with_etag(openapi.ok(SessionPage, openapi.example_of(SessionPage), "A page"))

    @router.get("", responses={**page, **errors("invalid_limit", "storage_gone")})
    async def list_sessions(who: RequireRead, request: Request, query: Annotated[SessionQuery, Query()]) -> Response:
        """List sessions, by their last activity.

        With `wait` and the ETag of the last response as `If-None-Match`, the response comes when the page has changed.
        """
        known = request.headers.get("if-none-match")
        body, tag = await _changed_page(services, who, query, known)
        return unchanged(request, tag) or answered(body, tag)

    @router.get("/{sid}", **returns(200, Session, "Its status", *_KNOWN))
    async def find(who: RequireRead, sid: SessionId) -> Response:
        """Read a session."""
        return Json(await services.sessions.find(who.tenant, sid, titled=True))

    changed = (*BODY, "unknown_session", *openapi.UNUSABLE, *STORED)

    @router.patch("/{sid}", **returns(200, Session, "With the change", *changed))
    async def change(who: RequireRun, sid: SessionId, body: GivenDefaults) -> Response:
        """Change the config or context of a session, for messages from now on.

        A field that is sent replaces the stored one as a whole, and null removes it; the other stays.
        """
        given = body.parameters(who)
        changes = {name: getattr(given, name) for name in body.model_fields_set}
        return Json(await services.sessions.change(who.tenant, sid, **changes))

    deleted = "Deleted; its id is never used again"

    @router.delete("/{sid}", **returns(204, None, deleted, "unknown_session", *STORED))
    async def delete(who: RequireRun, sid: SessionId) -> None:
        """Delete a session and everything that belongs to it."""
        await services.sessions.delete(who.tenant, sid)

    forked = "Created, with the same envelopes at the same positions"
    unforkable = (*BODY, "unknown_session", "no_run_ended", "not_a_run_end", *STORED)

    @router.post("/{sid}/fork", **returns(201, Session, forked, *unforkable))
    async def fork(who: RequireRun, request: Request, sid: SessionId, body: ForkOptions | None = None) -> Response:
        """Fork a session: start another one with the same history.

        It can be cut at the end of any run, and is independent from there.
        """
        position = body.position if body else None
        return _begun(request, await services.sessions.fork(who.tenant, sid, position))

    return router


def _begun(request: Request, session: Session) -> Response:
    return Json(session, 201, {"Location": address(request, f"/sessions/{session.id}")})


async def _changed_page(
    services: Services, who: Principal, query: SessionQuery, known: str | None
) -> tuple[bytes, str]:
    """A page and its ETag; if the client already has it, a long poll until it changes or the wait is over."""
    seen = await _last_change(services, who)
    page = await _page(services, who, query)
    with suppress(TimeoutError):
        async with asyncio.timeout(query.wait):
            while known is not None and names(known, page[1]) and not services.wakes.closed:
                await asyncio.sleep(_CHECK_EVERY)
                services.credentials.check_valid(who)
                if (now := await _last_change(services, who)) != seen:
                    seen = now
                    page = await _page(services, who, query)
    return page


async def _page(services: Services, who: Principal, query: SessionQuery) -> tuple[bytes, str]:
    before = None if query.before is None else _place(query.before)
    found = await services.sessions.list(who.tenant, before=before, limit=query.limit)
    # Its cursor stays right while sessions move, because they move to the beginning.
    last = found[-1] if len(found) == query.limit else None
    cursor = None if last is None else f"{last.last_activity_at!r}_{last.id}"
    body = msgspec.json.encode(SessionPage(sessions=found, next=cursor))
    return body, f'"{digest_id(body.decode())}"'


def _place(before: str) -> tuple[float, str]:
    found = _CURSOR.fullmatch(before)
    if found is None:
        said = "before: this is not the `next` of a page; send that of the page before"
        raise InvalidField(said, field="before")
    return float(found[1]), found[2]


async def _last_change(services: Services, who: Principal) -> int:
    row = await services.database.read(lambda tx: tx.row("last_change", who.tenant))
    return int(row[0]) if row else 0


def state_routes(services: Services) -> APIRouter:
    router = documented_router("state", "/sessions/{sid}")
    of = services.overviews.of

    @router.get("/messages", **returns(200, Transcript, "A page", "bad_cursor", "invalid_limit", *_KNOWN))
    async def messages(
        who: RequireRead,
        sid: SessionId,
        after: Annotated[str | None, Query(description=AFTER)] = None,
        limit: Limit = 100,
    ) -> Response:
        """The transcript, page by page: messages, questions, answers."""
        position = parse_position(after)
        found = await services.overviews.transcript(who.tenant, sid, after=position, limit=limit)
        following = found[-1].position if len(found) == limit else None
        return Json(Transcript(messages=found, next=following))

    @router.get("/state", **returns(200, SessionState, "Folded up to `position`", *_KNOWN))
    async def state(who: RequireRead, sid: SessionId) -> Response:
        """The state of a session: status, questions, tasks, blocker, progress, usage."""
        seen = await of(who.tenant, sid)
        return Json({**overview.as_json(seen.overview), "position": seen.position})

    @router.get("/usage", **returns(200, usage.UsageInfo, "So far", *_KNOWN))
    async def used(who: RequireRead, sid: SessionId) -> Response:
        """What a session has used: tokens, calls, seconds."""
        return Json(usage.as_json((await of(who.tenant, sid)).overview.usage))

    @router.get("/artifacts", **returns(200, Artifacts, "The to-do list, then the others", *_KNOWN))
    async def artifacts(who: RequireRead, request: Request, sid: SessionId) -> Response:
        """The files of a session, with links."""
        seen = await of(who.tenant, sid)
        todolist = Artifact(
            kind="todolist",
            name="todolist.md",
            mime="text/markdown",
            href=address(request, f"/sessions/{sid}/artifacts/todolist.md"),
        )
        files = [_artifact(request, file) for file in seen.overview.documents]
        return Json(Artifacts(artifacts=[todolist, *files]))

    as_text = openapi.returns_text("text/markdown", "todolist", "Also if there are no tasks", *_KNOWN)

    @router.get("/artifacts/todolist.md", **as_text)
    async def todolist(who: RequireRead, sid: SessionId) -> Response:
        """The to-do list as Markdown."""
        seen = await of(who.tenant, sid)
        headers = {
            "Content-Type": "text/markdown; charset=utf-8",
            "Content-Disposition": f'inline; filename="{file_name(sid)}"',
            "X-Content-Type-Options": "nosniff",
            "Content-Security-Policy": "sandbox; default-src 'none'",
        }
        return Response(markdown(seen.overview.checklist), headers=headers)

    return router


def _artifact(request: Request, file: overview.SessionFile) -> Artifact:
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
