"""How the routes of workflows differ from others: bad input is 400, and unchanged answers are not sent again."""

from collections.abc import Callable, Coroutine
from functools import partial
from typing import Annotated, Any

from fastapi import Path, Query
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.responses import Response

from stellwerk.api import openapi, refusals
from stellwerk.api.answers import Json
from stellwerk.api.problems import Problem, of_invalid, problem_of
from stellwerk.api.workflow_answers import LOG_ID, MESSAGE_ID, WORKFLOW_ID
from stellwerk.errors import NotFound, StellwerkError
from stellwerk.views.workflow import Workflow
from stellwerk.workflows.folds import unknown_workflow

_FORM = 2
"""To be raised when the same workflow is told in other words."""
_POLLED = {"Cache-Control": "private, no-cache"}

WorkflowId = Annotated[str, Path(description="the id of a workflow", examples=[WORKFLOW_ID])]
MessageId = Annotated[str, Path(description="the id of a message", examples=[MESSAGE_ID])]
FromLog = Annotated[str | None, Query(alias="id", description="only what follows this entry", examples=[LOG_ID])]
FromMessage = Annotated[
    str | None, Query(alias="id", description="only what follows this message", examples=[MESSAGE_ID])
]

may = partial(openapi.may, parameter=refusals.BAD_PARAMETER)


class WorkflowRoute(APIRoute):
    """Their contract knows 400 for everything that a client has sent wrong."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def answer(request: Request) -> Response:
            try:
                return await handle(request)
            except RequestValidationError as error:
                return invalid(error, request)
            except StellwerkError as error:
                return problem_about(error, request.path_params.get("workflow_id") or request.query_params.get("id"))

        return answer


def invalid(error: RequestValidationError, request: Request) -> Problem:
    first = error.errors()[0]
    if first["loc"] == ("body",) and "json" not in request.headers.get("content-type", ""):
        return Problem(400, "invalid_field", "body: send it with Content-Type: application/json", field="body")
    return of_invalid(first, what="body", status=400)


def problem_about(error: StellwerkError, workflow_id: str | None) -> Problem:
    if isinstance(error, NotFound) and error.code == "unknown_session":
        error = unknown_workflow(workflow_id or "")
    if error.status == 422:
        return Problem(400, error.code, error.message, field=error.field)
    return problem_of(error)


def tag_of(*facts: object) -> str:
    """What an answer follows from, as an ETag; weak, because only its meaning is promised."""
    return f'W/"{".".join(map(str, (_FORM, *facts)))}"'


TAGS: dict[str, Callable[[Workflow], str]] = {
    "status": lambda found: tag_of(found.status, found.last_activity),
    "logs": lambda found: tag_of(found.removals, len(found.logs)),
    "messages": lambda found: tag_of(len(found.removed), found.changes),
}
"""Of what is asked for again and again; whatever else is in an address only cuts a piece out of it."""


def unchanged(request: Request, tag: str) -> Response | None:
    """304 if the client has this already."""
    known = request.headers.get("if-none-match")
    return None if known is None or not names(known, tag) else not_modified(tag)


def names(known: str, tag: str) -> bool:
    """Whether an If-None-Match has this tag in it, which may have lost its mark of weakness on the way."""
    return tag.removeprefix("W/") in known or known.strip() == "*"


def not_modified(tag: str) -> Response:
    return Response(status_code=304, headers={**_POLLED, "ETag": tag})


def next_page(place: str) -> dict[str, str]:
    return {"Link": f'<{place}>; rel="next"'}


def answered(body: bytes, tag: str | None, link: str | None = None) -> Response:
    """Without a tag, what is said is not final."""
    headers = dict(_POLLED)
    if tag is not None:
        headers["ETag"] = tag
    if link is not None:
        headers |= next_page(link)
    return Response(body, media_type=Json.media_type, headers=headers)
