"""The registered agent systems, their versions, and the agents built from them."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import PurePosixPath

import msgspec
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
from stellwerk.systems.rows import Listed, Registration
from stellwerk.systems.specs import Specs
from stellwerk.tenants.principals import LOCAL_TENANT
from stellwerk.tenants.tenants import folder_of
from stellwerk.threads import in_thread

logger = structlog.get_logger(__name__)

_Key = tuple[str, str, int]
Factories = Callable[[str, str], Awaitable[AgentFactory]]
"""What builds the agents of a tenant's system."""

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


class Systems:
    def __init__(self, database: Database, factories: Factories, clock: Clock) -> None:
        self._database, self._factories, self._clock = database, factories, clock
        self._agents: dict[_Key, RunnableAgent] = {}
        """Those used last, the latest at the end; whoever drives another one holds it himself."""
        self._specs = Specs(database)
        self._given: set[str] = set()
        self._building: dict[_Key, asyncio.Lock] = {}
        self._outdated: dict[str, int] = {}
        """How often what the agents of a tenant are built with has changed."""

    async def register(self, tenant: str, text: str, *, source: str) -> Registered:
        """Check and store a system.

        Raises:
            SpecError: it cannot be built here; says everything that is wrong with it.
            Conflict: the server was started with one of this name.
        """
        known = self._outdated.get(tenant)
        loaded, resolved, agent = await self._checked(tenant, text, source)
        if self._owner(tenant, resolved.name) != tenant:
            raise Conflict(
                f"the server was started with the agent system {resolved.name!r}, for everybody; "
                "register yours under another name",
                code="system_given",
            )
        warnings = loaded.placed(resolved.warnings)
        for warning in warnings:
            logger.warning("system_warning", system=resolved.name, field=warning.field, message=warning.message)
        version = await self._store(tenant, resolved.name, text)
        if agent is not None:
            self._keep((tenant, resolved.name, version), agent, known)
        return Registered(resolved, warnings, version=version)

    async def give(self, text: str, *, source: str) -> RunnableAgent | None:
        """Register a system that the server is started with: every tenant has it, and none can withdraw it.

        Returns its agent, if it can be built already.
        """
        registered = await self.register(LOCAL_TENANT, text, source=source)
        self._given.add(registered.name)
        return self._agents.get((LOCAL_TENANT, registered.name, registered.version or 0))

    async def take_back(self, text: str, *, source: str) -> None:
        """Withdraw a system that an earlier start gave; one of the same name with another text stays."""
        loaded = await asyncio.to_thread(read_system, text, source=source)
        name = loaded.system.system.name
        row = await self._database.read(lambda tx: tx.row("newest_system", LOCAL_TENANT, name))
        if row is not None and row[1] == system_rows.digest(text):
            await self._database.submit(system_rows.withdraw_many, (LOCAL_TENANT, name), urgent=True)

    def _owner(self, tenant: str, name: str) -> str:
        """Whose rows a system is in."""
        return LOCAL_TENANT if name in self._given else tenant

    async def check(self, tenant: str, text: str, *, source: str) -> Registered:
        """What registering would make of it; stores nothing, and raises like ``register``."""
        loaded, resolved, _ = await self._checked(tenant, text, source)
        return Registered(resolved, loaded.placed(resolved.warnings))

    async def withdraw(self, tenant: str, name: str) -> None:
        """Nobody can begin anything with it any more; its versions stay for as long as a session refers to them.

        Raises:
            NotFound: nothing is registered under this name.
            Conflict: the server was started with it.
        """
        await self.newest(tenant, name)
        if name in self._given:
            raise Conflict(
                f"the server was started with the agent system {name!r} and would register it again at its next start; "
                "start it without, or leave it: a system that nobody uses costs nothing",
                code="system_given",
            )
        await self._database.submit(system_rows.withdraw_many, (tenant, name))
        self._specs.forget(tenant, name)
        for key in [key for key in self._agents if key[:2] == (tenant, name)]:
            del self._agents[key]  # its numbers may be given anew

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
        owner = self._owner(tenant, name)
        row = await self._database.read(lambda tx: tx.row("newest_system", owner, name))
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
        given = msgspec.json.encode(sorted(self._given)).decode()
        rows = await self._database.read(lambda tx: tx.rows("systems", tenant, after, limit, LOCAL_TENANT, given))
        return [await self._listed(tenant, row) for row in rows]

    async def _listed(self, tenant: str, row: Row) -> Listed:
        name, version, created_at, updated_at = row
        description = await self._specs.description(self._owner(tenant, name), name, version)
        return Listed(name, version, created_at, updated_at, description)

    async def describe(self, tenant: str, name: str, version: int | None = None) -> Registered:
        """
        Raises:
            NotFound: there is no such system, or no such version of it.
        """
        chosen, row, versions = await self._stored(tenant, name, version)
        loaded = await in_thread(read_system, bytes(row[0]), source=name)
        resolved = await (await self._factories(tenant, name)).resolved(loaded)
        problems = loaded.all_problems((*resolved.problems, *resolved.missing))
        return Registered(resolved, loaded.placed(resolved.warnings), problems, chosen, row[1], versions)

    async def text(self, tenant: str, name: str, version: int | None = None) -> str:
        """As it was registered; raises like ``describe``."""
        return bytes((await self._stored(tenant, name, version))[1][0]).decode("utf-8", "replace")

    async def _stored(self, tenant: str, name: str, version: int | None) -> tuple[int, Row, tuple[int, ...]]:
        newest, owner = await self._newest(tenant, name), self._owner(tenant, name)
        chosen = int(newest[0]) if version is None else version
        row = await self._database.read(lambda tx: tx.row("system_version", owner, name, chosen))
        versions = tuple(
            row[0] for row in await self._database.read(lambda tx: tx.rows("system_versions", owner, name))
        )
        if row is None:
            known = ", ".join(map(str, versions))
            raise NotFound("version", str(chosen), remedy=f"of {name!r} there are: {known}")
        return chosen, row, versions

    async def agent(self, tenant: str, name: str, version: int) -> RunnableAgent:
        """The agent of a version, built when it is not at hand.

        Raises:
            SystemChanged: it was registered, but can no longer be built here.
        """
        key = (tenant, name, version)
        if key in self._agents:
            return self._keep(key, self._agents[key], self._outdated.get(tenant))
        async with self._building.setdefault(key, asyncio.Lock()):  # one slow system holds up no other
            known = self._outdated.get(tenant)
            try:
                return self._keep(key, self._agents.get(key) or await self._built(tenant, name, version), known)
            finally:
                self._building.pop(key, None)

    def forget(self, tenant: str) -> None:
        """Build the tenant's agents anew when they are needed: a key that they hold has changed."""
        self._outdated[tenant] = self._outdated.get(tenant, 0) + 1
        for key in [key for key in self._agents if key[0] == tenant]:
            del self._agents[key]

    def _keep(self, key: _Key, agent: RunnableAgent, known: int | None) -> RunnableAgent:
        """Unless it was outdated while it was built; then it is for whoever asked, and nobody else."""
        if self._outdated.get(key[0]) != known:
            return agent
        self._agents.pop(key, None)
        self._agents[key] = agent
        while len(self._agents) > KEPT:
            del self._agents[next(iter(self._agents))]
        return agent

    async def checklist_folder(self, tenant: str, name: str) -> str:
        """Where the to-do lists of its sessions go today: as its last version says."""
        owner = self._owner(tenant, name)
        row = await self._database.read(lambda tx: tx.row("last_system", owner, name))
        folders = await self._specs.folders(owner, name)
        default = Storage().checklist_dir  # also if it is withdrawn while we look
        return _within(tenant, default if row is None else folders.get(int(row[0]), default))

    async def checklist_folders(self, tenant: str, name: str) -> set[str]:
        """Where to-do lists of its sessions may lie; those of a system that the server was once started with, too."""
        owners = {tenant, LOCAL_TENANT}
        found = [await self._specs.folders(owner, name) for owner in owners]
        return {_within(tenant, folder) for folders in found for folder in folders.values()}

    async def all_checklist_folders(self) -> set[str]:
        systems = await self._database.read(lambda tx: tx.rows("all_systems"))
        return {folder for tenant, name in systems for folder in await self.checklist_folders(tenant, name)}

    async def _checked(self, tenant: str, text: str, source: str) -> tuple[Loaded, Resolved, RunnableAgent | None]:
        loaded = await in_thread(read_system, text, source=source)
        factory = await self._factories(tenant, loaded.system.system.name)
        resolved = await factory.admitted(loaded)
        agent: RunnableAgent | None = None
        with suppress(MissingSecret, McpUnreachable):  # warned of; whoever sends the first message is told again
            agent = await factory.build(resolved.root, loaded.system.system)
        return loaded, resolved, agent

    async def _store(self, tenant: str, name: str, text: str) -> int:
        known = await self._database.read(lambda tx: tx.row("newest_system", tenant, name))
        if known is not None and known[1] == system_rows.digest(text):
            return int(known[0])  # nothing to write: a server on a full disk starts
        item = Registration(tenant, name, text, self._clock.now())
        return await self._database.submit(system_rows.register_many, item)

    async def _newest(self, tenant: str, name: str) -> Row:
        owner = self._owner(tenant, name)
        row = await self._database.read(lambda tx: tx.row("newest_system", owner, name))
        if row is None:
            rows = await self._database.read(lambda tx: tx.rows("system_names", tenant))
            known = sorted({*self._given, *(known for (known,) in rows)})
            raise NotFound("agent system", name, remedy=f"there are: {', '.join(known)}")
        return row

    async def _built(self, tenant: str, name: str, version: int) -> RunnableAgent:
        owner = self._owner(tenant, name)
        row = await self._database.read(lambda tx: tx.row("system_version", owner, name, version))
        if row is None:
            raise NotFound("agent system", f"{name} version {version}", remedy="it was removed")
        try:
            loaded = await in_thread(read_system, bytes(row[0]), source=f"{name} version {version}")
            factory = await self._factories(tenant, name)
            resolved = await factory.admitted(loaded)
            return await factory.build(resolved.root, loaded.system.system)
        except (SpecError, SettingsError) as error:
            raise SystemChanged(name, version, error.message) from error


def _within(tenant: str, folder: str) -> str:
    """Below the data folder, and there below the tenant's own."""
    return str(folder_of(PurePosixPath(), tenant) / folder)
