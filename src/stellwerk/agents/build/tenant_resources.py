"""Tenant resources isolate tenants: MCP connections, opened graphs, LangGraph's store, the saver.

Tools, graphs and providers of the operator are shared.
"""

import asyncio
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

from pydantic import SecretStr

from stellwerk.agents.build.factory import AgentFactory
from stellwerk.agents.build.resources import Resources
from stellwerk.agents.checkpoints.packed import PackedSaver
from stellwerk.agents.checkpoints.saver import DurableSaver
from stellwerk.agents.checkpoints.serde import StrictSerializer
from stellwerk.agents.graphs.registry import Graphs
from stellwerk.agents.isolated.pool import Workers
from stellwerk.agents.isolated.process import TenantState
from stellwerk.agents.mcp.servers import McpServers
from stellwerk.agents.store.graph_store import GraphStore
from stellwerk.agents.store.index import Index
from stellwerk.agents.store.tenant_store import SharedStore, StoreFiles, StorePlaces, TenantStore
from stellwerk.agents.tools.call import SaveFiles
from stellwerk.agents.tools.registry import Tools
from stellwerk.agents.tools.spec import DescribedTool
from stellwerk.database.port import Database
from stellwerk.redaction.redactor import Redactors
from stellwerk.settings import provider_keys
from stellwerk.spec.operator import Operator, StoreTtl
from stellwerk.tenants.principals import LOCAL_TENANT
from stellwerk.tenants.secrets import Secrets
from stellwerk.tenants.tenants import folder_of


@dataclass(frozen=True, slots=True)
class TenantSecrets:
    """Secrets of a system, of its tenant, or, for the operator's tenant, of the environment."""

    secrets: Secrets
    tenant: str
    system: str = ""
    environment: Mapping[str, SecretStr] = field(default_factory=dict)

    def find(self, secret: str) -> str | None:
        stored = self.secrets.find(self.tenant, self.system, secret)
        if stored is not None or secret not in self.environment:
            return stored
        return self.environment[secret].get_secret_value()


@dataclass(frozen=True, slots=True)
class TenantResources:
    database: Database
    data: Path
    operator: Operator
    tools: Tools
    graphs: Graphs
    keep: SaveFiles
    secrets: Secrets
    redactors: Redactors
    workers: Workers
    opened: AsyncExitStack
    """Closes all resources with the server."""
    index: Index | None = None
    """Of the stores of all tenants."""
    store_ttl: StoreTtl = field(default_factory=StoreTtl)
    shared_store: SharedStore | None = None
    """None where each tenant has files."""
    environment: Mapping[str, SecretStr] = field(default_factory=provider_keys)
    _stores: dict[str, TenantStore] = field(default_factory=dict)
    _made: dict[str, Resources] = field(default_factory=dict)
    _making: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def of(self, tenant: str) -> Resources:
        async with self._making:
            if tenant not in self._made:
                self._made[tenant] = await self._resources(tenant)
            return self._made[tenant]

    async def factory(self, tenant: str, system: str) -> AgentFactory:
        """For one agent system, which may have its own keys."""
        resources = await self.of(tenant)
        return AgentFactory(replace(resources, keys=self._keys(tenant, system)))

    async def inventory(self, tenant: str) -> list[DescribedTool]:
        """All tools that an agent system of this tenant may name."""
        return await (await self.of(tenant)).inventory()

    def store(self, tenant: str) -> TenantStore:
        """What graphs of a tenant remember beyond a session."""
        if tenant not in self._stores:
            self._stores[tenant] = TenantStore(self._store_places(tenant), self.index, self.store_ttl)
        return self._stores[tenant]

    def _store_places(self, tenant: str) -> StorePlaces:
        redactor = self.redactors.of(tenant)
        if self.shared_store is not None:
            return self.shared_store.of_tenant(tenant, redactor)
        return StoreFiles(folder_of(self.data, tenant), redactor, self.index, self.opened, self.store_ttl)

    def _keys(self, tenant: str, system: str = "") -> TenantSecrets:
        environment = self.environment if tenant == LOCAL_TENANT else {}
        return TenantSecrets(self.secrets, tenant, system, environment)

    async def _resources(self, tenant: str) -> Resources:
        keys = self._keys(tenant)
        redactor = self.redactors.of(tenant)
        mcp = McpServers(self.operator.mcp_servers, keys=keys)
        self.opened.push_async_callback(mcp.close)
        store = self.store(tenant)
        await store.open()
        saver = DurableSaver(self.database, tenant=tenant, serde=StrictSerializer(redactor))
        graph_store = GraphStore(store, self.operator.store.scope)
        self.workers.add_tenant(tenant, TenantState(PackedSaver(saver), graph_store.of_graph))
        return Resources(
            tools=self.tools,
            graphs=self.graphs,
            mcp=mcp,
            providers=self.operator.providers,
            keys=keys,
            environment=tenant == LOCAL_TENANT,
            saver=saver,
            store=graph_store,
            keep=self.keep,
            workers=self.workers,
            exit_stack=self.opened,
        )
