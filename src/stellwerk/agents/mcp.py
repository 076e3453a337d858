"""Tools of the MCP servers that the operator registered.

There is one held session per server, shared by all agents. A server that is
gone costs a warning at the start and a failed call later, never our own start.
"""

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING

from langchain_core.tools import BaseTool

from stellwerk.agents.models import EnvironmentKeys, Keys
from stellwerk.agents.tool_calls import Keep
from stellwerk.errors import McpUnreachable, MissingPackage, NotFound, SettingsError
from stellwerk.logs import get_logger
from stellwerk.settings import provider_keys
from stellwerk.spec.operator import McpServer

if TYPE_CHECKING:
    from stellwerk.agents.mcp_session import McpSession

logger = get_logger(__name__)


class McpServers:
    def __init__(
        self, servers: Mapping[str, McpServer], *, keys: Keys | None = None, start_timeout: float = 30
    ) -> None:
        """Nothing is started yet. ``keys`` are the secrets that headers and variables name.

        Raises:
            SettingsError: two servers whose tools could get the same names.
            MissingPackage: there are servers, but not the package to speak with them.
        """
        _told_apart(servers)
        known = keys or EnvironmentKeys(provider_keys())
        self._sessions = {name: _session(name, server, known, start_timeout) for name, server in servers.items()}

    def server_of(self, tool: str) -> str | None:
        """Which server a tool of this name would belong to; it need not be reachable, nor have the tool."""
        return next((name for name in self._sessions if tool.startswith(f"{name}_")), None)

    async def start(self) -> None:
        """Open all sessions, to find out now and not at the first call which servers are gone."""
        await self.all_tools()

    async def tools(self, name: str, *, keep: Keep | None = None) -> list[BaseTool]:
        """The tools of one server. ``keep`` stores the files that their results bring.

        Raises:
            McpUnreachable: it does not answer, or cannot be started.
        """
        from stellwerk.agents.mcp_tools import offered

        if name not in self._sessions:
            raise NotFound("MCP server", name, remedy="the operator registers them under mcp_servers")
        session = self._sessions[name]
        return offered(session, await session.tools(), keep)

    async def all_tools(self, *, keep: Keep | None = None) -> list[BaseTool]:
        """The tools of all servers that can be reached."""
        found = await asyncio.gather(*(self._tools_if_reached(name, keep) for name in self._sessions))
        return [tool for tools in found for tool in tools]

    async def close(self) -> None:
        """End all sessions and the processes that were started for them."""
        await asyncio.gather(*(session.close() for session in self._sessions.values()))

    async def _tools_if_reached(self, name: str, keep: Keep | None) -> list[BaseTool]:
        try:
            return await self.tools(name, keep=keep)
        except McpUnreachable as error:
            logger.warning("mcp_unreachable", server=name, reason=error.message)
            return []


def _session(name: str, server: McpServer, keys: Keys, start_timeout: float) -> "McpSession":
    try:
        from stellwerk.agents.mcp_session import McpSession
    except ImportError as error:
        raise MissingPackage(f"the MCP server {name!r}", install="path/to/stellwerk[mcp]") from error
    return McpSession(name, server, keys, start_timeout=start_timeout)


def _told_apart(servers: Mapping[str, McpServer]) -> None:
    """Refuse a name that begins with another: ``a_b`` and the tool ``b_c`` of ``a`` could not be told apart."""
    for name in servers:
        for other in servers:
            if other.startswith(f"{name}_"):
                raise SettingsError(f"the MCP servers {name!r} and {other!r} could have tools of one name; rename one")
