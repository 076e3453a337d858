"""/sessions/{sid}/…: what can be known of a session without following it; folds of its log, all of them."""

from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from stellwerk.api import examples, openapi, refusals
from stellwerk.api.answers import Artifact, Artifacts, Json, SessionState, Transcript, address
from stellwerk.api.credentials import Reading
from stellwerk.api.openapi import may, says
from stellwerk.api.paging import Limit
from stellwerk.api.services import Services
from stellwerk.api.sessions import Sid
from stellwerk.api.streaming import After, cursor
from stellwerk.documents.todolists import file_name
from stellwerk.views import overview, usage
from stellwerk.views.checklist import markdown
from stellwerk.views.documents import Filed
from stellwerk.views.usage import UsageTold

MARKDOWN = "text/markdown; charset=utf-8"
_KNOWN = may(refusals.NO_SESSION, refusals.GONE)


def routes(services: Services) -> APIRouter:
    router = APIRouter(prefix="/sessions/{sid}", tags=["state"], default_response_class=Response)
    _add_state(router, services)
    _add_artifacts(router, services)
    return router


def _add_state(router: APIRouter, services: Services) -> None:
    @router.get(
        "/messages",
        summary="The transcript, page by page: messages, questions, answers",
        responses={
            200: says(Transcript, examples.TRANSCRIPT, "A page"),
            **may(refusals.CURSOR, refusals.NO_SESSION, refusals.LIMIT, refusals.GONE),
        },
    )
    async def messages(who: Reading, sid: Sid, after: Annotated[After, Query()] = None, limit: Limit = 100) -> Response:
        position = cursor(after)
        found = await services.overviews.transcript(who.tenant, sid, after=position, limit=limit)
        return Json(Transcript(messages=found, next=found[-1].position if len(found) == limit else None))

    @router.get(
        "/state",
        summary="Where a session stands: status, questions, tasks, blocker, progress, usage",
        responses={200: says(SessionState, examples.STATE, "Folded up to `position`"), **_KNOWN},
    )
    async def state(who: Reading, sid: Sid) -> Response:
        seen = await services.overviews.of(who.tenant, sid)
        told: SessionState = {**overview.as_json(seen.overview), "position": seen.position}
        return Json(told)

    @router.get(
        "/usage",
        summary="What a session has used: tokens, calls, seconds",
        responses={200: says(UsageTold, examples.USAGE, "So far"), **_KNOWN},
    )
    async def used(who: Reading, sid: Sid) -> Response:
        return Json(usage.as_json((await services.overviews.of(who.tenant, sid)).overview.usage))


def _add_artifacts(router: APIRouter, services: Services) -> None:
    @router.get(
        "/artifacts",
        summary="The files of a session, with links",
        responses={200: says(Artifacts, examples.ARTIFACTS, "The to-do list, then the others"), **_KNOWN},
    )
    async def artifacts(who: Reading, request: Request, sid: Sid) -> Response:
        seen = await services.overviews.of(who.tenant, sid)
        listed = Artifact(
            kind="todolist",
            name="todolist.md",
            mime="text/markdown",
            href=address(request, f"/sessions/{sid}/artifacts/todolist.md"),
        )
        return Json(Artifacts(artifacts=[listed, *(_artifact(request, file) for file in seen.overview.documents)]))

    @router.get(
        "/artifacts/todolist.md",
        summary="The to-do list as Markdown",
        responses={200: openapi.text("text/markdown", examples.TODOLIST, "Also if there are no tasks"), **_KNOWN},
    )
    async def todolist(who: Reading, sid: Sid) -> Response:
        seen = await services.overviews.of(who.tenant, sid)
        headers = {
            "Content-Disposition": f'inline; filename="{file_name(sid)}"',
            "X-Content-Type-Options": "nosniff",
            "Content-Security-Policy": "sandbox; default-src 'none'",
        }
        return Response(markdown(seen.overview.checklist), media_type=MARKDOWN, headers=headers)


def _artifact(request: Request, file: Filed) -> Artifact:
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
