"""MCP's client for Python, the major version before, which knows the handshake only."""

from typing import Any

import httpx
from mcp import ClientSession, types
from mcp.client.streamable_http import streamable_http_client


async def tools(emit: Any, url: str, key: str) -> list[str]:
    async def listed(session: ClientSession) -> list[str]:
        return [tool.name for tool in (await session.list_tools()).tools]

    found: list[str] = await with_session(url, key, None, listed)
    return found


async def call(
    emit: Any, url: str, key: str, message: str, session: str = "", tool: str = "demo", answer: Any = None
) -> Any:
    """``answer`` is what a form gets; without it the host has no forms."""
    asked: list[str] = []

    async def elicit(_: Any, form: types.ElicitRequestParams) -> types.ElicitResult:
        asked.append(form.message)
        return types.ElicitResult(action="accept", content=answer)

    async def progress(_: float, __: float | None, said: str | None) -> None:
        emit("progress", said)

    async def called(client: ClientSession) -> Any:
        given = {"message": message} | ({"session_id": session} if session else {})
        result = await client.call_tool(tool, given, progress_callback=progress)
        return {
            "text": "\n".join(part.text for part in result.content if isinstance(part, types.TextContent)),
            "links": [str(part.uri) for part in result.content if isinstance(part, types.ResourceLink)],
            "structured": result.structuredContent,
            "is_error": result.isError,
            "asked": asked,
        }

    return await with_session(url, key, elicit if answer is not None else None, called)


async def with_session(url: str, key: str, elicit: Any, use: Any) -> Any:
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    async with (
        httpx.AsyncClient(headers=headers, timeout=200, follow_redirects=True) as http,
        streamable_http_client(f"{url}/mcp", http_client=http) as (read, write, _),
        ClientSession(read, write, elicitation_callback=elicit) as session,
    ):
        await session.initialize()
        return await use(session)
