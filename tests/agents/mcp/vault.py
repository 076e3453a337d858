"""An MCP server on a loopback port that tells whoever asks what it was shown."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import uvicorn
from mcp.server.mcpserver import Context, MCPServer


@asynccontextmanager
async def serving_vault() -> AsyncIterator[tuple[str, list[str]]]:
    """Its address, and what it was shown at each call."""
    seen: list[str] = []
    app = MCPServer("vault", log_level="WARNING")

    @app.tool()
    def whoami(context: Context) -> str:
        """Tell the header by which the caller is known."""
        seen.append((context.headers or {}).get("authorization", ""))
        return f"you are {seen[-1]}"

    with socket.create_server(("127.0.0.1", 0)) as listening:
        server = uvicorn.Server(uvicorn.Config(app.streamable_http_app(), log_config=None, timeout_graceful_shutdown=1))
        running = asyncio.create_task(server.serve(sockets=[listening]))
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}/mcp", seen
        finally:
            server.should_exit = True
            await running
