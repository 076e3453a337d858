"""Calling a tool as a graph does, and looking what is left of a server."""

from pathlib import Path
from typing import Any

from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool

from stellwerk.agents.mcp.servers import McpServers


async def tool_named(servers: McpServers, name: str, keep: Any = None) -> BaseTool:
    server = servers.server_of(name)
    assert server is not None
    (found,) = [tool for tool in await servers.tools(server, keep=keep) if tool.name == name]
    return found


async def called(servers: McpServers, name: str, *, keep: Any = None, **arguments: Any) -> ToolMessage:
    tool = await tool_named(servers, name, keep)
    answer = await tool.ainvoke({"type": "tool_call", "id": "c1", "name": name, "args": arguments})
    assert isinstance(answer, ToolMessage)
    return answer


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))
