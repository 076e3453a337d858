"""MCP transports: the SDK's stdio and streamable HTTP, with limits on the size of messages.

The SDK's stdio transport accepts lines of any length, passes on a part of the
environment and leaves the child running if this server is killed. The command that
it starts is therefore our supervisor, which does none of that.
"""

import asyncio
import logging
import os
import shutil
import sys
import time
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import IO, Any, TextIO

import anyio
import httpx2
from mcp.client._transport import TransportStreams
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

from stellwerk.logs import get_logger
from stellwerk.processes import supervised_process, supervisor_script
from stellwerk.spec.operator import McpServer

MAX_MESSAGE_BYTES = 4 * 1024 * 1024
"""Bytes of one message; a larger one ends the session. Parsing a message blocks the event loop."""
MAX_CONTAINERS = 60_000
"""Lists and objects in one message: they dominate the time to parse it."""
MAX_LOG_LINES = 200
"""Lines of one server that are logged per minute, from stderr or invalid ones from stdout."""

_MAX_LINE = 500
_TAIL_LINES, _TAIL_CHARACTERS = 5, 200
"""The end of stderr that is logged if a server fails to start: lines, and characters of each."""
_MAX_SAID = 8192
"""Characters that are looked at, of one line or message."""
_DRAIN_TIMEOUT = 0.5
"""Seconds to read the remaining output of a dead server: its children may hold the pipe open."""
_CONNECT_TIMEOUT = 10.0
_EMPTY_LINES = (b"\n\n", b"\r\r", b"\r\n\r\n")

STDERR = "mcp_stderr"

logger = get_logger(__name__)

# It logs each invalid line with a traceback, without a limit and unredacted.
logging.getLogger("mcp.client.stdio").setLevel(logging.CRITICAL)


class ServerOutputLog:
    """Logs output of a server that is not a protocol message, truncated and rate-limited."""

    def __init__(self, server: str, redact: Callable[[str], str]) -> None:
        self._server, self._redact = server, redact
        self._minute_start, self._logged = time.monotonic(), 0
        self._tail = deque[str](maxlen=_TAIL_LINES)

    def log(self, event: str, said: str) -> None:
        if time.monotonic() - self._minute_start > 60:
            self._minute_start, self._logged = time.monotonic(), 0
        for line in map(self._redact, said[:_MAX_SAID].splitlines()):
            if event == STDERR and line.strip():
                self._tail.append(line.strip()[:_TAIL_CHARACTERS])
            self._logged += 1
            if self._logged <= MAX_LOG_LINES:
                logger.info(event, server=self._server, line=line[:_MAX_LINE])
            elif self._logged == MAX_LOG_LINES + 1:
                logger.warning("mcp_lines_dropped", server=self._server, limit=MAX_LOG_LINES)

    def log_too_long(self) -> None:
        limits = {"limit": MAX_MESSAGE_BYTES, "parts": MAX_CONTAINERS}
        logger.warning("mcp_message_too_long", server=self._server, **limits)

    def stderr_tail(self) -> str:
        """The end of stderr in one line; empty if there is none."""
        return " | ".join(self._tail)


@asynccontextmanager
async def stdio_transport(
    server: McpServer, ended: Callable[[], None], output: ServerOutputLog
) -> AsyncGenerator[TransportStreams]:
    """Start the server; leaving ends all its processes. ``ended`` is called when all have ended."""
    environment = supervised_process.command_environment(_start_request(server))
    command, *args = supervised_process.SUPERVISOR
    supervisor = StdioServerParameters(command=command, args=args, env=environment, encoding_error_handler="replace")
    reading, writing = _pipe()
    stderr_log = asyncio.create_task(_log_stderr(reading, output, ended))
    try:
        with writing as stderr:
            async with stdio_client(supervisor, stderr) as streams:
                stderr.close()  # only the processes of the server keep it open
                yield streams
    finally:
        with anyio.CancelScope(shield=True):
            mark = environment[supervised_process.MARK]
            await asyncio.to_thread(supervised_process.end_marked, mark)
            await asyncio.wait({stderr_log}, timeout=_DRAIN_TIMEOUT)
        stderr_log.cancel()


def _start_request(server: McpServer) -> dict[str, object]:
    """The start request for the supervisor.

    Raises:
        OSError: the command or its folder does not exist; the supervisor's error is not shown.
    """
    # This Python's folder has the programs of its virtual environment, even if not activated.
    folders = (os.path.dirname(sys.executable), *os.get_exec_path())
    environment = {"PATH": os.pathsep.join(folders)} | server.env
    program, *rest = server.command or [""]
    if os.sep in program:
        program = os.path.join(server.cwd or "", program)
    found = shutil.which(program, path=environment["PATH"])
    if found is None or not os.path.isdir(server.cwd or os.curdir):
        raise FileNotFoundError(0, "there is no such command, or no such cwd")
    command = [os.path.abspath(found), *rest]
    limits = {"bytes": MAX_MESSAGE_BYTES, "containers": MAX_CONTAINERS}
    return {"command": command, "env": environment, "cwd": server.cwd, "limits": limits}


def _pipe() -> tuple[IO[bytes], TextIO]:
    reading, writing = os.pipe()
    return open(reading, "rb", buffering=0), open(writing, "w")


async def _log_stderr(pipe: IO[bytes], output: ServerOutputLog, ended: Callable[[], None]) -> None:
    reader = asyncio.StreamReader()
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), pipe
    )
    try:
        while not reader.at_eof():
            with suppress(ValueError):  # a line of more than 64 KiB is dropped
                line = (await reader.readline()).decode(errors="replace").rstrip("\n")
                if line == supervisor_script.TOO_LONG:
                    output.log_too_long()
                    break  # the supervisor ends the server
                output.log(STDERR, line)
        ended()
    finally:
        transport.close()


@asynccontextmanager
async def http_transport(server: McpServer) -> AsyncGenerator[TransportStreams]:
    """The SDK's streamable HTTP transport. Without a read timeout: each call has its own."""
    timeout = httpx2.Timeout(None, connect=_CONNECT_TIMEOUT)
    hooks: dict[str, list[Any]] = {"response": [limit_response]}
    headers = {**server.headers, "accept-encoding": "identity"}  # limits count uncompressed bytes
    url, limit = server.url or "", MAX_MESSAGE_BYTES
    async with (
        httpx2.AsyncClient(headers=headers, timeout=timeout, event_hooks=hooks) as client,
        streamable_http_client(url, http_client=client, max_sse_event_size=limit) as streams,
    ):
        yield streams


async def limit_response(response: httpx2.Response) -> None:
    """A response hook that limits every response; the SDK limits only the bytes of an SSE event."""
    assert isinstance(response.stream, httpx2.AsyncByteStream)
    response.stream = _LimitedStream(response.stream, response.headers)


def _count_containers(text: bytes) -> int:
    """An upper bound of the lists and objects in a JSON text: brackets in strings count as well."""
    return text.count(b"[") + text.count(b"{")


class _LimitedStream(httpx2.AsyncByteStream):
    def __init__(self, stream: httpx2.AsyncByteStream, headers: httpx2.Headers) -> None:
        self._stream = stream
        self._compressed = headers.get("content-encoding", "identity") != "identity"
        self._events = "text/event-stream" in headers.get("content-type", "")
        self._size = self._containers = 0
        self._carry = b""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        if self._compressed:
            raise self._error("the answer is compressed although no compression was requested")
        async for chunk in self._stream:
            self._count(chunk)
            if self._size > MAX_MESSAGE_BYTES or self._containers > MAX_CONTAINERS:
                parts = f"has more than {MAX_CONTAINERS} lists and objects"
                raise self._error(f"the answer is longer than {MAX_MESSAGE_BYTES} bytes, or {parts}")
            yield chunk

    def _count(self, chunk: bytes) -> None:
        """Count bytes and containers; in an SSE stream, those of the event after the last empty line."""
        self._size += len(chunk)
        self._containers += _count_containers(chunk)
        if self._events:
            seen = self._carry + chunk
            begins = max(seen.rfind(end) + len(end) if end in seen else 0 for end in _EMPTY_LINES)
            if begins:
                self._size, self._containers = len(seen) - begins, _count_containers(seen[begins:])
            self._carry = seen[max(begins, len(seen) - 3) :]

    def _error(self, problem: str) -> Exception:
        # The SDK handles one of them in event streams and the other elsewhere.
        return httpx2.SSEError(problem) if self._events else httpx2.StreamError(problem)

    async def aclose(self) -> None:
        await self._stream.aclose()
