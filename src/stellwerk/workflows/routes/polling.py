"""Polling: /api/workflows/{workflow_id}/status, logs and messages, with ETags.

Each response is made from a fold that the cache keeps in memory. A client that already has the last
response gets 304 from ``NotModifiedMiddleware`` before any route is looked for: most polls are of
this kind, and routing would be most of their cost.
"""

import re
from collections.abc import Callable, Sequence
from typing import Annotated
from urllib.parse import urlencode

import msgspec
from fastapi import APIRouter, Query
from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from stellwerk.api.http import etags
from stellwerk.api.http.auth import RequireRead, require_scope
from stellwerk.api.schema.shared import address
from stellwerk.errors import InvalidInput, StellwerkError
from stellwerk.workflows.routes import schema
from stellwerk.workflows.routes.workflows import with_documents
from stellwerk.workflows.service import Workflows
from stellwerk.workflows.views.workflow import LogEntry, MessageView, Workflow, iso

_PAGED = ("invalid_field", "invalid_input", "unknown_workflow")
LogLimit = Annotated[int, Query(ge=1, le=1000, description="how many, at most")]
MessageLimit = Annotated[int, Query(ge=1, le=500, description="how many, at most")]
FromLog = Annotated[
    str | None,
    Query(alias="id", description="only what follows this entry", examples=["log_3kTq0vXqk1zLw0yZ8bJt2c"]),
]
FromMessage = Annotated[
    str | None,
    Query(alias="id", description="only what follows this message", examples=[schema.MESSAGE_ID]),
]

TAGS: dict[str, Callable[[Workflow], str]] = {
    "status": lambda found: etags.tag_of(found.status, found.last_activity),
    "logs": lambda found: etags.tag_of(found.removals, len(found.logs)),
    "messages": lambda found: etags.tag_of(len(found.removed), found.changes),
}
"""ETags of what clients poll; query parameters only select a part of it."""


def routes(workflows: Workflows) -> APIRouter:
    router = schema.workflow_router("/{workflow_id}")

    @router.get("/status", **schema.returns_polled(schema.WorkflowStatus, "And nothing else", "unknown_workflow"))
    async def status(who: RequireRead, request: Request, workflow_id: schema.WorkflowId) -> Response:
        """The status of a workflow, and when anything last happened."""
        found = await workflows.cache.of(who.tenant, workflow_id)
        tag, body = TAGS["status"](found), {"status": found.status, "lastActivity": iso(found.last_activity)}
        return etags.unchanged(request, tag) or etags.answered(msgspec.json.encode(body), tag)

    @router.get("/logs", **schema.returns_polled(LogEntry, "A page", *_PAGED, listed=True))
    async def logs(
        who: RequireRead,
        request: Request,
        workflow_id: schema.WorkflowId,
        after: FromLog = None,
        limit: LogLimit = 500,
    ) -> Response:
        """The log entries of a workflow, in order; with `id`, only what follows that one."""
        found = await workflows.cache.of(who.tenant, workflow_id)
        entries = found.logs_after(after or None)
        if entries is None:
            raise _unknown_cursor("log entry", after)
        tag, link = TAGS["logs"](found), _next_page(request, f"{workflow_id}/logs", entries, limit)
        return etags.unchanged(request, tag) or etags.answered(msgspec.json.encode(entries[:limit]), tag, link)

    @router.get("/messages", **schema.returns_polled(schema.WorkflowMessage, "A page", *_PAGED, listed=True))
    async def messages(
        who: RequireRead,
        request: Request,
        workflow_id: schema.WorkflowId,
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
        tag, link = TAGS["messages"](found), _next_page(request, f"{workflow_id}/messages", shown, limit)
        if (known := etags.unchanged(request, tag)) is not None:
            return known
        page, is_final = await with_documents(workflows, who.tenant, request, shown[:limit])
        return etags.answered(msgspec.json.encode(page), tag if is_final else None, link)

    return router


def _next_page(request: Request, path: str, shown: Sequence[LogEntry | MessageView], limit: int) -> str | None:
    """The address of the page behind the first ``limit`` of these; None if there is none."""
    if len(shown) <= limit:
        return None
    query = urlencode({"id": shown[limit - 1].id, "limit": limit})
    return f"{address(request, f'{schema.PATH}/{path}')}?{query}"


def _unknown_cursor(kind: str, after: str | None) -> InvalidInput:
    message = f"id: there is no {kind} {(after or '')[:60]!r} in this workflow; leave it out"
    return InvalidInput(message, field="id")


_POLL = re.compile(rf"{schema.PATH}/([0-9A-Za-z]+)/({'|'.join(TAGS)})")
_CURSORS = {"logs": re.compile(rb"id=(log_[0-9A-Za-z]+)"), "messages": re.compile(rb"id=(msg_[0-9A-Za-z]+)")}


class NotModifiedMiddleware:
    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_get = scope["type"] == "http" and scope["method"] == "GET"
        tag = await _known_tag(HTTPConnection(scope)) if is_get else None
        answer = self._app if tag is None else etags.not_modified(tag)
        await answer(scope, receive, send)


async def _known_tag(request: HTTPConnection) -> str | None:
    """The ETag of a poll whose response the client already has; None for any other request."""
    workflows: Workflows | None = getattr(request.app.state, "polled_workflows", None)
    known = request.headers.get("if-none-match")
    if workflows is None or known is None:
        return None
    scope = request.scope
    poll = _POLL.fullmatch(scope["path"].removeprefix(scope.get("root_path", "")))
    if poll is None:
        return None
    workflow_id, polled = poll.groups()
    try:
        who = require_scope(await workflows.services.credentials.principal(request), "read")
        found = await workflows.cache.of(who.tenant, workflow_id)
        tag = TAGS[polled](found)
        if not etags.names(known, tag) or not _is_checked(found, polled, scope["query_string"]):
            return None
        workflows.services.quotas.request(who.tenant, workflow_id)
    except (StellwerkError, HTTPException):  # the route answers with the problem
        return None
    return tag


def _is_checked(found: Workflow, polled: str, query: bytes) -> bool:
    """Whether the query needs no validation by the route: empty, or the id of a known entry."""
    cursor = _CURSORS[polled].fullmatch(query) if polled in _CURSORS else None
    return not query or (cursor is not None and found.knows(cursor[1].decode()))
