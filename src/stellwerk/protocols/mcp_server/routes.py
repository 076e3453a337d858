"""/mcp: the route in front of the MCP server, which is an ASGI app behind our authentication, quotas and audit."""

import asyncio
from contextvars import Context
from typing import TYPE_CHECKING

import msgspec
from fastapi import APIRouter, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from stellwerk.api.http.audit import only_reads
from stellwerk.api.http.auth import RequireRunTolerant
from stellwerk.api.services import Services
from stellwerk.errors import MissingPackage, StellwerkError
from stellwerk.protocols.protocol import Protocol
from stellwerk.threads import in_thread

if TYPE_CHECKING:
    from stellwerk.protocols.mcp_server.server import AgentToolServer

_PACKAGES = ("mcp", "mcp_types")
_PARSE_ERROR, _INVALID_REQUEST, _INTERNAL_ERROR = -32700, -32600, -32603


class _HandedOn(Response):
    """The response of a route that the MCP server sends."""

    def __init__(self, server: "AgentToolServer") -> None:
        super().__init__()
        self._server = server

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._server(scope, receive, send)


class _Opening:
    """The MCP server of this process, opened by the first request: its package takes seconds to import."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._lock = asyncio.Lock()
        self._server: AgentToolServer | None = None
        self._running: asyncio.Task[None] | None = None

    async def server(self) -> "AgentToolServer":
        """
        Raises:
            MissingPackage: the extra is not installed.
        """
        async with self._lock:
            if self._server is None:
                server = await in_thread(_new_server, self._services)
                ready = asyncio.Event()
                self._running = asyncio.create_task(server.run(ready), context=Context())
                await ready.wait()
                self._server = server
            return self._server


def _new_server(services: Services) -> "AgentToolServer":
    try:
        from stellwerk.protocols.mcp_server.server import AgentToolServer
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in _PACKAGES:
            raise
        raise MissingPackage("the MCP server at /mcp", install="path/to/stellwerk[mcp]") from error
    return AgentToolServer(services)


def routes(services: Services) -> APIRouter:
    router = APIRouter(include_in_schema=False)
    opening = _Opening(services)

    @router.api_route("/mcp", methods=["GET", "POST", "DELETE"])
    async def mcp(who: RequireRunTolerant, request: Request) -> Response:
        only_reads(request)  # most requests are; the entry of a call is written with its message
        return _HandedOn(await opening.server())

    return router


def problem(error: StellwerkError) -> Response:
    """A JSON-RPC error without the id of a request, which has not been read."""
    code = _INTERNAL_ERROR if error.status >= 500 else _INVALID_REQUEST
    if error.code == "malformed_json":
        code = _PARSE_ERROR
    failure = {"code": code, "message": error.message, "data": {"code": error.code}}
    body = msgspec.json.encode({"jsonrpc": "2.0", "id": None, "error": failure})
    return Response(body, error.status, media_type="application/json")


PROTOCOL = Protocol(prefix="/mcp", routes=routes, problem=problem)
