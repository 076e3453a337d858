"""/api/workflows/{workflow_id}/status, logs, messages: what clients ask for again and again.

Each is told from a fold that is kept in memory. Whoever has the last answer
already gets none, and the others get bytes that were made once.
"""

from collections.abc import Sequence
from typing import Annotated
from urllib.parse import quote, urlencode

import msgspec
from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from stellwerk.api import refusals, workflow_answers
from stellwerk.api.answers import address
from stellwerk.api.openapi import lists, may, polled, says
from stellwerk.api.services import LOCAL_TENANT, Services
from stellwerk.api.workflow_answers import WorkflowMessage, WorkflowStatus, status_of
from stellwerk.api.workflow_messages import told
from stellwerk.api.workflow_routes import TAGS, FromLog, FromMessage, WorkflowId, WorkflowRoute, unchanged
from stellwerk.api.workflow_routes import polled as answered
from stellwerk.api.workflows import PATH, TAG
from stellwerk.errors import InvalidInput
from stellwerk.views.workflow_shapes import LogEntry, MessageShown

_KNOWN = (refusals.NO_WORKFLOW, refusals.GONE)
_PAGED = may(refusals.BAD_INPUT, refusals.NOT_IN_WORKFLOW, *_KNOWN)
LogLimit = Annotated[int, Query(ge=1, le=1000, description="how many, at most")]
MessageLimit = Annotated[int, Query(ge=1, le=500, description="how many, at most")]


def routes(services: Services) -> APIRouter:
    prefix = f"{PATH}/{{workflow_id}}"
    router = APIRouter(prefix=prefix, tags=[TAG], default_response_class=Response, route_class=WorkflowRoute)
    _add_status_and_logs(router, services)
    _add_messages(router, services)
    return router


def _add_status_and_logs(router: APIRouter, services: Services) -> None:
    @router.get(
        "/status",
        summary="Where a workflow stands: its status, and when anything last happened",
        responses={**polled(says(WorkflowStatus, workflow_answers.STATUS, "And nothing else")), **may(*_KNOWN)},
    )
    async def status(request: Request, workflow_id: WorkflowId) -> Response:
        found = await services.workflows.folds.of(LOCAL_TENANT, workflow_id)
        tag = TAGS["status"](found)
        return unchanged(request, tag) or answered(msgspec.json.encode(status_of(found)), tag)

    @router.get(
        "/logs",
        summary="The log entries of a workflow, in order; with `id`, only what follows that one",
        responses={**polled(lists(LogEntry, workflow_answers.ENTRY, "A page")), **_PAGED},
    )
    async def logs(request: Request, workflow_id: WorkflowId, after: FromLog = None, limit: LogLimit = 500) -> Response:
        found = await services.workflows.folds.of(LOCAL_TENANT, workflow_id)
        tag = TAGS["logs"](found)
        if (known := unchanged(request, tag)) is not None:
            return known
        entries = found.logs_after(after or None)
        if entries is None:
            raise _not_ours(after, "log entry")
        page, link = entries[:limit], _next(_place(request, workflow_id, "logs"), entries, limit)
        key = (workflow_id, "logs", after, limit, tag)
        return answered(services.workflows.bodies.made(key, lambda: msgspec.json.encode(page)), tag, link)


def _add_messages(router: APIRouter, services: Services) -> None:
    @router.get(
        "/messages",
        summary="The messages of a workflow, in order, with their files; with `id`, only what follows that one",
        responses={**polled(lists(WorkflowMessage, workflow_answers.MESSAGE, "A page")), **_PAGED},
    )
    async def messages(
        request: Request, workflow_id: WorkflowId, after: FromMessage = None, limit: MessageLimit = 100
    ) -> Response:
        """The id of a message that was deleted stays good for this. A file that is still being read is waited for, a
        few seconds."""
        found = await services.workflows.folds.of(LOCAL_TENANT, workflow_id)
        tag = TAGS["messages"](found)
        if (known := unchanged(request, tag)) is not None:
            return known
        shown = found.messages_after(after or None)
        if shown is None:
            raise _not_ours(after, "message")
        page, link = shown[:limit], _next(_place(request, workflow_id, "messages"), shown, limit)
        key = (workflow_id, "messages", request.scope.get("root_path"), after, limit, tag)
        body = services.workflows.bodies.get(key)
        if body is None:
            whole, is_final = await told(services, request, page)
            body = msgspec.json.encode(whole)
            if not is_final:
                return answered(body, None, link)
            services.workflows.bodies.keep(key, body)
        return answered(body, tag, link)


def _place(request: Request, workflow_id: str, what: str) -> str:
    return address(request, f"{PATH}/{quote(workflow_id, safe='')}/{what}")


def _next(place: str, found: Sequence[LogEntry] | Sequence[MessageShown], limit: int) -> str | None:
    return None if len(found) <= limit else f"{place}?{urlencode({'id': found[limit - 1].id, 'limit': limit})}"


def _not_ours(id_: str | None, kind: str) -> InvalidInput:
    return InvalidInput(f"id: there is no {kind} {(id_ or '')[:60]!r} in this workflow; leave it out", field="id")
