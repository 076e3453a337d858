"""Polling: /api/workflows/{workflow_id}/status, logs and messages, with ETags.

Each response is made from a fold that the cache keeps in memory. A client that already has the last
response gets 304 from ``NotModifiedMiddleware`` before any route is looked for: most polls are of
this kind, and routing would be most of their cost.
"""

import re
from collections.abc import Sequence
from typing import Annotated, NamedTuple
from urllib.parse import urlencode

import msgspec
from fastapi import APIRouter, Query
from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from stellwerk.api.http.auth import RequireRead, require_scope
from stellwerk.api.http.etags import answered, names, not_modified, unchanged
from stellwerk.api.schema.responses import address
from stellwerk.api.services import Services
from stellwerk.errors import InvalidInput, LimitReached, StellwerkError
from stellwerk.workflows.routes.schema import (
    ETAGS,
    PATH,
    FromLog,
    FromMessage,
    WorkflowId,
    WorkflowMessage,
    WorkflowStatus,
    returns_polled,
    status_of,
    workflow_router,
)
from stellwerk.workflows.routes.workflows import message_responses
from stellwerk.workflows.service import Workflows
from stellwerk.workflows.views.workflow import LogEntry, MessageView, Workflow

_PAGED = ("invalid_field", "invalid_input", "unknown_workflow")
LogLimit = Annotated[int, Query(ge=1, le=1000, description="how many, at most")]
MessageLimit = Annotated[int, Query(ge=1, le=500, description="how many, at most")]


def routes(workflows: Workflows) -> APIRouter:
    router = workflow_router("/{workflow_id}")

    @router.get("/status", **returns_polled(WorkflowStatus, "And nothing else", "unknown_workflow"))
    async def status(who: RequireRead, request: Request, workflow_id: WorkflowId) -> Response:
        """The status of a workflow, and when anything last happened."""
        found = await workflows.cache.of(who.tenant, workflow_id)
        tag = ETAGS["status"](found)
        return unchanged(request, tag) or answered(msgspec.json.encode(status_of(found)), tag)

    @router.get("/logs", **returns_polled(LogEntry, "A page", *_PAGED, listed=True))
    async def logs(
        who: RequireRead, request: Request, workflow_id: WorkflowId, after: FromLog = None, limit: LogLimit = 500
    ) -> Response:
        """The log entries of a workflow, in order; with `id`, only what follows that one."""
        found = await workflows.cache.of(who.tenant, workflow_id)
        entries = found.logs_after(after or None)
        if entries is None:
            raise _unknown_cursor("log entry", after)
        tag, link = ETAGS["logs"](found), _next_page(request, f"{workflow_id}/logs", entries, limit)
        return unchanged(request, tag) or answered(msgspec.json.encode(entries[:limit]), tag, link)

    @router.get("/messages", **returns_polled(WorkflowMessage, "A page", *_PAGED, listed=True))
    async def messages(
        who: RequireRead,
        request: Request,
        workflow_id: WorkflowId,
        after: FromMessage = None,
        limit: MessageLimit = 100,
    ) -> Response:
        """The messages of a workflow, in order, with their files; with `id`, only what follows that one.

        The id of a message that was deleted stays good for this. A file that is still being read is waited for, a
        few seconds.
        """
        found = await workflows.cache.of(who.tenant, workflow_id)
        shown = found.messages_after(after or None)
        if shown is None:
            raise _unknown_cursor("message", after)
        tag, link = ETAGS["messages"](found), _next_page(request, f"{workflow_id}/messages", shown, limit)
        if (known := unchanged(request, tag)) is not None:
            return known
        page, is_final = await message_responses(workflows, who, request, shown[:limit])
        return answered(msgspec.json.encode(page), tag if is_final else None, link)

    return router


def _next_page(request: Request, path: str, shown: Sequence[LogEntry | MessageView], limit: int) -> str | None:
    """The address of the page behind the first ``limit`` of these; None if there is none."""
    if len(shown) <= limit:
        return None
    return f"{address(request, f'{PATH}/{path}')}?{urlencode({'id': shown[limit - 1].id, 'limit': limit})}"


def _unknown_cursor(kind: str, after: str | None) -> InvalidInput:
    message = f"id: there is no {kind} {(after or '')[:60]!r} in this workflow; leave it out"
    return InvalidInput(message, field="id")


_POLL = re.compile(rf"/api/workflows/([0-9A-Za-z]+)/({'|'.join(ETAGS)})")
_CURSORS = {"logs": re.compile(rb"id=(log_[0-9A-Za-z]+)"), "messages": re.compile(rb"id=(msg_[0-9A-Za-z]+)")}


class PolledWorkflows(NamedTuple):
    """Set in the state of an app whose host adds no dependencies to its routes."""

    services: Services
    workflows: Workflows


class NotModifiedMiddleware:
    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not await self._answered(scope, receive, send):
            await self._app(scope, receive, send)

    async def _answered(self, scope: Scope, receive: Receive, send: Send) -> bool:
        polled: PolledWorkflows | None = getattr(scope["app"].state, "polled_workflows", None)
        known = _known(scope) if polled is not None and scope["type"] == "http" else None
        if polled is None or known is None:
            return False
        poll = _POLL.fullmatch(scope["path"].removeprefix(scope.get("root_path", "")))
        if poll is None:
            return False
        try:
            who = require_scope(await polled.services.credentials.principal(HTTPConnection(scope)), "read")
            found = await polled.workflows.cache.of(who.tenant, poll[1])
        except (StellwerkError, HTTPException):  # the route answers with the problem
            return False
        tag = ETAGS[poll[2]](found)
        if not names(known, tag) or not _is_checked(found, poll[2], scope["query_string"]):
            return False
        try:
            polled.services.quotas.request(who.tenant, poll[1])
        except LimitReached:  # the route answers 429
            return False
        await not_modified(tag)(scope, receive, send)
        return True


def _is_checked(found: Workflow, what: str, query: bytes) -> bool:
    """Whether the query needs no validation by the route: empty, or the id of a known entry."""
    cursor = _CURSORS[what].fullmatch(query) if what in _CURSORS else None
    return not query or (cursor is not None and found.knows(cursor[1].decode()))


def _known(scope: Scope) -> str | None:
    if scope["method"] != "GET":
        return None
    for name, value in scope["headers"]:
        if name == b"if-none-match":
            return str(value.decode("latin-1"))
    return None
