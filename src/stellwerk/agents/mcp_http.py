"""An MCP server at an address, over streamable HTTP, with the operator's headers and within our bounds."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
from mcp.client import Transport
from mcp.client.streamable_http import streamable_http_client

from stellwerk.agents.mcp_pipes import LONGEST_MESSAGE
from stellwerk.spec.operator import McpServer

_CONNECT = 10.0


def http(server: McpServer) -> Transport:
    """The library's transport. How long a call may take is decided for each call, not here: a stream may rest."""
    return _http(server)


@asynccontextmanager
async def _http(server: McpServer) -> AsyncGenerator[Any]:
    timeout = httpx2.Timeout(None, connect=_CONNECT)
    hooks: dict[str, list[Any]] = {"response": [_bound]}
    async with (
        httpx2.AsyncClient(headers=server.headers, timeout=timeout, event_hooks=hooks) as client,
        streamable_http_client(server.url or "", http_client=client, max_sse_event_size=LONGEST_MESSAGE) as streams,
    ):
        yield streams


async def _bound(response: httpx2.Response) -> None:
    """The library limits the events of a stream, but not an answer in one piece."""
    if "text/event-stream" not in response.headers.get("content-type", ""):
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        response.stream = _Bounded(response.stream)


class _Bounded(httpx2.AsyncByteStream):
    def __init__(self, stream: httpx2.AsyncByteStream) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for piece in self._stream:
            size += len(piece)
            if size > LONGEST_MESSAGE:
                raise httpx2.StreamError(f"the answer is longer than {LONGEST_MESSAGE} bytes")
            yield piece

    async def aclose(self) -> None:
        await self._stream.aclose()
