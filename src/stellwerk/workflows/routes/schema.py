"""Parameters, problems and response types of workflow routes, with examples; bad input is 400."""

from collections.abc import Callable, Coroutine
from pathlib import Path as FilePath
from typing import Annotated, Any, Literal

import msgspec
from fastapi import APIRouter, Path
from fastapi.exceptions import RequestValidationError
from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from stellwerk.api.http.problems import ProblemResponse, invalid_request, problem_response
from stellwerk.api.schema import openapi
from stellwerk.errors import NotFound, StellwerkError
from stellwerk.workflows.cache import unknown_workflow
from stellwerk.workflows.message_documents import WorkflowDocument
from stellwerk.workflows.service import Started, WorkflowHead
from stellwerk.workflows.views.workflow import DataStats, GenericMessage, LogEntry, WorkflowState

PATH = "/api/workflows"
TAG = "workflows"
WorkflowId = Annotated[str, Path(description="the id of a workflow", examples=["034yEnpqoVHlJvW0id6mKI"])]
MESSAGE_ID = "msg_1pZr9dQmE4uYx7kWn2sVfA"
MessageId = Annotated[str, Path(description="the id of a message", examples=[MESSAGE_ID])]

_FILE = FilePath(__file__).with_name("examples.yaml")
_EXAMPLES: dict[str, Any] = msgspec.yaml.decode(_FILE.read_bytes())
_PROBLEMS = {name: ProblemResponse(**{"code": name, **about}) for name, about in _EXAMPLES["problems"].items()}


def workflow_router(prefix: str = "") -> APIRouter:
    return APIRouter(prefix=f"{PATH}{prefix}", tags=[TAG], default_response_class=Response, route_class=WorkflowRoute)


def returns(kind: type, description: str, *problems: str, example: str = "") -> dict[str, Any]:
    """Options of a route that responds with JSON of this type, or with one of these problems."""
    answer = openapi.ok(kind, _example(kind, example), description)
    return {"responses": {200: answer, **_errors(*problems)}}


def returns_polled(kind: type, description: str, *problems: str, listed: bool = False) -> dict[str, Any]:
    """Options of a route whose response has an ETag; with ``listed`` it is a page of this type."""
    answer = (openapi.ok_list if listed else openapi.ok)(kind, _example(kind), description)
    return {"responses": {**openapi.with_etag(answer), **_errors(*problems, "storage_gone")}}


def _example(kind: type, name: str = "") -> Any:
    return _EXAMPLES["responses"][f"{kind.__name__}.{name}" if name else kind.__name__]


def _errors(*problems: str) -> openapi.Responses:
    found = [_PROBLEMS.get(name, name) for name in problems]
    return openapi.errors(*found, parameter=_PROBLEMS["unknown_parameter"])


class WorkflowRoute(openapi.DocumentedRoute):
    """The contract of workflows has 400 for every invalid request."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def answer(request: Request) -> Response:
            try:
                return await handle(request)
            except RequestValidationError as error:
                return _problem(invalid_request(request, error))
            except StellwerkError as error:
                if isinstance(error, NotFound) and error.code == "unknown_session":
                    given = request.path_params.get("workflow_id") or request.query_params.get("id")
                    error = unknown_workflow(given or "")
                return _problem(error)

        return answer


def _problem(error: StellwerkError) -> ProblemResponse:
    if error.status == 422:
        return ProblemResponse(400, error.code, error.message, field=error.field)
    return problem_response(error)


class WorkflowMessage(GenericMessage[WorkflowDocument], frozen=True, kw_only=True, rename="camel"):
    """Something that was said, with its files."""


class WorkflowStatus(Struct, frozen=True, kw_only=True, rename="camel"):
    """All that a client needs which asks again and again."""

    status: WorkflowState
    last_activity: str


class WorkflowInfo(Struct, frozen=True, kw_only=True, rename="camel"):
    """A workflow, whole."""

    id: str
    mandate_id: int
    user_id: int
    name: str
    started_at: str
    status: WorkflowState
    last_activity: str
    data_stats: DataStats
    current_round: int
    awaiting_user_input: bool
    failed_tasks: int
    message_ids: tuple[str, ...]
    messages: tuple[WorkflowMessage, ...]
    logs: tuple[LogEntry, ...]


class WorkflowStopped(Struct, frozen=True, kw_only=True):
    """The status of a workflow of which nothing is under way."""

    id: str
    status: WorkflowState


class Removed(Struct, frozen=True, kw_only=True):
    """It is gone."""

    id: str
    status: Literal["deleted"] = "deleted"


ANSWERS = (
    *(WorkflowMessage, WorkflowStatus, WorkflowInfo, WorkflowStopped, Removed),
    *(LogEntry, WorkflowDocument, WorkflowHead, Started),
)
