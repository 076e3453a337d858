"""The registered agent systems, their versions, and the agents built from them."""

import asyncio
import hashlib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

import structlog

from stellwerk.agents.factory import AgentFactory
from stellwerk.agents.runnable import RunnableAgent
from stellwerk.database.port import Database, Transaction
from stellwerk.errors import McpUnreachable, MissingSecret, NotFound, SpecError, SystemChanged
from stellwerk.ids import Clock
from stellwerk.spec.load import read_system

logger = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class _Registration:
    tenant: str
    name: str
    text: str
    at: float


def _register_many(tx: Transaction, items: Sequence[_Registration]) -> list[int | Exception]:
    return [_register(tx, item) for item in items]


def _register(tx: Transaction, item: _Registration) -> int:
    """The version that has this text; the same text makes no new version."""
    digest = _digest(item.text)
    newest = tx.row("newest_system", item.tenant, item.name)
    if newest is not None and newest[1] == digest:
        return int(newest[0])
    version = 1 if newest is None else int(newest[0]) + 1
    tx.run("insert_system", item.tenant, item.name, version, digest, item.text.encode(), item.at)
    return version


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


class Systems:
    def __init__(self, database: Database, factory: AgentFactory, clock: Clock) -> None:
        self._database, self._factory, self._clock = database, factory, clock
        self._agents: dict[tuple[str, str, int], RunnableAgent] = {}
        self._building = asyncio.Lock()

    async def register(self, tenant: str, text: str, *, source: str) -> tuple[str, int]:
        """Check and store a system; returns its name and version.

        Raises:
            SpecError: it cannot be built here; says everything that is wrong with it.
        """
        loaded = read_system(text, source=source)
        resolved = await self._factory.admitted(loaded)
        for warning in loaded.placed(resolved.warnings):
            logger.warning("system_warning", system=resolved.name, field=warning.field, message=warning.message)
        agent: RunnableAgent | None = None
        with suppress(MissingSecret, McpUnreachable):  # warned of; whoever sends the first message is told again
            agent = await self._factory.build(resolved.root, loaded.system.system)
        version = await self._store(tenant, resolved.name, text)
        if agent is not None:
            self._agents[tenant, resolved.name, version] = agent
        return resolved.name, version

    async def _store(self, tenant: str, name: str, text: str) -> int:
        known = await self._database.read(lambda tx: tx.row("newest_system", tenant, name))
        if known is not None and known[1] == _digest(text):
            return int(known[0])  # nothing to write: a server on a full disk starts
        return await self._database.submit(_register_many, _Registration(tenant, name, text, self._clock.now()))

    async def newest(self, tenant: str, name: str) -> int:
        """The version that a new round uses.

        Raises:
            NotFound: nothing is registered under this name.
        """
        row = await self._database.read(lambda tx: tx.row("newest_system", tenant, name))
        if row is None:
            rows = await self._database.read(lambda tx: tx.rows("system_names", tenant))
            raise NotFound("agent system", name, remedy=f"there are: {', '.join(known for (known,) in rows)}")
        return int(row[0])

    async def agent(self, tenant: str, name: str, version: int) -> RunnableAgent:
        """The agent of a version, built once.

        Raises:
            SystemChanged: it was registered, but can no longer be built here.
        """
        key = (tenant, name, version)
        async with self._building:
            if key not in self._agents:
                self._agents[key] = await self._built(tenant, name, version)
            return self._agents[key]

    async def _built(self, tenant: str, name: str, version: int) -> RunnableAgent:
        row = await self._database.read(lambda tx: tx.row("system_version", tenant, name, version))
        if row is None:
            raise NotFound("agent system", f"{name} version {version}", remedy="it was removed")
        try:
            loaded = read_system(bytes(row[0]), source=f"{name} version {version}")
            resolved = await self._factory.admitted(loaded)
            return await self._factory.build(resolved.root, loaded.system.system)
        except SpecError as error:
            raise SystemChanged(name, version, error.message) from error
