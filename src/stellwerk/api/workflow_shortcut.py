"""The short way of a poll: whoever has the last answer already is told so before any route is looked for.

Most polls are of this kind, and what a route costs would be most of their cost.
Only where nobody has put checks of his own in front of the routes.
"""

import re

from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Receive, Scope, Send

from stellwerk.api.credentials import allowed
from stellwerk.api.services import Services
from stellwerk.api.workflow_routes import TAGS, names, not_modified
from stellwerk.errors import LimitReached, StellwerkError
from stellwerk.views.workflow import Workflow

_POLL = re.compile(rf"/api/workflows/([0-9A-Za-z]+)/({'|'.join(TAGS)})")
_CURSORS = {"logs": re.compile(rb"id=(log_[0-9A-Za-z]+)"), "messages": re.compile(rb"id=(msg_[0-9A-Za-z]+)")}


class Shortcut:
    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not await self._answered(scope, receive, send):
            await self._app(scope, receive, send)

    async def _answered(self, scope: Scope, receive: Receive, send: Send) -> bool:
        services: Services | None = getattr(scope["app"].state, "shortcut", None)
        known = _known(scope) if services is not None and scope["type"] == "http" else None
        if services is None or known is None:
            return False
        poll = _POLL.fullmatch(scope["path"].removeprefix(scope.get("root_path", "")))
        if poll is None:
            return False
        try:
            who = allowed(await services.credentials.principal(HTTPConnection(scope)), "read")
            found = await services.workflows.folds.of(who.tenant, poll[1])
        except (StellwerkError, HTTPException):  # the route says what is wrong
            return False
        tag = TAGS[poll[2]](found)
        if not names(known, tag) or not _is_sound(found, poll[2], scope["query_string"]):
            return False
        try:
            services.quotas.request(who.tenant, poll[1])
        except LimitReached:  # the route says so
            return False
        await not_modified(tag)(scope, receive, send)
        return True


def _is_sound(found: Workflow, what: str, query: bytes) -> bool:
    """Nothing is asked that the route would have to check; but for an id that we know, which most polls have."""
    cursor = _CURSORS[what].fullmatch(query) if what in _CURSORS else None
    return not query or (cursor is not None and found.knows(cursor[1].decode()))


def _known(scope: Scope) -> str | None:
    if scope["method"] != "GET":
        return None
    for name, value in scope["headers"]:
        if name == b"if-none-match":
            return str(value.decode("latin-1"))
    return None
