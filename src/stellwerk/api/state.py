"""/sessions/{sid}/…: what can be known of a session without following it; folds of its log, all of them."""

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from stellwerk.api.services import LOCAL_TENANT, Services
from stellwerk.api.sessions import Json, may
from stellwerk.api.streaming import cursor
from stellwerk.api.systems import example
from stellwerk.documents.todolists import file_name
from stellwerk.views import overview, usage
from stellwerk.views.checklist import markdown
from stellwerk.views.documents import Filed

MARKDOWN = "text/markdown; charset=utf-8"
_MESSAGE = {"position": 2, "kind": "message", "role": "user", "text": "Hello", "message_id": "…", "ts": 1763251200.0}
_USAGE = {
    **{"input_tokens": 20, "output_tokens": 10, "model_calls": 2, "tool_calls": 1, "runs": 1, "seconds": 1.5},
    "models": [{"model": "scripted", "input_tokens": 20, "output_tokens": 10, "calls": 2}],
}
_STATE = {
    **{"status": "running", "round": 1, "run_id": "…", "awaiting_user_input": False, "questions": []},
    **{"version": 1, "tasks": [{"id": "t1", "title": "Look", "owner": "assistant", "status": "pending"}]},
    **{"blocker": None, "open_questions": [], "usage": _USAGE, "last_activity": 1763251200.0, "position": 12},
    "progress": {"percent": 0, "message": None, "tasks_over": 0, "tasks": 1},
}
_ARTIFACTS = [
    {"kind": "todolist", "name": "todolist.md", "mime": "text/markdown", "href": "/sessions/…/artifacts/todolist.md"},
    {"kind": "document", "name": "report.md", "mime": "text/markdown", "size": 8, "href": "/files/…"},
]


def routes(services: Services) -> APIRouter:
    router = APIRouter(prefix="/sessions", tags=["sessions"])
    _add_state(router, services)
    _add_artifacts(router, services)
    return router


def _add_state(router: APIRouter, services: Services) -> None:
    @router.get(
        "/{sid}/messages",
        summary="The transcript, page by page: messages, questions, answers",
        responses={200: example({"messages": [_MESSAGE], "next": None}), **may(400, 404, 422)},
    )
    async def messages(
        sid: str, after: str | None = None, limit: Annotated[int, Query(ge=1, le=500)] = 100
    ) -> Response:
        position = cursor(after)
        found = await services.overviews.transcript(LOCAL_TENANT, sid, after=position, limit=limit)
        return Json({"messages": found, "next": found[-1].position if len(found) == limit else None})

    @router.get(
        "/{sid}/state",
        summary="Where a session stands: status, questions, tasks, blocker, progress, usage",
        responses={200: example(_STATE), **may(404)},
    )
    async def state(sid: str) -> Response:
        seen = await services.overviews.of(LOCAL_TENANT, sid)
        return Json({**overview.as_json(seen.overview), "position": seen.position})

    @router.get(
        "/{sid}/usage",
        summary="What a session has used: tokens, calls, seconds",
        responses={200: example(_USAGE), **may(404)},
    )
    async def used(sid: str) -> Response:
        return Json(usage.as_json((await services.overviews.of(LOCAL_TENANT, sid)).overview.usage))


def _add_artifacts(router: APIRouter, services: Services) -> None:
    @router.get(
        "/{sid}/artifacts",
        summary="The files of a session, with links",
        responses={200: example({"artifacts": _ARTIFACTS}), **may(404)},
    )
    async def artifacts(request: Request, sid: str) -> Response:
        seen = await services.overviews.of(LOCAL_TENANT, sid)
        root = request.scope.get("root_path", "")
        todolist = {"kind": "todolist", "name": "todolist.md", "mime": "text/markdown"}
        listed = [{**todolist, "href": f"{root}/sessions/{sid}/artifacts/todolist.md"}]
        return Json({"artifacts": [*listed, *(_artifact(root, file) for file in seen.overview.documents)]})

    @router.get(
        "/{sid}/artifacts/todolist.md",
        summary="The to-do list as Markdown",
        response_class=Response,
        responses={
            200: {"description": "the list", "content": {"text/markdown": {"example": "# Checklist\n\n…"}}},
            **may(404),
        },
    )
    async def todolist(sid: str) -> Response:
        seen = await services.overviews.of(LOCAL_TENANT, sid)
        headers = {
            "Content-Disposition": f'inline; filename="{file_name(sid)}"',
            "X-Content-Type-Options": "nosniff",
            "Content-Security-Policy": "sandbox; default-src 'none'",
        }
        return Response(markdown(seen.overview.checklist), media_type=MARKDOWN, headers=headers)


def _artifact(root: str, file: Filed) -> dict[str, Any]:
    return {
        "kind": "document",
        "name": file.name,
        "mime": file.mime,
        "size": file.size,
        "document_id": file.document_id,
        "created_at": file.added_at,
        "run_id": file.run_id,
        "agent": file.agent,
        "href": f"{root}/files/{file.document_id}",
    }
