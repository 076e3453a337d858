"""The pool: everything that agents are built from, in one frozen object."""

from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.store.base import BaseStore
from langgraph.store.memory import InMemoryStore

from stellwerk.agents.checklist import CHECKLIST_TOOLS
from stellwerk.agents.graphs import Graphs
from stellwerk.agents.mcp import McpServers
from stellwerk.agents.models import EnvironmentKeys, Keys, known_providers
from stellwerk.agents.tool_calls import Keep
from stellwerk.agents.tools import Tools, discover
from stellwerk.settings import provider_keys
from stellwerk.spec.catalogue import Catalogue
from stellwerk.spec.operator import Provider


@dataclass(frozen=True)
class Pool:
    tools: Tools = field(default_factory=discover)
    graphs: Graphs = field(default_factory=Graphs)
    mcp: McpServers = field(default_factory=lambda: McpServers({}))
    providers: Mapping[str, Provider] = field(default_factory=dict)
    keys: Keys = field(default_factory=lambda: EnvironmentKeys(provider_keys()))
    saver: BaseCheckpointSaver[int] | None = None
    store: BaseStore = field(default_factory=InMemoryStore)
    keep: Keep | None = None
    """Stores the files that tools give back."""
    resources: AsyncExitStack = field(default_factory=AsyncExitStack)
    """What graphs of the operator's have opened; closed with the server."""

    async def catalogue(self) -> Catalogue:
        """What an agent system may name here."""
        offered = [tool.name for tool in await self.mcp.all_tools()]
        names = {**self.tools.names(), **{name: name for name in (*CHECKLIST_TOOLS, *offered)}}
        providers = known_providers(self.providers)
        keyed = [name for name, secret in providers.items() if secret is None or self.keys.find(secret)]
        return Catalogue(tools=names, graphs=self.graphs.names(), providers=list(providers), keys=keyed)
