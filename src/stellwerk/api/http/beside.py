"""The app of a LangGraph project (``http.app`` of langgraph.json), beside our own routes.

It gets every request that no route of ours takes. The guard, body limits and read timeouts apply
to it as to us, and it asks for a credential of this server, unless the project's file opens it.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.authentication import AuthCredentials, SimpleUser
from starlette.requests import HTTPConnection
from starlette.types import Receive, Scope, Send

from stellwerk.agents.graphs.import_reference import load_reference, operator_code
from stellwerk.agents.graphs.langgraph_json import HttpApp
from stellwerk.api.http.auth import require_scope
from stellwerk.api.http.problems import error_response
from stellwerk.errors import BrokenReference, StellwerkError
from stellwerk.tenants.principals import SCOPES, Principal

_READS = ("GET", "HEAD", "OPTIONS")


@asynccontextmanager
async def app_beside(server: FastAPI, found: HttpApp | None) -> AsyncIterator[None]:
    """Run the project's app beside the server, which is open already.

    Raises:
        BrokenReference: it cannot be imported or started, or is no app of Starlette or FastAPI.
    """
    if found is None:
        yield
        return
    app = load_reference(found.reference)
    if not isinstance(app, Starlette):
        needed = "http.app is an app of Starlette or FastAPI"
        raise BrokenReference(found.reference, f"is of type {type(app).__name__}; {needed}")
    lifespan = app.router.lifespan_context(app)
    with operator_code(found.reference, "starting it"):
        state = await lifespan.__aenter__()
    before = server.router.default
    server.router.default = _Beside(app, dict(state or {}), is_open=found.is_open)
    try:
        yield
    finally:
        server.router.default = before
        await lifespan.__aexit__(None, None, None)


class _Beside:
    def __init__(self, app: Starlette, state: dict[str, Any], *, is_open: bool) -> None:
        self._app = app
        self._state = state
        self._is_open = is_open

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        given = {**scope, "state": dict(self._state)}
        if not self._is_open:
            try:
                who = await _principal(scope)
            except StellwerkError as error:
                await error_response(scope, error)(scope, receive, send)
                return
            given["user"] = SimpleUser(who.user or who.tenant)
            given["auth"] = AuthCredentials(sorted(scope for scope in SCOPES[who.role] if who.may(scope)))
        scope["endpoint"] = self  # not one of ours: the project decides on its Content-Security-Policy
        await self._app(given, receive, send)


async def _principal(scope: Scope) -> Principal:
    """Who asks: with the scope read, or run for requests that may change something."""
    server = scope["app"].state
    who: Principal = await server.credentials.principal(HTTPConnection(scope))
    server.quotas.request(who.tenant, None)
    return require_scope(who, "read" if scope.get("method") in _READS else "run")
