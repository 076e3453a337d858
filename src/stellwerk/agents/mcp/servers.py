"""MCP servers that the operator registered, and their tools.

Each server has one long-lived session, shared by all agents and opened at first use. An unreachable
server causes warnings and failed calls.
"""

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING

from langchain_core.tools import BaseTool

from stellwerk.agents.build.models import EnvironmentSecrets, SecretSource
from stellwerk.agents.tools.call import SaveFiles
from stellwerk.errors import McpUnreachable, MissingPackage, SettingsError
from stellwerk.logs import get_logger
from stellwerk.settings import provider_keys
from stellwerk.spec.operator import McpServer

if TYPE_CHECKING:
    from stellwerk.agents.mcp.session import McpSession

logger = get_logger(__name__)


class McpServers:
    def __init__(
        self,
        servers: Mapping[str, McpServer],
        *,
        keys: SecretSource | None = None,
        start_timeout: float = 30,
        retry_delay: float = 5,
    ) -> None:
        """Starts no server yet. ``keys`` resolves the secrets that headers and variables refer to.

        An unreachable server is tried again after ``retry_delay``; until then its error is repeated.

        Raises:
            SettingsError: the tools of two servers could have the same name.
            MissingPackage: servers are registered, but the MCP package is not installed.
        """
        _check_prefixes(servers)
        find_secret = (keys or EnvironmentSecrets(provider_keys())).find
        self._sessions = {
            name: _session_type(name)(name, server, find_secret, start_timeout, retry_delay)
            for name, server in servers.items()
        }

    def server_of(self, tool: str) -> str | None:
        """The server that a tool of this name belongs to, whether or not it has the tool."""
        return next((name for name in self._sessions if tool.startswith(f"{name}_")), None)

    async def tools(self, name: str, *, keep: SaveFiles | None = None) -> list[BaseTool]:
        """The tools of one server. ``keep`` stores the files of their results.

        Raises:
            McpUnreachable: the server does not answer, or cannot be started.
        """
        from stellwerk.agents.mcp.tools import langchain_tools

        session = self._sessions[name]
        return langchain_tools(session, await session.tools(), keep)

    async def all_tools(self) -> list[BaseTool]:
        found = await asyncio.gather(*(self._tools_if_reached(name) for name in self._sessions))
        return [tool for tools in found for tool in tools]

    async def close(self) -> None:
        await asyncio.gather(*(session.close() for session in self._sessions.values()))

    async def _tools_if_reached(self, name: str) -> list[BaseTool]:
        try:
            return await self.tools(name)
        except McpUnreachable as error:
            logger.warning("mcp_unreachable", server=name, reason=error.message)
            return []


def _session_type(name: str) -> "type[McpSession]":
    try:
        from stellwerk.agents.mcp.session import McpSession
    except ImportError as error:
        install = "path/to/stellwerk[mcp]"
        raise MissingPackage(f"the MCP server {name!r}", install=install) from error
    return McpSession


def _check_prefixes(servers: Mapping[str, McpServer]) -> None:
    """Reject a prefix of another name: tool ``b_c`` of ``a`` and ``c`` of ``a_b`` are ``a_b_c``."""
    for name in servers:
        for other in servers:
            if other.startswith(f"{name}_"):
                both = f"the MCP servers {name!r} and {other!r}"
                raise SettingsError(f"{both} could have tools of one name; rename one")
