"""A held session with one MCP server: opened at its first use, kept, and opened anew after it broke.

The library's client is used as it is, because it owns the protocol in all its
revisions. ``langchain.mcp`` is not: its adapter cannot name tools, limit or
follow a single call, or start a server without lending it our environment.

A client must be left by the task that entered it, so every connection has a
task that does nothing else. Whatever befalls it is its own: a caller sees no
more than one failed call.
"""

import asyncio
import errno
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from contextvars import Context
from typing import Any
from urllib.parse import urlsplit

import httpx2
from mcp.client import Client, ClientRequestContext
from mcp.shared.dispatcher import ProgressFnT
from mcp.shared.exceptions import MCPError
from mcp_types import (
    CONNECTION_CLOSED,
    INVALID_REQUEST,
    ElicitRequestParams,
    ElicitResult,
    ErrorData,
    Implementation,
    Tool,
)

from stellwerk import __version__
from stellwerk.agents.mcp_call import Call
from stellwerk.agents.mcp_http import http
from stellwerk.agents.mcp_pipes import Overheard, pipes
from stellwerk.agents.models import Keys
from stellwerk.envelope.redaction import Redactor
from stellwerk.errors import McpUnreachable, ToolFailed
from stellwerk.logs import get_logger
from stellwerk.spec.operator import McpServer

_LEAVE = 8.0
"""Seconds in which a connection must have ended, its processes with it."""
_PROBE = 5.0
"""Seconds in which a server that left a call unanswered must show that it still lives."""
HOLD_OFF = 5.0
"""Seconds in which a server that could not be reached is not tried again; all who ask hear of the same failure."""
_MOST_PAGES = 100
_NO_LIST = (MCPError, TimeoutError, ValueError, RuntimeError)
"""What a client raises that cannot list its tools, the last if it was closed."""

logger = get_logger(__name__)


class McpSession:
    def __init__(self, name: str, server: McpServer, keys: Keys, *, start_timeout: float) -> None:
        self.name, self.server, self._keys = name, server, keys
        self._start_timeout = start_timeout
        self._redactor = Redactor()
        self._lock = asyncio.Lock()
        self._connection: _Connection | None = None
        self._retired: list[_Connection] = []
        self._closed = False

    async def tools(self) -> list[Tool]:
        """What the server offers now. The client keeps the list for as long as the server allows."""
        connection = await self._connected()
        try:
            return await connection.tools(self.server.timeout)
        except _NO_LIST as error:
            connection.doubtful = True
            raise self._unreachable(error) from error

    @asynccontextmanager
    async def call(self, tool: str, arguments: dict[str, Any], progress: ProgressFnT) -> AsyncIterator[Call]:
        """One call; whatever of it is still open is cancelled when the block is left. To connect is a part of it."""
        call = Call(self.name, tool, arguments, progress, self.server.timeout, self._redactor.redact_text)
        try:
            connection = await call.within_turn(self._connected())
        except McpUnreachable as error:
            raise ToolFailed(tool, f"cannot be called: {error.message}") from error
        call.client = connection.client
        connection.calls.append(call)
        try:
            yield call
        finally:
            connection.calls.remove(call)
            connection.doubtful |= call.failed
            await call.close()
            if connection in self._retired and not connection.calls:
                self._retired.remove(connection)
                await connection.close()

    async def close(self) -> None:
        """End the connection, and with it the server's processes; there is no other after this."""
        self._closed = True
        open_ones = (*self._retired, *filter(None, [self._connection]))
        await asyncio.gather(*(connection.close() for connection in open_ones))

    async def _connected(self) -> "_Connection":
        async with self._lock:
            server = self._filled()
            if self._connection is not None and self._connection.server != server:
                await self._retire(self._connection)
            if self._connection is not None and not await self._connection.usable():
                await self._connection.close()
                self._connection = None
            if self._closed:
                raise McpUnreachable(self.name, "Stellwerk is stopping; send this again when it runs")
            if self._connection is None:
                self._redactor.know(_secrets(server))
                # Kept before it is ready: a caller who gives up meanwhile leaves nothing behind.
                self._connection = _Connection(self.name, server, self._start_timeout)
            error = await self._connection.opened()
            if error is not None:
                raise self._unreachable(error, has_stderr=self._connection.has_stderr) from error
            return self._connection

    def _filled(self) -> McpServer:
        """As it is to be spoken with now: secrets may change."""

        def find(secret: str) -> str:
            value = self._keys.find(secret)
            if not value:
                said = f"it needs the secret {secret!r}, which is not stored; store it for your tenant"
                raise McpUnreachable(self.name, said)
            return value

        try:
            server = self.server.filled(find)
        except ValueError as error:
            raise McpUnreachable(self.name, f"{error}; store it anew") from None
        return server

    async def _retire(self, connection: "_Connection") -> None:
        """A secret has changed: the next call has another connection, and those under way end in peace."""
        self._connection = None
        if connection.calls:
            self._retired.append(connection)
        else:
            await connection.close()

    def _unreachable(self, error: BaseException, *, has_stderr: bool = False) -> McpUnreachable:
        # Not its command, address, headers or stderr: they may hold a key, and models and tenants read this.
        said = "; Stellwerk's log has what it wrote to stderr" if has_stderr else ""
        remedy = "see that it runs, or correct its entry under mcp_servers"
        return McpUnreachable(self.name, f"{_reason(error)}{said}; {remedy}")


class _Connection:
    """One life of a session, from the first word until either side ends it."""

    def __init__(self, name: str, server: McpServer, start_timeout: float) -> None:
        self._name, self.server = name, server
        self._overheard = Overheard(name, Redactor([*_secrets(server), *_private(server)]).redact_text)
        self._over = asyncio.Event()
        self._client: asyncio.Future[Client] = asyncio.get_running_loop().create_future()
        # Its own context: it outlives the run in which it happens to be opened.
        self._keeper = asyncio.create_task(self._keep(start_timeout), context=Context())
        self._keeper.add_done_callback(self._left)
        self._failed_at: float | None = None
        self.calls: list[Call] = []
        self.doubtful = False
        """A call failed; the next one finds out first whether anybody is there."""

    @property
    def client(self) -> Client:
        return self._client.result()

    async def opened(self) -> BaseException | None:
        """Wait until it is open, or return why it is not."""
        either: set[asyncio.Future[Any]] = {self._keeper, self._client}
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if self._client.done():
            return None
        if self._keeper.cancelled():
            return ConnectionAbortedError(errno.ECONNABORTED, "it was closed meanwhile")
        return self._keeper.exception()

    @property
    def has_stderr(self) -> bool:
        """Whether a server that we started wrote something to stderr."""
        return bool(self._overheard.last_words())

    async def usable(self) -> bool:
        """Whether the next call can have it; in doubt, and if no call would be harmed, the server has to show it.

        One that has just failed to open is good for telling so.
        """
        if self._failed_at is not None:
            return asyncio.get_running_loop().time() - self._failed_at < HOLD_OFF
        if self._over.is_set() or not self.doubtful or self.calls:
            return not self._over.is_set()
        try:
            async with asyncio.timeout(min(_PROBE, self.server.timeout)):
                await self.client.list_tools(cache_mode="refresh")
        except _NO_LIST:
            return False
        self.doubtful = False
        return True

    async def tools(self, patience: float) -> list[Tool]:
        found: list[Tool] = []
        cursor: str | None = None
        async with asyncio.timeout(patience):
            for _ in range(_MOST_PAGES):
                page = await self.client.list_tools(cursor=cursor)
                found += page.tools
                cursor = page.next_cursor
                if cursor is None:
                    break
        return found

    def end(self) -> None:
        self._over.set()

    async def close(self) -> None:
        self.end()
        if not self._client.done():
            self._keeper.cancel()
        await asyncio.wait({self._keeper}, timeout=_LEAVE)
        self._keeper.cancel()
        await asyncio.wait({self._keeper}, timeout=_LEAVE)

    async def _keep(self, start_timeout: float) -> None:
        client = Client(
            pipes(self.server, self.end, self._overheard) if self.server.command else http(self.server),
            client_info=Implementation(name="stellwerk", version=__version__),
            elicitation_callback=self._asked,
        )
        async with AsyncExitStack() as stack:
            async with asyncio.timeout(start_timeout):
                await stack.enter_async_context(client)
            self._client.set_result(client)
            try:
                await self._over.wait()
            finally:
                self._over.set()  # also if it broke: before any call of it fails

    async def _asked(self, context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult | ErrorData:
        """A server of an older revision asks in the middle of a call, without saying of which."""
        if len(self.calls) != 1:
            return ErrorData(code=INVALID_REQUEST, message="several calls are open; which of them asks is not known")
        return await self.calls[0].asked(params)

    def _left(self, keeper: asyncio.Task[None]) -> None:
        self._over.set()
        error = None if keeper.cancelled() else keeper.exception()
        if not self._client.done():
            self._failed_at = asyncio.get_running_loop().time()
            if error is not None and self.has_stderr:
                stderr = self._overheard.last_words()
                logger.warning("mcp_start_failed", server=self._name, reason=_reason(error), stderr=stderr)
        elif error is not None:
            logger.warning("mcp_session_broke", server=self._name, reason=_reason(error))


def _reason(error: BaseException) -> str:
    """The innermost cause, for what the library raises is a group of groups. Not in its own words, which quote ours."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    match error:
        case TimeoutError():
            return "it did not answer in time"
        case MCPError() if error.code == CONNECTION_CLOSED:
            return "it ended before it had answered"
        case MCPError():
            return f"it answered with the error {error.code}"
        case httpx2.HTTPError():
            return f"nothing at its address speaks with us ({type(error).__name__})"
        case OSError() if error.strerror:
            return error.strerror
    return f"it does not speak as it should ({type(error).__name__})"


def _secrets(server: McpServer) -> Iterator[str]:
    """What a server could tell the model of itself by mistake: keys in its headers and its address."""
    for value in server.headers.values():
        yield value
        yield value.split()[-1]
    yield from _secrets_of_address(server.url or "")


def _private(server: McpServer) -> Iterator[str]:
    """What a server that we start could write to stderr: keys in its variables, and behind options of its command."""
    yield from server.env.values()
    command = server.command or []
    for option, value in zip(command, command[1:], strict=False):
        if option.startswith("--"):
            yield value
    for argument in command:
        yield argument.partition("=")[2]
        yield from _secrets_of_address(argument)


def _secrets_of_address(text: str) -> Iterator[str]:
    """The password and the query of a URL; all of it if it cannot be parsed, such as ``http://[x``."""
    try:
        address = urlsplit(text)
    except ValueError:
        yield text
    else:
        yield from filter(None, (address.password, address.query))
