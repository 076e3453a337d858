"""The MCP server: sessions of clients, and agent systems as its tools."""

import asyncio
from typing import Any

import mcp_types as types
from mcp.server.auth.middleware.auth_context import AuthContextMiddleware
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.types import Receive, Scope, Send

import stellwerk
from stellwerk.api.services import Services
from stellwerk.protocols.mcp_server.calls import INPUT, OUTPUT, SystemCalls, principal_of
from stellwerk.protocols.protocol import BODY_LIMIT
from stellwerk.tenants.principals import Principal

NAME = "stellwerk"
_INSTRUCTIONS = (
    "Each tool is an agent. A call sends it a message and returns its answer with a session_id; "
    "call it again with that session_id to continue the conversation."
)
_ASKED = 7 * 24 * 3600.0
"""Seconds in which a question can be answered by its ``requestState``; later, by a call with its session."""
_PAGE = 100
_ENDING = 5.0
"""Seconds that calls get to answer when the server goes down."""
_CHANNEL, _NEVER = "mcp", 2**62
"""A watch ends when the server goes down; this one, of a session that does not exist, also once a second."""

Context = ServerRequestContext[Any, Any]


class AgentToolServer:
    """An ASGI app for requests that are authenticated."""

    def __init__(self, services: Services) -> None:
        self._services = services
        calls = SystemCalls(services)
        server: Server[Any] = Server(
            NAME,
            version=stellwerk.__version__,
            instructions=_INSTRUCTIONS,
            on_list_tools=self._tools,
            on_call_tool=calls.call,
        )
        security = RequestStateSecurity(keys=services.secrets.derived_keys("mcp requestState"), ttl=_ASKED)
        server.middleware.append(RequestStateBoundary(security, default_audience=NAME))
        self._sessions = StreamableHTTPSessionManager(server, max_request_body_size=BODY_LIMIT)
        self._app = AuthContextMiddleware(self._sessions.asgi_app)
        self._answering = 0
        self._answered = asyncio.Event()

    async def run(self, ready: asyncio.Event) -> None:
        """Serve until the process goes down."""
        async with self._sessions.run():
            ready.set()
            while not self._services.wakes.closed:
                with self._services.wakes.watch(_CHANNEL) as channel:
                    await channel.beyond(_NEVER)
            try:
                async with asyncio.timeout(_ENDING):
                    while self._answering:
                        self._answered.clear()
                        await self._answered.wait()
            except TimeoutError:
                pass  # what is left is cut off

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        who: Principal = scope["principal"]
        scope["user"] = _user(who)
        if scope["method"] == "GET":
            with self._services.quotas.stream(who.tenant):
                await self._app(scope, receive, send)
            return
        self._answering += 1
        try:
            await self._app(scope, receive, send)
        finally:
            self._answering -= 1
            self._answered.set()

    async def _tools(self, ctx: Context, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        after = (params.cursor if params is not None else None) or ""
        found = await self._services.systems.list(principal_of(ctx).tenant, after=after, limit=_PAGE)
        tools = [
            types.Tool(name=each.id, description=each.description or None, input_schema=INPUT, output_schema=OUTPUT)
            for each in found
            if not isinstance(each.unusable, str)
        ]
        return types.ListToolsResult(tools=tools, next_cursor=found[-1].id if len(found) == _PAGE else None)


def _user(who: Principal) -> AuthenticatedUser:
    """The owner of an MCP session and of its questions: this key, or this user of an issuer of tokens."""
    owner = who.key_id or who.user or "-"
    token = AccessToken(token="-", client_id=owner, scopes=[], subject=who.user, claims={"iss": who.tenant})
    return AuthenticatedUser(token)
