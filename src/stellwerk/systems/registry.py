"""The registered agent systems, their versions, and the agents built from them."""

import asyncio
from contextlib import suppress
from dataclasses import dataclass

import structlog

from stellwerk.agents.factory import AgentFactory
from stellwerk.agents.runnable import RunnableAgent
from stellwerk.database.port import Database, Row
from stellwerk.errors import (
    Conflict,
    McpUnreachable,
    MissingSecret,
    NotFound,
    SettingsError,
    SpecError,
    SpecProblem,
    SystemChanged,
)
from stellwerk.ids import Clock
from stellwerk.spec.load import Loaded, read_system
from stellwerk.spec.model import Storage
from stellwerk.spec.resolve import Resolved
from stellwerk.systems import rows as system_rows
from stellwerk.systems.rows import Registration

logger = structlog.get_logger(__name__)

_Key = tuple[str, str, int]

KEPT = 200
"""Agents that are held ready; any other is built anew when it is needed."""


@dataclass(frozen=True, slots=True)
class Registered:
    """A version of a system, and what the server makes of it today."""

    resolved: Resolved
    warnings: tuple[SpecProblem, ...]
    problems: tuple[SpecProblem, ...] = ()
    """Why it could not be registered any more."""
    version: int | None = None
    """None as long as it is only checked."""
    created_at: float | None = None
    versions: tuple[int, ...] = ()

    @property
    def name(self) -> str:
        return self.resolved.name


@dataclass(frozen=True, slots=True)
class Listed:
    id: str
    version: int
    created_at: float
    updated_at: float


class Systems:
    def __init__(self, database: Database, factory: AgentFactory, clock: Clock) -> None:
        self._database, self._factory, self._clock = database, factory, clock
        self._agents: dict[_Key, RunnableAgent] = {}
        """Those used last, the latest at the end; whoever drives another one holds it himself."""
        self._folders: dict[_Key, str] = {}
        self._given: set[tuple[str, str]] = set()
        self._building: dict[_Key, asyncio.Lock] = {}

    async def register(self, tenant: str, text: str, *, source: str) -> Registered:
        """Check and store a system.

        Raises:
            SpecError: it cannot be built here; says everything that is wrong with it.
        """
        loaded, resolved, agent = await self._checked(text, source)
        warnings = loaded.placed(resolved.warnings)
        for warning in warnings:
            logger.warning("system_warning", system=resolved.name, field=warning.field, message=warning.message)
        version = await self._store(tenant, resolved.name, text)
        if agent is not None:
            self._keep((tenant, resolved.name, version), agent)
        return Registered(resolved, warnings, version=version)

    async def give(self, tenant: str, text: str, *, source: str) -> None:
        """Register a system that the server is started with; it cannot be withdrawn."""
        registered = await self.register(tenant, text, source=source)
        self._given.add((tenant, registered.name))

    async def check(self, text: str, *, source: str) -> Registered:
        """What registering would make of it; stores nothing, and raises like ``register``."""
        loaded, resolved, _ = await self._checked(text, source)
        return Registered(resolved, loaded.placed(resolved.warnings))

    async def withdraw(self, tenant: str, name: str) -> None:
        """Nobody can begin anything with it any more; its versions stay for as long as a session refers to them.

        Raises:
            NotFound: nothing is registered under this name.
            Conflict: the server was started with it.
        """
        await self.newest(tenant, name)
        if (tenant, name) in self._given:
            raise Conflict(
                f"the server was started with the agent system {name!r} and would register it again at its next start; "
                "start it without, or leave it: a system that nobody uses costs nothing",
                code="system_given",
            )
        await self._database.submit(system_rows.withdraw_many, (tenant, name))
        for cache in (self._agents, self._folders):
            for key in [key for key in cache if key[:2] == (tenant, name)]:
                del cache[key]  # its numbers may be given anew

    async def newest(self, tenant: str, name: str) -> int:
        """The version that a new session uses.

        Raises:
            NotFound: nothing is registered under this name.
        """
        return int((await self._newest(tenant, name))[0])

    async def current(self, tenant: str, name: str) -> int:
        """The version that the next round of a session uses; its agent is built.

        Raises:
            Conflict: the system was deleted.
            SystemChanged, MissingSecret, McpUnreachable: it cannot be built here as things are.
        """
        row = await self._database.read(lambda tx: tx.row("newest_system", tenant, name))
        if row is None:
            raise Conflict(
                f"the agent system {name!r} of this session was deleted; register it again with POST /agent-systems, "
                "or begin a session with another",
                code="system_gone",
            )
        version = int(row[0])
        await self.agent(tenant, name, version)
        return version

    async def list(self, tenant: str, *, after: str, limit: int) -> list[Listed]:
        """By name; ``after`` is the last one seen."""
        rows = await self._database.read(lambda tx: tx.rows("systems", tenant, after, limit))
        return [Listed(*row) for row in rows]

    async def describe(self, tenant: str, name: str, version: int | None = None) -> Registered:
        """
        Raises:
            NotFound: there is no such system, or no such version of it.
        """
        newest = await self._newest(tenant, name)
        chosen = int(newest[0]) if version is None else version
        row = await self._database.read(lambda tx: tx.row("system_version", tenant, name, chosen))
        versions = await self._database.read(lambda tx: tx.rows("system_versions", tenant, name))
        if row is None:
            known = ", ".join(str(number) for (number,) in versions)
            raise NotFound("version", f"{chosen} of {name}", remedy=f"there are: {known}")
        loaded = await asyncio.to_thread(read_system, bytes(row[0]), source=name)
        resolved = await self._factory.resolved(loaded)
        problems = loaded.all_problems((*resolved.problems, *resolved.missing))
        warnings = loaded.placed(resolved.warnings)
        return Registered(resolved, warnings, problems, chosen, row[1], tuple(number for (number,) in versions))

    async def agent(self, tenant: str, name: str, version: int) -> RunnableAgent:
        """The agent of a version, built when it is not at hand.

        Raises:
            SystemChanged: it was registered, but can no longer be built here.
        """
        key = (tenant, name, version)
        if key in self._agents:
            return self._keep(key, self._agents[key])
        async with self._building.setdefault(key, asyncio.Lock()):  # one slow system holds up no other
            try:
                return self._keep(key, self._agents.get(key) or await self._built(tenant, name, version))
            finally:
                self._building.pop(key, None)

    def _keep(self, key: _Key, agent: RunnableAgent) -> RunnableAgent:
        self._agents.pop(key, None)
        self._agents[key] = agent
        while len(self._agents) > KEPT:
            del self._agents[next(iter(self._agents))]
        return agent

    async def checklist_folder(self, tenant: str, name: str) -> str:
        """Where the to-do lists of its sessions go today: as its last version says."""
        row = await self._database.read(lambda tx: tx.row("last_system", tenant, name))
        folders = await self.checklist_folders(tenant, name)
        default = Storage().checklist_dir  # also if it is withdrawn while we look
        return default if row is None else folders.get(int(row[0]), default)

    async def checklist_folders(self, tenant: str, name: str) -> dict[int, str]:
        """Where to-do lists of its sessions may lie, by version."""
        rows = await self._database.read(lambda tx: tx.rows("system_bodies", tenant, name))
        for _, version, body in rows:
            key = (tenant, name, version)
            if key not in self._folders:
                self._folders[key] = await asyncio.to_thread(_checklist_dir, bytes(body))
        return {version: self._folders[tenant, name, version] for _, version, _ in rows}

    async def all_checklist_folders(self) -> set[str]:
        systems = await self._database.read(lambda tx: tx.rows("all_systems"))
        found = [await self.checklist_folders(tenant, name) for tenant, name in systems]
        return {folder for folders in found for folder in folders.values()}

    async def _checked(self, text: str, source: str) -> tuple[Loaded, Resolved, RunnableAgent | None]:
        loaded = await asyncio.to_thread(read_system, text, source=source)
        resolved = await self._factory.admitted(loaded)
        agent: RunnableAgent | None = None
        with suppress(MissingSecret, McpUnreachable):  # warned of; whoever sends the first message is told again
            agent = await self._factory.build(resolved.root, loaded.system.system)
        return loaded, resolved, agent

    async def _store(self, tenant: str, name: str, text: str) -> int:
        known = await self._database.read(lambda tx: tx.row("newest_system", tenant, name))
        if known is not None and known[1] == system_rows.digest(text):
            return int(known[0])  # nothing to write: a server on a full disk starts
        item = Registration(tenant, name, text, self._clock.now())
        return await self._database.submit(system_rows.register_many, item)

    async def _newest(self, tenant: str, name: str) -> Row:
        row = await self._database.read(lambda tx: tx.row("newest_system", tenant, name))
        if row is None:
            rows = await self._database.read(lambda tx: tx.rows("system_names", tenant))
            raise NotFound("agent system", name, remedy=f"there are: {', '.join(known for (known,) in rows)}")
        return row

    async def _built(self, tenant: str, name: str, version: int) -> RunnableAgent:
        row = await self._database.read(lambda tx: tx.row("system_version", tenant, name, version))
        if row is None:
            raise NotFound("agent system", f"{name} version {version}", remedy="it was removed")
        try:
            loaded = await asyncio.to_thread(read_system, bytes(row[0]), source=f"{name} version {version}")
            resolved = await self._factory.admitted(loaded)
            return await self._factory.build(resolved.root, loaded.system.system)
        except (SpecError, SettingsError) as error:
            raise SystemChanged(name, version, error.message) from error


def _checklist_dir(body: bytes) -> str:
    try:
        return read_system(body, source="").system.system.storage.checklist_dir
    except SpecError:  # of an older server, which took what this one refuses
        return Storage().checklist_dir
