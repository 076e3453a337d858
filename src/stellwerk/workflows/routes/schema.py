"""Parameters, problems and response types of workflow routes, with examples; bad input is 400."""

from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path as FilePath
from typing import Annotated, Any, Literal

import msgspec
from fastapi import APIRouter, Path, Query
from fastapi.exceptions import RequestValidationError
from msgspec import Struct, structs
from starlette.requests import Request
from starlette.responses import Response

from stellwerk.api.http.etags import tag_of
from stellwerk.api.http.problems import ProblemResponse, invalid_request, problem_response
from stellwerk.api.schema import openapi
from stellwerk.errors import NotFound, StellwerkError
from stellwerk.workflows.cache import unknown_workflow
from stellwerk.workflows.message_documents import WorkflowDocument
from stellwerk.workflows.service import Started, WorkflowHead
from stellwerk.workflows.views.workflow import (
    DataStats,
    FileReference,
    GenericMessage,
    LogEntry,
    MessageView,
    Workflow,
    WorkflowState,
    iso,
)

PATH = "/api/workflows"
TAG = "workflows"
WorkflowId = Annotated[str, Path(description="the id of a workflow", examples=["034yEnpqoVHlJvW0id6mKI"])]
_LOG_ID, _MESSAGE_ID = "log_3kTq0vXqk1zLw0yZ8bJt2c", "msg_1pZr9dQmE4uYx7kWn2sVfA"
MessageId = Annotated[str, Path(description="the id of a message", examples=[_MESSAGE_ID])]
FromLog = Annotated[str | None, Query(alias="id", description="only what follows this entry", examples=[_LOG_ID])]
FromMessage = Annotated[
    str | None, Query(alias="id", description="only what follows this message", examples=[_MESSAGE_ID])
]

_EXAMPLES: dict[str, Any] = msgspec.yaml.decode(FilePath(__file__).with_name("examples.yaml").read_bytes())
_PROBLEMS = {name: ProblemResponse(**{"code": name, **about}) for name, about in _EXAMPLES["problems"].items()}


def workflow_router(prefix: str = "") -> APIRouter:
    return APIRouter(prefix=f"{PATH}{prefix}", tags=[TAG], default_response_class=Response, route_class=WorkflowRoute)


def returns(kind: type, description: str, *problems: str, example: str = "") -> dict[str, Any]:
    """Options of a route that responds with JSON of this type, or with one of these problems."""
    return {"responses": {200: openapi.ok(kind, _example(kind, example), description), **_errors(*problems)}}


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
                return problem_about(invalid_request(request, error), None)
            except StellwerkError as error:
                return problem_about(error, request.path_params.get("workflow_id") or request.query_params.get("id"))

        return answer


def problem_about(error: StellwerkError, workflow_id: str | None) -> ProblemResponse:
    if isinstance(error, NotFound) and error.code == "unknown_session":
        error = unknown_workflow(workflow_id or "")
    if error.status == 422:
        return ProblemResponse(400, error.code, error.message, field=error.field)
    return problem_response(error)


ETAGS: dict[str, Callable[[Workflow], str]] = {
    "status": lambda found: tag_of(found.status, found.last_activity),
    "logs": lambda found: tag_of(found.removals, len(found.logs)),
    "messages": lambda found: tag_of(len(found.removed), found.changes),
}
"""ETags of what clients poll; query parameters only select a part of it."""


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


def status_of(workflow: Workflow) -> WorkflowStatus:
    return WorkflowStatus(status=workflow.status or "running", last_activity=iso(workflow.last_activity))


def whole_workflow(workflow: Workflow) -> partial[WorkflowInfo]:
    """All fields but the messages: the workflow may change while their documents are read."""
    return partial(
        WorkflowInfo,
        id=workflow.id,
        mandate_id=workflow.mandate_id,
        user_id=workflow.user_id,
        name=workflow.name,
        started_at=iso(workflow.started_at),
        status=workflow.status or "running",
        last_activity=iso(workflow.last_activity),
        data_stats=workflow.figures,
        current_round=workflow.round,
        awaiting_user_input=workflow.awaiting_user_input,
        failed_tasks=workflow.failed_tasks,
        message_ids=tuple(message.id for message in workflow.messages),
        logs=tuple(workflow.logs),
    )


def with_documents(message: MessageView, documents: dict[FileReference, WorkflowDocument]) -> WorkflowMessage:
    own = tuple(documents[file] for file in message.documents)
    return WorkflowMessage(**{**structs.asdict(message), "documents": own})


ANSWERS = (
    *(WorkflowMessage, WorkflowStatus, WorkflowInfo, WorkflowStopped, Removed),
    *(LogEntry, WorkflowDocument, WorkflowHead, Started),
)
