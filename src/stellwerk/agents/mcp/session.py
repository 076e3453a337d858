"""MCP session: a long-lived connection to one server, opened at first use and after a failure.

The SDK's client is used unchanged, because it covers all protocol revisions.
``langchain.mcp`` is not used: its adapter cannot name tools, limit or follow a
single call, or start a server without passing on the environment.

A client must be exited by the task that entered it, so every connection has a
task for that alone. A broken connection fails the calls on it and nothing else.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from contextvars import Context
from typing import Any
from urllib.parse import urlsplit

import httpx2
import mcp_types as types
from mcp.client import Client, ClientRequestContext
from mcp.shared.dispatcher import ProgressFnT
from mcp.shared.exceptions import MCPError
from pydantic import ValidationError

from stellwerk import __version__
from stellwerk.agents.mcp.call import McpCall, timed_out
from stellwerk.agents.mcp.transports import ServerOutputLog, http_transport, stdio_transport
from stellwerk.errors import McpUnreachable, ToolFailed
from stellwerk.logs import get_logger
from stellwerk.redaction.redactor import Redactor
from stellwerk.spec.operator import McpServer

_CLOSE_TIMEOUT = 8.0
"""Seconds that a connection and its processes have to end."""
_PROBE_TIMEOUT = 5.0
"""Seconds that a server has to answer a probe after a failed call."""
_MAX_PAGES = 100
_LIST_ERRORS = (MCPError, TimeoutError, ValueError, RuntimeError)
"""Errors of a client that cannot list tools; RuntimeError if it was closed."""

logger = get_logger(__name__)


class McpSession:
    def __init__(
        self,
        name: str,
        server: McpServer,
        find_secret: Callable[[str], str | None],
        start_timeout: float,
        retry_delay: float,
    ) -> None:
        self.name, self.server, self._find_secret = name, server, find_secret
        self._start_timeout, self._retry_delay = start_timeout, retry_delay
        self._lock = asyncio.Lock()
        self._connection: _Connection | None = None
        self._retired: list[_Connection] = []
        self._closed = False

    async def tools(self) -> list[types.Tool]:
        """The server's current tools. The client caches them for as long as the server allows."""
        connection = await self._connected()
        try:
            async with asyncio.timeout(self.server.timeout):
                return await connection.tools()
        except _LIST_ERRORS as error:
            connection.suspect = True
            raise self._unreachable(error) from error

    @asynccontextmanager
    async def call(self, tool: str, arguments: dict[str, Any], progress: ProgressFnT) -> AsyncIterator[McpCall]:
        """One call, including the time to connect. Leaving the block cancels what is still open."""
        timeout = self.server.timeout
        deadline = asyncio.get_running_loop().time() + timeout
        try:
            async with asyncio.timeout_at(deadline):
                connection = await self._connected()
        except TimeoutError:
            raise timed_out(self.name, tool, timeout) from None
        except McpUnreachable as error:
            raise ToolFailed(tool, f"cannot be called: {error.message}") from error
        client, redact = connection.client, connection.redact
        call = McpCall(self.name, tool, arguments, progress, client, redact, timeout, deadline)
        connection.calls.append(call)
        try:
            yield call
        finally:
            connection.calls.remove(call)
            connection.suspect |= call.failed
            await call.close()
            if connection in self._retired and not connection.calls:
                self._retired.remove(connection)
                await connection.close()

    async def close(self) -> None:
        """Close the connection for good, and end the server's processes."""
        self._closed = True
        open_ones = (*self._retired, *filter(None, [self._connection]))
        await asyncio.gather(*(connection.close() for connection in open_ones))

    async def _connected(self) -> "_Connection":
        async with self._lock:
            try:
                server = self.server.filled(self._find_secret)
            except ValueError as error:
                raise McpUnreachable(self.name, str(error)) from None
            await self._drop_unusable(server)
            if self._closed:
                problem = "Stellwerk is stopping; send this again when it runs"
                raise McpUnreachable(self.name, problem)
            if self._connection is None:
                # Stored before it is open, so that a caller that gives up leaves nothing behind.
                opening = _Connection(self.name, server, self._start_timeout, self._retry_delay)
                self._connection = opening
            failure = await self._connection.opened()
            if failure is not None:
                has_stderr = bool(self._connection.output.stderr_tail())
                raise self._unreachable(failure, has_stderr=has_stderr) from failure
            return self._connection

    async def _drop_unusable(self, server: McpServer) -> None:
        """Drop a failed connection. If a secret has changed, running calls may finish on theirs."""
        connection = self._connection
        if connection is None:
            return
        if connection.server != server and connection.calls:
            self._retired.append(connection)
        elif connection.server != server or not await connection.usable():
            await connection.close()
        else:
            return
        self._connection = None

    def _unreachable(self, error: BaseException, *, has_stderr: bool = False) -> McpUnreachable:
        # Without command, URL, headers and stderr, which may contain a key: models read this.
        said = "; Stellwerk's log has what it wrote to stderr" if has_stderr else ""
        remedy = "see that it runs, or correct its entry under mcp_servers"
        return McpUnreachable(self.name, f"{_reason(error)}{said}; {remedy}")


class _Connection:
    """One connection of a session, from the handshake until either side closes it."""

    def __init__(self, name: str, server: McpServer, start_timeout: float, retry_delay: float) -> None:
        self._name, self.server, self._retry_delay = name, server, retry_delay
        self.redact = Redactor(_secrets(server)).redact_text
        self.output = ServerOutputLog(name, self.redact)
        self._ended = asyncio.Event()
        self._client: asyncio.Future[Client] = asyncio.get_running_loop().create_future()
        # An empty context: the connection outlives the run that opens it.
        self._task = asyncio.create_task(self._hold(start_timeout), context=Context())
        self._task.add_done_callback(self._on_task_done)
        self._failed_at: float | None = None
        self.calls: list[McpCall] = []
        self.suspect = False
        """A call failed; before the next one, the server is probed."""

    @property
    def client(self) -> Client:
        return self._client.result()

    async def opened(self) -> BaseException | None:
        """Wait until the connection is open; return the error if it cannot be opened."""
        either: set[asyncio.Future[Any]] = {self._task, self._client}
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if self._client.done():
            return None
        if self._task.cancelled():
            return ConnectionAbortedError(0, "it was closed meanwhile")
        return self._task.exception()

    async def usable(self) -> bool:
        """Whether the next call can use this connection; a suspect one without calls is probed.

        One that has just failed to open stays for a while, to repeat its error.
        """
        if self._failed_at is not None:
            return asyncio.get_running_loop().time() - self._failed_at < self._retry_delay
        if self._ended.is_set() or not self.suspect or self.calls:
            return not self._ended.is_set()
        try:
            async with asyncio.timeout(min(_PROBE_TIMEOUT, self.server.timeout)):
                await self.client.list_tools(cache_mode="refresh")
        except _LIST_ERRORS:
            return False
        self.suspect = False
        return True

    async def tools(self) -> list[types.Tool]:
        found: list[types.Tool] = []
        cursor: str | None = None
        for _ in range(_MAX_PAGES):
            page = await self.client.list_tools(cursor=cursor)
            found += page.tools
            cursor = page.next_cursor
            if cursor is None:
                break
        return found

    async def close(self) -> None:
        self._ended.set()
        if not self._client.done():
            self._task.cancel()
        await asyncio.wait({self._task}, timeout=_CLOSE_TIMEOUT)
        self._task.cancel()
        await asyncio.wait({self._task}, timeout=_CLOSE_TIMEOUT)

    async def _hold(self, start_timeout: float) -> None:
        if self.server.command:
            transport = stdio_transport(self.server, self._ended.set, self.output)
        else:
            transport = http_transport(self.server)
        client = Client(
            transport,
            client_info=types.Implementation(name="stellwerk", version=__version__),
            elicitation_callback=self._on_elicitation,
            message_handler=self._on_message,
        )
        async with AsyncExitStack() as stack:
            async with asyncio.timeout(start_timeout):
                await stack.enter_async_context(client)
            self._client.set_result(client)
            try:
                await self._ended.wait()
            finally:
                self._ended.set()  # also after a failure, and before its calls fail

    async def _on_elicitation(
        self, context: ClientRequestContext, params: types.ElicitRequestParams
    ) -> types.ElicitResult | types.ErrorData:
        """An older protocol revision: the question comes during a call, without naming it."""
        if len(self.calls) != 1:
            problem = "several calls are open; which of them asks is not known"
            return types.ErrorData(code=types.INVALID_REQUEST, message=problem)
        return await self.calls[0].elicit(params)

    async def _on_message(self, message: object) -> None:
        """Log a line of stdout that is not a message; the SDK handles all messages itself."""
        if isinstance(message, ValidationError):
            self.output.log("mcp_garbage", str(message.errors(include_url=False)[0]["input"]))

    def _on_task_done(self, task: asyncio.Task[None]) -> None:
        self._ended.set()
        error = None if task.cancelled() else task.exception()
        if not self._client.done():
            self._failed_at = asyncio.get_running_loop().time()
        if error is None:
            return
        log = logger.bind(server=self._name, reason=_reason(error))
        if self._client.done():
            log.warning("mcp_session_broke")
        elif stderr := self.output.stderr_tail():
            log.warning("mcp_start_failed", stderr=stderr)


def _reason(error: BaseException) -> str:
    """The innermost cause, in our own words: the original text may quote secrets."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    match error:
        case TimeoutError():
            return "it did not answer in time"
        case MCPError() if error.code == types.CONNECTION_CLOSED:
            return "it ended before it had answered"
        case MCPError():
            return f"it answered with the error {error.code}"
        case httpx2.HTTPError():
            return f"nothing at its address speaks with us ({type(error).__name__})"
        case OSError() if error.strerror:
            return error.strerror
    return f"it does not speak as it should ({type(error).__name__})"


def _secrets(server: McpServer) -> Iterator[str]:
    """Secrets that a server could repeat: its headers, variables, options, and those in URLs."""
    yield from server.literal_secrets()
    command = server.command or []
    for option, value in zip(command, command[1:], strict=False):
        if option.startswith("--"):
            yield value
    for argument in (*command, server.url or ""):
        yield argument.partition("=")[2]
        try:
            address = urlsplit(argument)
        except ValueError:  # such as http://[x
            yield argument
        else:
            yield from filter(None, (address.password, address.query))
