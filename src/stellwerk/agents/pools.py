"""Pools: what the agents of each tenant are built from. What the operator gave is the same for all of them.

Connections to MCP servers, graphs that factories open, and what graphs remember
are each tenant's own: a server or a graph need not know that there are several.
"""

import asyncio
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

from pydantic import SecretStr

from stellwerk.agents.checkpoint_serde import StrictSerializer
from stellwerk.agents.checkpoints import DurableSaver
from stellwerk.agents.factory import AgentFactory
from stellwerk.agents.graphs import Graphs
from stellwerk.agents.inventory import inventory
from stellwerk.agents.mcp import McpServers
from stellwerk.agents.pool import Pool
from stellwerk.agents.stores import open_store
from stellwerk.agents.tool_calls import Keep
from stellwerk.agents.tool_spec import DescribedTool
from stellwerk.agents.tools import Tools
from stellwerk.database.port import Database
from stellwerk.envelope.redaction import Redactors
from stellwerk.settings import provider_keys
from stellwerk.spec.operator import Operator
from stellwerk.tenants.principals import LOCAL_TENANT
from stellwerk.tenants.secrets import Secrets
from stellwerk.tenants.tenants import folder_of


@dataclass(frozen=True, slots=True)
class TenantKeys:
    """What is stored for an agent system, or else for its tenant; the operator's environment fills what is his."""

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
class Pools:
    database: Database
    data: Path
    operator: Operator
    tools: Tools
    graphs: Graphs
    keep: Keep
    secrets: Secrets
    redactors: Redactors
    opened: AsyncExitStack
    """Closes what the pools hold, with the server."""
    environment: Mapping[str, SecretStr] = field(default_factory=provider_keys)
    _made: dict[str, Pool] = field(default_factory=dict)
    _making: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def of(self, tenant: str) -> Pool:
        async with self._making:
            if tenant not in self._made:
                self._made[tenant] = await self._pool(tenant)
            return self._made[tenant]

    async def factory(self, tenant: str, system: str) -> AgentFactory:
        """For one agent system, which may have keys of its own."""
        pool = await self.of(tenant)
        return AgentFactory(replace(pool, keys=self._keys(tenant, system)))

    async def inventory(self, tenant: str) -> list[DescribedTool]:
        """Everything that an agent system of this tenant may name."""
        return await inventory(await self.of(tenant))

    def _keys(self, tenant: str, system: str = "") -> TenantKeys:
        return TenantKeys(self.secrets, tenant, system, self.environment if tenant == LOCAL_TENANT else {})

    async def _pool(self, tenant: str) -> Pool:
        keys, redactor = self._keys(tenant), self.redactors.of(tenant)
        place = folder_of(self.data, tenant) / "store.db"
        mcp = McpServers(self.operator.mcp_servers, keys=keys)
        self.opened.push_async_callback(mcp.close)
        return Pool(
            tools=self.tools,
            graphs=self.graphs,
            mcp=mcp,
            providers=self.operator.providers,
            keys=keys,
            environment=tenant == LOCAL_TENANT,
            saver=DurableSaver(self.database, tenant=tenant, serde=StrictSerializer(redactor)),
            store=await self.opened.enter_async_context(open_store(place, redactor)),
            keep=self.keep,
            resources=self.opened,
        )
