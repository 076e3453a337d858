"""The pool: everything that agents are built from, in one frozen object."""

import asyncio
from collections.abc import Collection, Iterable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any

from langchain_core.tools import BaseTool
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.store.base import BaseStore
from langgraph.store.memory import InMemoryStore

from stellwerk.agents.checklist import CHECKLIST_TOOLS
from stellwerk.agents.graphs import Builder, Graph, GraphEntry, Graphs, open_graph
from stellwerk.agents.mcp import McpServers
from stellwerk.agents.models import EnvironmentKeys, Keys, known_providers, missing_packages
from stellwerk.agents.tool_calls import Keep
from stellwerk.agents.tools import ARTIFACT_KEY, Tools, discover
from stellwerk.errors import McpUnreachable
from stellwerk.logs import get_logger
from stellwerk.settings import provider_keys
from stellwerk.spec.catalogue import Catalogue
from stellwerk.spec.operator import Provider

logger = get_logger(__name__)


@dataclass(frozen=True)
class Pool:
    tools: Tools = field(default_factory=discover)
    graphs: Graphs = field(default_factory=Graphs)
    mcp: McpServers = field(default_factory=lambda: McpServers({}))
    providers: Mapping[str, Provider] = field(default_factory=dict)
    keys: Keys = field(default_factory=lambda: EnvironmentKeys(provider_keys()))
    environment: bool = True
    """Whether a variable of the process can be such a key."""
    saver: BaseCheckpointSaver[Any] | None = None
    store: BaseStore = field(default_factory=InMemoryStore)
    keep: Keep | None = None
    """Stores the files that tools give back."""
    resources: AsyncExitStack = field(default_factory=AsyncExitStack)
    """What graphs of the operator's have opened; closed with the server."""

    _opened: dict[str, Graph | Builder] = field(default_factory=dict)
    _opening: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def opened(self, entry: GraphEntry) -> Graph | Builder:
        """The graph of an entry; a factory is called once, however many systems use it."""
        async with self._opening:
            if entry.name not in self._opened:
                self._opened[entry.name] = await open_graph(entry, self.resources, store=self.store)
            return self._opened[entry.name]

    def free(self, offered: Iterable[BaseTool]) -> list[BaseTool]:
        """Those tools of MCP servers whose names are not ours: no server takes the place of a tool that is trusted."""
        ours, free = {*CHECKLIST_TOOLS, *self.tools.names()}, list[BaseTool]()
        for tool in offered:
            if tool.name in ours:
                logger.warning("mcp_name_is_ours", tool=tool.name)
            else:
                free.append(tool)
        return free

    async def catalogue(self, named: Collection[str] = ()) -> Catalogue:
        """What an agent system may name here; only those MCP servers are asked that ``named`` tools belong to."""
        servers = sorted({server for name in named if (server := self.mcp.server_of(name))})
        asked = await asyncio.gather(*(self.mcp.tools(server) for server in servers), return_exceptions=True)
        gone = [server for server, tools in zip(servers, asked, strict=True) if isinstance(tools, McpUnreachable)]
        offered = self.free(tool for tools in asked if isinstance(tools, list) for tool in tools)
        own = {name: name for name in (*(tool.name for tool in offered), *CHECKLIST_TOOLS)}
        providers = known_providers(self.providers)
        keyed = [name for name, secret in providers.items() if secret is None or self.keys.find(secret)]
        return Catalogue(
            tools={**own, **self.tools.names()},
            mcp_servers=gone,
            graphs=self.graphs.names(),
            providers=list(providers),
            keys=keyed,
            environment=self.environment,
            effects={**{tool.name: effect_of(tool) for tool in offered}, **self.tools.effects()},
            packages=missing_packages(self.providers),
        )


def effect_of(tool: BaseTool) -> str:
    """What a tool says that it does to the world; the worst, if it says nothing."""
    return str((tool.metadata or {}).get(ARTIFACT_KEY, {}).get("effects", "external"))


def is_untrusted(tool: BaseTool) -> bool:
    """Whether strangers may have written what a tool gives back."""
    return bool((tool.metadata or {}).get(ARTIFACT_KEY, {}).get("untrusted"))
