"""Resources: everything that agents are built from, such as tools, graphs and MCP servers."""

import asyncio
from collections.abc import Collection, Iterable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any

from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.store.base import BaseStore
from langgraph.store.memory import InMemoryStore

from stellwerk.agents.build import models
from stellwerk.agents.build.checklist_tools import CHECKLIST_TOOLS, checklist_tools
from stellwerk.agents.graphs.input import Graph
from stellwerk.agents.graphs.registry import Builder, GraphEntry, Graphs, inspect_graph, open_graph
from stellwerk.agents.graphs.schemas import graph_schemas
from stellwerk.agents.isolated.pool import Workers
from stellwerk.agents.mcp.servers import McpServers
from stellwerk.agents.store.graph_store import GraphStore
from stellwerk.agents.tools.call import SaveFiles
from stellwerk.agents.tools.registry import ARTIFACT_KEY, Tools, discover, inventory
from stellwerk.agents.tools.spec import DescribedTool
from stellwerk.errors import McpUnreachable
from stellwerk.logs import get_logger
from stellwerk.settings import provider_keys
from stellwerk.spec.catalogue import Catalogue
from stellwerk.spec.operator import Provider

logger = get_logger(__name__)


@dataclass(frozen=True)
class Resources:
    tools: Tools = field(default_factory=discover)
    graphs: Graphs = field(default_factory=Graphs)
    mcp: McpServers = field(default_factory=lambda: McpServers({}))
    providers: Mapping[str, Provider] = field(default_factory=dict)
    keys: models.SecretSource = field(default_factory=lambda: models.EnvironmentSecrets(provider_keys()))
    environment: bool = True
    """Whether environment variables of the process can be API keys."""
    saver: BaseCheckpointSaver[Any] | None = None
    store: BaseStore = field(default_factory=InMemoryStore)
    keep: SaveFiles | None = None
    workers: Workers | None = None
    """Processes of graphs that are isolated."""
    exit_stack: AsyncExitStack = field(default_factory=AsyncExitStack)
    """Closes what factories of graphs have opened."""

    _opened: dict[str, Graph | Builder] = field(default_factory=dict)
    _seen: dict[str, Graph | Builder] = field(default_factory=dict)
    """Graphs of factories that make one for each run, only to read their schemas."""
    _opening: asyncio.Lock = field(default_factory=asyncio.Lock)
    _described: dict[str, dict[str, Any]] = field(default_factory=dict)
    """The schemas of isolated graphs."""

    async def opened(self, entry: GraphEntry) -> Graph | Builder:
        """The graph of an entry; its factory is called once for all systems."""
        async with self._opening:
            if entry.name not in self._opened:
                made = await open_graph(entry, self.exit_stack, store=self.store_of(entry.name))
                self.graphs.log_replaced(entry.name, made)
                self._opened[entry.name] = made
            return self._opened[entry.name]

    async def inspected(self, entry: GraphEntry, config: RunnableConfig) -> Graph | Builder:
        """A graph of a factory that makes one for each run. It does not run: what was opened for it is closed."""
        made = await inspect_graph(entry, config, store=self.store_of(entry.name))
        self.graphs.log_replaced(entry.name, made)
        self._seen[entry.name] = made
        return made

    def store_of(self, graph: str) -> BaseStore:
        """The store as a graph sees it."""
        return self.store.of_graph(graph) if isinstance(self.store, GraphStore) else self.store

    def store_above(self, below: Iterable[Graph]) -> BaseStore:
        """The store of an agent: graphs inside of it use it as well, so it is scoped by user if one of theirs is."""
        stores = [graph.store for graph in below if isinstance(graph.store, GraphStore)]
        if isinstance(self.store, GraphStore) and any(store.scope == "user" for store in stores):
            return self.store.of_users()
        return self.store

    def free(self, offered: Iterable[BaseTool]) -> list[BaseTool]:
        """The tools of MCP servers whose names are free: no server can replace a registered tool."""
        ours = {*CHECKLIST_TOOLS, *self.tools.names()}
        free: list[BaseTool] = []
        for tool in offered:
            if tool.name in ours:
                logger.warning("mcp_name_is_ours", tool=tool.name)
            else:
                free.append(tool)
        return free

    async def inventory(self) -> list[DescribedTool]:
        """Registered tools, checklist tools, and the tools of all reachable MCP servers."""
        offered = self.free(await self.mcp.all_tools())
        return inventory(self.tools.specs(), [*checklist_tools("agent"), *offered])

    async def catalogue(self, named: Collection[str] = (), *, scripted_only: bool = False) -> Catalogue:
        """What an agent system may name here; only the MCP servers of ``named`` tools are asked.

        ``scripted_only``: it names no provider of a model, so that those that LangChain knows are not read.
        """
        servers = sorted({server for name in named if (server := self.mcp.server_of(name))})
        asking = (self.mcp.tools(server) for server in servers)
        asked = dict(zip(servers, await asyncio.gather(*asking, return_exceptions=True), strict=True))
        gone = [server for server, tools in asked.items() if isinstance(tools, McpUnreachable)]
        offered = self.free(t for tools in asked.values() if isinstance(tools, list) for t in tools)
        own = {name: name for name in (*(tool.name for tool in offered), *CHECKLIST_TOOLS)}
        effects = {tool.name: effect_of(tool) for tool in offered}
        providers: dict[str, str | None] = {models.SCRIPTED: None}
        packages = dict[str, str]()
        if self.providers or not scripted_only:
            providers = models.known_providers(self.providers)
            packages = models.missing_packages(self.providers)
        find = self.keys.find
        keyed = [name for name, secret in providers.items() if secret is None or find(secret)]
        return Catalogue(
            tools={**own, **self.tools.names()},
            mcp_servers=gone,
            graphs=self.graphs.names(),
            graph_schemas=self._graph_schemas,
            has_secret=lambda name: find(name) is not None,
            providers=list(providers),
            keys=keyed,
            environment=self.environment,
            effects=effects | {spec.name: spec.effects for spec in self.tools.specs()},
            packages=packages,
        )

    def describe_graph(self, name: str, schemas: dict[str, Any]) -> None:
        self._described[name] = schemas

    def _graph_schemas(self, graph: str) -> dict[str, Any]:
        if graph in self._described:
            return self._described[graph]
        entry = self.graphs.find(graph)
        return graph_schemas(self._seen.get(graph) or self._opened.get(graph) or entry.source, entry.input_key)


def effect_of(tool: BaseTool) -> str:
    """The declared effect of a tool; ``external``, the strongest, by default."""
    return str((tool.metadata or {}).get(ARTIFACT_KEY, {}).get("effects", "external"))


def is_untrusted(tool: BaseTool) -> bool:
    """Whether the results of a tool may contain untrusted content."""
    return bool((tool.metadata or {}).get(ARTIFACT_KEY, {}).get("untrusted"))
