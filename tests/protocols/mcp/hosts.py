"""A host of MCP servers: its client, with an answer to each question and a list of what it was shown."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

import httpx2
import mcp_types as types
from mcp.client import Client, ClientRequestContext
from mcp.client.streamable_http import streamable_http_client

Mode = Literal["auto", "legacy"]
Answer = Callable[[types.ElicitRequestFormParams], types.ElicitResult]


def accepted(**content: Any) -> Answer:
    return lambda asked: types.ElicitResult(action="accept", content=content)


@dataclass
class Host:
    client: Client
    asked: list[types.ElicitRequestFormParams] = field(default_factory=list)
    progress: list[str] = field(default_factory=list)
    _news: asyncio.Event = field(default_factory=asyncio.Event)

    async def say(self, message: str, session_id: str | None = None, *, tool: str = "demo") -> types.CallToolResult:
        arguments = {"message": message} | ({} if session_id is None else {"session_id": session_id})
        return await self.client.call_tool(tool, arguments, progress_callback=self._on_progress)

    async def _on_progress(self, progress: float, total: float | None, message: str | None) -> None:
        self.progress.append(message or "")
        self._news.set()

    async def until(self, word: str) -> None:
        """Wait for a progress message with this word."""
        async with asyncio.timeout(60):
            while not any(word in message for message in self.progress):
                self._news.clear()
                await self._news.wait()


def text_of(result: types.CallToolResult) -> str:
    return "\n".join(part.text for part in result.content if isinstance(part, types.TextContent))


def session_of(result: types.CallToolResult) -> str:
    return str(result.structured_content["session_id"])


@asynccontextmanager
async def host_of(
    address: str, mode: Mode = "auto", *, answer: Answer | None = None, key: str | None = None
) -> AsyncIterator[Host]:
    """Without an ``answer`` the host has no forms."""
    asked: list[types.ElicitRequestFormParams] = []

    async def elicit(context: ClientRequestContext, params: types.ElicitRequestParams) -> types.ElicitResult:
        assert isinstance(params, types.ElicitRequestFormParams)
        assert answer is not None
        asked.append(params)
        return answer(params)

    headers = {} if key is None else {"Authorization": f"Bearer {key}"}
    async with httpx2.AsyncClient(headers=headers, timeout=200) as http:
        transport = streamable_http_client(f"{address}/mcp", http_client=http)
        async with Client(transport, mode=mode, elicitation_callback=elicit if answer else None) as client:
            yield Host(client, asked)
