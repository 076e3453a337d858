"""/a2a/{system}: the routes in front of the A2A server, an ASGI app of its own behind our authentication.

The routes of its package match every path of two segments, so they must not be among ours.
"""

import asyncio
from typing import TYPE_CHECKING

import msgspec
from fastapi import APIRouter, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from stellwerk.api.http.audit import only_reads
from stellwerk.api.http.auth import RequireReadTolerant, RequireRunTolerant
from stellwerk.api.services import Services
from stellwerk.errors import MalformedJson, MissingPackage, StellwerkError
from stellwerk.protocols.protocol import Protocol
from stellwerk.threads import in_thread

if TYPE_CHECKING:
    from stellwerk.tenants.principals import Principal

_PACKAGES = ("a2a", "google", "jsonrpc", "sse_starlette")
_CODES = {401: -32600, 403: -32600, 404: -32001, 405: -32601, 501: -32004}
PREFIX = "/a2a"
CALLER, SYSTEM = "stellwerk.a2a_caller", "stellwerk.a2a_system"
"""In the scope of the inner app."""


class _Below(Response):
    """The response of a route that the app of the package sends, for the path below the agent system."""

    def __init__(self, app: ASGIApp, who: "Principal", system: str, rest: str, sent: bytes = b"") -> None:
        super().__init__()
        self._app = app
        self._about = {CALLER: who, SYSTEM: system}
        self._rest = rest
        self._sent: list[bytes] = [sent]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        root = f"{scope.get('root_path', '')}{PREFIX}/{self._about[SYSTEM]}"
        inner = {**scope, **self._about, "root_path": root, "path": f"{root}/{self._rest}"}

        async def again() -> Message:
            return {"type": "http.request", "body": self._sent.pop()} if self._sent else await receive()

        await self._app(inner, again, send)


def routes(services: Services) -> APIRouter:
    router = APIRouter(prefix=PREFIX, include_in_schema=False)
    lock = asyncio.Lock()
    opened: list[ASGIApp] = []

    async def app() -> ASGIApp:
        async with lock:
            if not opened:
                opened.append(await in_thread(_new_app, services))
        return opened[0]

    @router.get("/{system}")
    @router.get("/{system}/{rest:path}")
    async def read(who: RequireReadTolerant, system: str, rest: str = "") -> Response:
        return _Below(await app(), who, system, rest)

    @router.api_route("/{system}", methods=["POST"])
    @router.api_route("/{system}/{rest:path}", methods=["POST", "DELETE"])
    async def call(who: RequireRunTolerant, request: Request, system: str, rest: str = "") -> Response:
        only_reads(request)  # the entry of a message is written with it
        try:
            (await request.body()).decode()
        except UnicodeDecodeError as error:
            raise MalformedJson(f"the body is not UTF-8: {error}", field="body") from error
        return _Below(await app(), who, system, rest, await request.body())

    return router


def _new_app(services: Services) -> ASGIApp:
    try:
        from stellwerk.protocols.a2a_server.server import new_app
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in _PACKAGES:
            raise
        raise MissingPackage("the A2A server at /a2a", install="path/to/stellwerk[a2a]") from error
    return new_app(services)


def problem(error: StellwerkError) -> Response:
    """A JSON-RPC error, with the fields that clients of HTTP+JSON read beside it."""
    code = _CODES.get(error.status, -32603 if error.status >= 500 else -32602)
    if error.code == "malformed_json":
        code = -32700
    failure = {"code": code, "message": error.message, "data": {"code": error.code}}
    body = msgspec.json.encode({"jsonrpc": "2.0", "id": None, "error": failure})
    return Response(body, error.status, media_type="application/json")


PROTOCOL = Protocol(prefix=PREFIX, routes=routes, problem=problem)
