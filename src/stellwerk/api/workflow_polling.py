"""/api/workflows/{workflow_id}/status, logs, messages: what clients ask for again and again.

Each is told from a fold that is kept in memory. Whoever has the last answer
already gets none, and the others get bytes that were made once.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, NamedTuple, TypeVar
from urllib.parse import quote, urlencode

import msgspec
from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from stellwerk.api import refusals, workflow_answers
from stellwerk.api.answers import address
from stellwerk.api.credentials import Reading
from stellwerk.api.openapi import lists, polled, says
from stellwerk.api.services import Services
from stellwerk.api.workflow_answers import WorkflowMessage, WorkflowStatus, status_of
from stellwerk.api.workflow_messages import told
from stellwerk.api.workflow_routes import (
    TAGS,
    FromLog,
    FromMessage,
    WorkflowId,
    WorkflowRoute,
    answered,
    may,
    unchanged,
)
from stellwerk.api.workflows import PATH, TAG
from stellwerk.errors import InvalidInput
from stellwerk.tenants.principals import Principal
from stellwerk.views.workflow import Workflow
from stellwerk.views.workflow_shapes import LogEntry, MessageShown

_KNOWN = (refusals.NO_WORKFLOW, refusals.GONE)
_PAGED = may(refusals.BAD_INPUT, refusals.NOT_IN_WORKFLOW, *_KNOWN)
LogLimit = Annotated[int, Query(ge=1, le=1000, description="how many, at most")]
MessageLimit = Annotated[int, Query(ge=1, le=500, description="how many, at most")]
Shown = TypeVar("Shown", LogEntry, MessageShown)


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
    async def status(who: Reading, request: Request, workflow_id: WorkflowId) -> Response:
        found = await services.workflows.folds.of(who.tenant, workflow_id)
        tag = TAGS["status"](found)
        return unchanged(request, tag) or answered(msgspec.json.encode(status_of(found)), tag)

    @router.get(
        "/logs",
        summary="The log entries of a workflow, in order; with `id`, only what follows that one",
        responses={**polled(lists(LogEntry, workflow_answers.ENTRY, "A page")), **_PAGED},
    )
    async def logs(
        who: Reading, request: Request, workflow_id: WorkflowId, after: FromLog = None, limit: LogLimit = 500
    ) -> Response:
        async def tell(entries: Sequence[LogEntry]) -> tuple[bytes, bool]:
            return msgspec.json.encode(entries), True

        asked = _Asked(who, request, workflow_id, "logs", after, limit)
        return await _page(services, asked, Workflow.logs_after, tell)


def _add_messages(router: APIRouter, services: Services) -> None:
    @router.get(
        "/messages",
        summary="The messages of a workflow, in order, with their files; with `id`, only what follows that one",
        responses={**polled(lists(WorkflowMessage, workflow_answers.MESSAGE, "A page")), **_PAGED},
    )
    async def messages(
        who: Reading, request: Request, workflow_id: WorkflowId, after: FromMessage = None, limit: MessageLimit = 100
    ) -> Response:
        """The id of a message that was deleted stays good for this. A file that is still being read is waited for, a
        few seconds."""

        async def tell(shown: Sequence[MessageShown]) -> tuple[bytes, bool]:
            whole, is_final = await told(services, who, request, shown)
            return msgspec.json.encode(whole), is_final

        asked = _Asked(who, request, workflow_id, "messages", after, limit)
        return await _page(services, asked, Workflow.messages_after, tell)


class _Asked(NamedTuple):
    """Which page of what, and who wants it."""

    who: Principal
    request: Request
    workflow_id: str
    what: str
    after: str | None
    limit: int

    def page_behind(self, id_: str) -> str:
        place = address(self.request, f"{PATH}/{quote(self.workflow_id, safe='')}/{self.what}")
        return f"{place}?{urlencode({'id': id_, 'limit': self.limit})}"


async def _page(
    services: Services,
    asked: _Asked,
    behind: Callable[[Workflow, str | None], Sequence[Shown] | None],
    tell: Callable[[Sequence[Shown]], Awaitable[tuple[bytes, bool]]],
) -> Response:
    """``tell`` makes the answer, and says whether that is how it stays."""
    found = await services.workflows.folds.of(asked.who.tenant, asked.workflow_id)
    shown = behind(found, asked.after or None)
    if shown is None:
        raise _not_ours(asked)
    tag = TAGS[asked.what](found)
    if (known := unchanged(asked.request, tag)) is not None:
        return known
    page = shown[: asked.limit]
    link = asked.page_behind(page[-1].id) if len(page) < len(shown) else None
    key = (asked.workflow_id, asked.what, asked.request.scope.get("root_path"), asked.after, asked.limit, tag)
    body = services.workflows.bodies.get(key)
    if body is None:
        body, is_final = await tell(page)
        if not is_final:
            return answered(body, None, link)
        services.workflows.bodies.keep(key, body)
    return answered(body, tag, link)


def _not_ours(asked: _Asked) -> InvalidInput:
    kind = {"logs": "log entry", "messages": "message"}[asked.what]
    told = f"id: there is no {kind} {(asked.after or '')[:60]!r} in this workflow; leave it out"
    return InvalidInput(told, field="id")
