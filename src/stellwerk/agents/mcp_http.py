"""An MCP server at an address, over streamable HTTP, with the operator's headers and within our bounds."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
from mcp.client import Transport
from mcp.client.streamable_http import streamable_http_client

from stellwerk.agents.mcp_pipes import LONGEST_MESSAGE, MOST_PARTS, parts_of
from stellwerk.spec.operator import McpServer

_CONNECT = 10.0
_EMPTY_LINES = (b"\n\n", b"\r\r", b"\r\n\r\n")


def http(server: McpServer) -> Transport:
    """The library's transport. How long a call may take is decided for each call, not here: a stream may rest."""
    return _http(server)


@asynccontextmanager
async def _http(server: McpServer) -> AsyncGenerator[Any]:
    timeout = httpx2.Timeout(None, connect=_CONNECT)
    hooks: dict[str, list[Any]] = {"response": [bounded]}
    headers = {**server.headers, "accept-encoding": "identity"}  # what is counted must be what is read
    async with (
        httpx2.AsyncClient(headers=headers, timeout=timeout, event_hooks=hooks) as client,
        streamable_http_client(server.url or "", http_client=client, max_sse_event_size=LONGEST_MESSAGE) as streams,
    ):
        yield streams


async def bounded(response: httpx2.Response) -> None:
    """The library limits the bytes of an event in a stream, and nothing else."""
    assert isinstance(response.stream, httpx2.AsyncByteStream)
    response.stream = _Bounded(response.stream, response.headers)


class _Bounded(httpx2.AsyncByteStream):
    def __init__(self, stream: httpx2.AsyncByteStream, headers: httpx2.Headers) -> None:
        self._stream = stream
        self._packed = headers.get("content-encoding", "identity") != "identity"
        self._events = "text/event-stream" in headers.get("content-type", "")
        self._size = self._parts = 0
        self._end = b""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        if self._packed:
            raise self._error("the answer is compressed, which nobody asked for")
        async for piece in self._stream:
            self._count(piece)
            if self._size > LONGEST_MESSAGE or self._parts > MOST_PARTS:
                limit = f"longer than {LONGEST_MESSAGE} bytes, or has more than {MOST_PARTS} lists and objects"
                raise self._error(f"the answer is {limit}")
            yield piece

    def _count(self, piece: bytes) -> None:
        """In a stream, from the last empty line on: there the next event begins."""
        self._size += len(piece)
        self._parts += parts_of(piece)
        if self._events:
            seen = self._end + piece
            begins = max(seen.rfind(end) + len(end) if end in seen else 0 for end in _EMPTY_LINES)
            if begins:
                self._size, self._parts = len(seen) - begins, parts_of(seen[begins:])
            self._end = seen[max(begins, len(seen) - 3) :]

    def _error(self, problem: str) -> Exception:
        # The library answers the call with either; which one it expects depends on what it reads.
        return httpx2.SSEError(problem) if self._events else httpx2.StreamError(problem)

    async def aclose(self) -> None:
        await self._stream.aclose()
