"""The registered agent systems, their versions, and the agents built from them."""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import PurePosixPath
from typing import Any

import msgspec
import structlog

from stellwerk import errors
from stellwerk.agents.build.factory import AgentFactory
from stellwerk.agents.graphs.serve_targets import build_failure
from stellwerk.agents.runtime.runnable import RunnableAgent
from stellwerk.database.port import Database, Lock, Row, Transaction, locking
from stellwerk.ids import Clock
from stellwerk.spec.load import LoadedSystem, load_system
from stellwerk.spec.model import SystemSpec
from stellwerk.spec.resolve import Resolved
from stellwerk.tenants.principals import LOCAL_TENANT
from stellwerk.tenants.tenants import folder_of
from stellwerk.threads import in_thread

logger = structlog.get_logger(__name__)

_Key = tuple[str, str, int]
Factories = Callable[[str, str], Awaitable[AgentFactory]]
_SYSTEMS = Lock("systems")
KEPT = 200
"""Agents that are held ready; any other is built again when it is needed."""


@dataclass(frozen=True, slots=True)
class Registration:
    tenant: str
    name: str
    text: str
    at: float


@dataclass(frozen=True, slots=True)
class SystemInfo:
    id: str
    version: int
    created_at: float
    updated_at: float
    description: str = ""
    unusable: str | msgspec.UnsetType = msgspec.UNSET
    """Why no message can be sent to it, if its graph cannot be imported or built."""
    graph: str | msgspec.UnsetType = msgspec.UNSET
    """The graph that gets the messages, if it is one of the operator's."""
    metadata: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET


@locking(lambda _: [_SYSTEMS])
def register_many(tx: Transaction, items: Sequence[Registration]) -> list[int | Exception]:
    return [_register(tx, item) for item in items]


@locking(lambda _: [_SYSTEMS])
def withdraw_many(tx: Transaction, systems: Sequence[tuple[str, str]]) -> list[bool | Exception]:
    """Withdraw systems; False if none was there. Rows without a session are deleted at once."""
    withdrawn: list[bool | Exception] = [tx.run("withdraw_system", *system) > 0 for system in systems]
    tx.run("purge_systems")
    return withdrawn


@locking(lambda _: [_SYSTEMS])
def purge(tx: Transaction, _items: Sequence[None]) -> list[int | Exception]:
    """Remove withdrawn systems whose last session was deleted."""
    return [tx.run("purge_systems")]


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _register(tx: Transaction, item: Registration) -> int:
    """The version that has this text; the same text makes no new version."""
    last = tx.row("last_system", item.tenant, item.name)
    if last is not None and last[1] == digest(item.text):
        tx.run("reinstate_system", item.tenant, item.name, last[0])
        return int(last[0])
    version = 1 if last is None else int(last[0]) + 1
    tx.run("insert_system", item.tenant, item.name, version, digest(item.text), item.text.encode(), item.at)
    return version


@dataclass(frozen=True, slots=True)
class Registered:
    """A version of a system, and what the server makes of it today."""

    resolved: Resolved
    warnings: tuple[errors.SpecProblem, ...]
    problems: tuple[errors.SpecProblem, ...] = ()
    """Why it could not be registered any more."""
    version: int | None = None
    """None as long as it is only checked."""
    created_at: float | None = None
    versions: tuple[int, ...] = ()

    @property
    def name(self) -> str:
        return self.resolved.name


@dataclass(frozen=True, slots=True)
class PreparedSystem:
    """A system that was checked and built, and is not stored yet."""

    text: str
    loaded: LoadedSystem
    resolved: Resolved
    agent: RunnableAgent | None = None
    """None if a secret or an MCP server is missing: a warning now, an error at the first message."""
    broken: errors.BrokenReference | None = None
    """The graph of the operator that cannot be used."""
    known: int | None = None

    @property
    def name(self) -> str:
        return self.resolved.name


class Systems:
    def __init__(self, database: Database, factories: Factories, clock: Clock, *, kept: int = KEPT) -> None:
        self._database, self._factories, self._clock, self._kept = database, factories, clock, kept
        self._agents: dict[_Key, RunnableAgent] = {}
        """Those used last, the latest at the end. A run holds the agent that it drives."""
        self._given: set[str] = set()
        self._unusable: dict[_Key, errors.BrokenReference] = {}
        """Systems that could not be built when that was tried last, because of a graph."""
        self._building: dict[_Key, asyncio.Lock] = {}
        self._outdated: dict[str, int] = {}
        """How often what the agents of a tenant are built with has changed."""

    async def register(self, tenant: str, text: str, *, source: str) -> Registered:
        """Check and store a system.

        Raises:
            SpecError: it cannot be built here; says everything that is wrong with it.
            Conflict: the server was started with one of this name.
        """
        prepared = self._whole(tenant, await self._load(tenant, text, source))
        return await self._store(tenant, prepared)

    async def _store(self, tenant: str, prepared: PreparedSystem) -> Registered:
        text, loaded, resolved = prepared.text, prepared.loaded, prepared.resolved
        if self._owner(tenant, resolved.name) != tenant:
            raise errors.Conflict(
                f"the server was started with the agent system {resolved.name!r}, for everybody; "
                "register yours under another name",
                code="system_given",
            )
        warnings = loaded.located(resolved.warnings)
        for warning in warnings:
            logger.warning("system_warning", system=resolved.name, field=warning.field, message=warning.message)
        newest = await self._database.read(lambda tx: tx.row("newest_system", tenant, resolved.name))
        if newest is not None and newest[1] == digest(text):
            version = int(newest[0])  # nothing to write: a server on a full disk starts
        else:
            item = Registration(tenant, resolved.name, text, self._clock.now())
            version = await self._database.submit(register_many, item)
        key = (tenant, resolved.name, version)
        if prepared.agent is not None:
            self._keep(key, prepared.agent, prepared.known)
        if prepared.broken is not None:
            self._unusable[key] = prepared.broken
        return Registered(resolved, warnings, version=version)

    async def prepare(self, text: str, *, source: str, build: bool = True) -> PreparedSystem:
        """Check and build a system that the server starts with; stores nothing.

        Without ``build``, its agent is built when it is first used.

        Raises:
            SpecError: it is wrong; one with a graph that cannot be used is not, but says so.
        """
        return await self._load(LOCAL_TENANT, text, source, build=build)

    async def give(self, prepared: PreparedSystem) -> None:
        """Register a system that the server starts with: every tenant has it, none withdraws it."""
        await self._store(LOCAL_TENANT, prepared)
        self._given.add(prepared.name)

    def unusable(self) -> set[str]:
        """The systems of this start with a graph that cannot be used."""
        return {name for _, name, _ in self._unusable if name in self._given}

    async def take_back(self, text: str, *, source: str) -> None:
        """Withdraw a system that an earlier start gave, unless its text is another by now."""
        loaded = await in_thread(load_system, text, source=source)
        name = loaded.system.system.name
        row = await self._database.read(lambda tx: tx.row("newest_system", LOCAL_TENANT, name))
        if row is not None and row[1] == digest(text):
            await self._database.submit(withdraw_many, (LOCAL_TENANT, name), urgent=True)

    def _owner(self, tenant: str, name: str) -> str:
        """Whose rows a system is in."""
        return LOCAL_TENANT if name in self._given else tenant

    async def check(self, tenant: str, text: str, *, source: str) -> Registered:
        """What registering would make of it; stores nothing, and raises like ``register``."""
        prepared = self._whole(tenant, await self._load(tenant, text, source))
        return Registered(prepared.resolved, prepared.loaded.located(prepared.resolved.warnings))

    def _whole(self, tenant: str, prepared: PreparedSystem) -> PreparedSystem:
        """The system, unless a graph that it names cannot be used."""
        if prepared.broken is None:
            return prepared
        reason = _reason(tenant, prepared.broken)
        raise errors.SpecError(f"the agent system {prepared.name!r} cannot be used: {reason}")

    async def withdraw(self, tenant: str, name: str) -> None:
        """No session can begin with it any more; versions stay while a session refers to them.

        Raises:
            NotFound: nothing is registered under this name.
            Conflict: the server was started with it.
        """
        await self.newest(tenant, name)
        if name in self._given:
            raise errors.Conflict(
                f"the server was started with the agent system {name!r} and would register it again at its next start; "
                "start it without, or leave it: an unused system costs nothing",
                code="system_given",
            )
        await self._database.submit(withdraw_many, (tenant, name))
        for key in [key for key in self._agents if key[:2] == (tenant, name)]:
            del self._agents[key]  # its version numbers may be reused

    async def newest(self, tenant: str, name: str) -> int:
        """The version that a new session uses.

        Raises:
            NotFound: nothing is registered under this name.
        """

        def read(tx: Transaction) -> tuple[int | None, list[Row]]:
            return self.newest_version(tx, tenant, name), tx.rows("system_names", tenant)

        version, rows = await self._database.read(read)
        if version is None:
            known = sorted({*self._given, *(known for (known,) in rows)})
            remedy = "none is registered; POST /agent-systems registers one"
            if known:
                remedy = f"there are: {', '.join(known)}"
            raise errors.NotFound("agent system", name, remedy=remedy)
        return version

    def newest_version(self, tx: Transaction, tenant: str, name: str) -> int | None:
        """The version that the next round of a session uses; None if the system was withdrawn."""
        row = tx.row("newest_system", self._owner(tenant, name), name)
        return None if row is None else int(row[0])

    async def usable(self, tenant: str, name: str, version: int | None) -> int:
        """The version, after its agent was built.

        Raises:
            Conflict: the system was deleted.
            SystemChanged, MissingSecret, McpUnreachable: it cannot be built here as things are.
        """
        if version is None:
            raise errors.Conflict(
                f"the agent system {name!r} of this session was deleted; register it again with POST /agent-systems, "
                "or begin a session with another",
                code="system_gone",
            )
        await self.agent(tenant, name, version)
        return version

    async def list(self, tenant: str, *, after: str, limit: int) -> list[SystemInfo]:
        """By name; ``after`` is the last one seen."""
        given = msgspec.json.encode(sorted(self._given)).decode()

        def read(tx: Transaction) -> list[tuple[SystemInfo, bytes]]:
            found: list[tuple[SystemInfo, bytes]] = []
            for row in tx.rows("systems", tenant, after, limit, LOCAL_TENANT, given):
                info = SystemInfo(*row)
                key = (self._owner(tenant, info.id), info.id, info.version)
                ((body, _),) = tx.rows("system_version", *key)
                found.append((info, body))
            return found

        def described(info: SystemInfo, body: bytes) -> SystemInfo:
            broken = self._unusable.get((self._owner(tenant, info.id), info.id, info.version))
            unusable = msgspec.UNSET if broken is None else _reason(tenant, broken)
            spec, graph = _head(info.id, body)
            return replace(
                info,
                description=spec.description,
                unusable=unusable,
                graph=graph or msgspec.UNSET,
                metadata=spec.metadata or msgspec.UNSET,
            )

        found = await self._database.read(read)
        return await in_thread(lambda: [described(*each) for each in found])

    async def describe(self, tenant: str, name: str, version: int | None = None) -> Registered:
        """
        Raises:
            NotFound: there is no such system, or no such version of it.
        """
        chosen, row, versions = await self._stored(tenant, name, version)
        loaded = await in_thread(load_system, row[0], source=name)
        resolved = await (await self._factories(tenant, name)).resolved(loaded)
        problems = loaded.located((*resolved.problems, *resolved.missing))
        broken = self._unusable.get((self._owner(tenant, name), name, chosen))
        if broken is not None:
            problems = (*problems, errors.SpecProblem(_reason(tenant, broken)))
        return Registered(resolved, loaded.located(resolved.warnings), problems, chosen, row[1], versions)

    async def text(self, tenant: str, name: str, version: int | None = None) -> str:
        """As it was registered; raises like ``describe``."""
        _, (body, _), _ = await self._stored(tenant, name, version)
        return str(body, "utf-8", "replace")

    async def _stored(self, tenant: str, name: str, version: int | None) -> tuple[int, Row, tuple[int, ...]]:
        newest = await self.newest(tenant, name)
        chosen = newest if version is None else version
        system = self._owner(tenant, name), name

        def read(tx: Transaction) -> tuple[Row | None, list[Row]]:
            return tx.row("system_version", *system, chosen), tx.rows("system_versions", *system)

        row, rows = await self._database.read(read)
        versions = tuple(number for (number,) in rows)
        if row is None:
            remedy = f"of {name!r} there are: {', '.join(map(str, versions))}"
            raise errors.NotFound("version", str(chosen), remedy=remedy)
        return chosen, row, versions

    async def agent(self, tenant: str, name: str, version: int) -> RunnableAgent:
        """The agent of a version, built when it is not at hand.

        Raises:
            SystemChanged: it was registered, but can no longer be built here.
            GraphUnusable: its graph cannot be imported or built.
        """
        key = (tenant, name, version)
        if key in self._agents:
            return self._keep(key, self._agents[key], self._outdated.get(tenant))
        async with self._building.setdefault(key, asyncio.Lock()):  # a slow one holds up no other
            known = self._outdated.get(tenant)
            try:
                agent = self._agents.get(key) or await self._built(tenant, name, version)
                return self._keep(key, agent, known)
            finally:
                self._building.pop(key, None)

    def forget(self, tenant: str) -> None:
        """Forget the tenant's agents: a key that they hold has changed."""
        self._outdated[tenant] = self._outdated.get(tenant, 0) + 1
        for key in [key for key in self._agents if key[0] == tenant]:
            del self._agents[key]

    def _keep(self, key: _Key, agent: RunnableAgent, known: int | None) -> RunnableAgent:
        """Keep the agent, unless it became outdated meanwhile: then only the caller gets it."""
        if self._outdated.get(key[0]) != known:
            return agent
        self._agents.pop(key, None)
        self._agents[key] = agent
        while len(self._agents) > self._kept:
            del self._agents[next(iter(self._agents))]
        return agent

    async def checklist_folder(self, tenant: str, name: str) -> str:
        """The folder for the to-do lists of its sessions, as its last version says."""
        owner = self._owner(tenant, name)
        rows = await self._database.read(lambda tx: tx.rows("system_bodies", owner, name))
        if not rows:
            return _checklist_folder(tenant, SystemSpec(name=name))
        last = max(rows, key=lambda row: int(row[1]))
        return _checklist_folder(tenant, await in_thread(_spec, name, last[2]))

    async def checklist_folders(self, tenant: str, name: str) -> set[str]:
        """Folders of its sessions' to-do lists, also of a system of an earlier start."""

        def read(tx: Transaction) -> list[Row]:
            return [row for owner in {tenant, LOCAL_TENANT} for row in tx.rows("system_bodies", owner, name)]

        rows = await self._database.read(read)
        specs = await in_thread(lambda: [_spec(name, body) for _, _, body in rows])
        return {_checklist_folder(tenant, spec) for spec in specs}

    async def all_checklist_folders(self) -> set[str]:
        systems = await self._database.read(lambda tx: tx.rows("all_systems"))
        found = [await self.checklist_folders(tenant, name) for tenant, name in systems]
        return set().union(*found)

    async def _load(self, tenant: str, text: str, source: str, *, build: bool = True) -> PreparedSystem:
        known = self._outdated.get(tenant)
        loaded = await in_thread(load_system, text, source=source)
        factory = await self._factories(tenant, loaded.system.system.name)
        resolved = await factory.admitted(loaded)
        agent: RunnableAgent | None = None
        broken: errors.BrokenReference | None = None
        try:
            if build:
                agent = await factory.build(resolved.root, loaded.system.system)
                await agent.check_given(agent.options.defaults)
        except (errors.MissingSecret, errors.McpUnreachable):
            pass
        except errors.InvalidField as error:
            raise errors.SpecError.of(source, loaded.located([_of_root(loaded, error)])) from error
        except errors.BrokenReference as error:
            broken = error
        return PreparedSystem(text, loaded, resolved, agent, broken, known)

    async def _built(self, tenant: str, name: str, version: int) -> RunnableAgent:
        owner = self._owner(tenant, name)
        row = await self._database.read(lambda tx: tx.row("system_version", owner, name, version))
        if row is None:
            raise errors.NotFound("agent system", f"{name} version {version}", remedy="it was removed")
        try:
            loaded = await in_thread(load_system, row[0], source=f"{name} version {version}")
            factory = await self._factories(tenant, name)
            resolved = await factory.admitted(loaded)
            agent = await factory.build(resolved.root, loaded.system.system)
            self._unusable.pop((owner, name, version), None)
            return agent
        except errors.BrokenReference as error:
            self._unusable[owner, name, version] = error
            raise errors.GraphUnusable(name, _reason(tenant, error)) from error
        except (errors.SpecError, errors.SettingsError) as error:
            raise errors.SystemChanged(name, version, build_failure(name, row[0], error)) from error


def _of_root(loaded: LoadedSystem, error: errors.InvalidField) -> errors.SpecProblem:
    """The problem of a default, at its place in the text."""
    at = loaded.system.agents.index(loaded.system.orchestrator())
    field = error.field or ""
    return errors.SpecProblem(error.message.removeprefix(f"{field}: "), f"agents[{at}].{field}")


def _reason(tenant: str, broken: errors.BrokenReference) -> str:
    """Why a graph cannot be used. Paths and errors of the operator's code are for the operator."""
    if tenant == LOCAL_TENANT:
        return broken.message
    return "a graph of the operator cannot be loaded; the server's log has the reason"


def _spec(name: str, body: bytes) -> SystemSpec:
    return _head(name, body)[0]


@lru_cache(maxsize=1000)
def _head(name: str, body: bytes) -> tuple[SystemSpec, str | None]:
    """What a stored text says of the system itself, and its outermost graph; parsing it takes milliseconds."""
    try:
        system = load_system(body, source="").system
    except errors.SpecError:  # stored by an older server, which accepted what this one rejects
        return SystemSpec(name=name), None
    return system.system, system.orchestrator().graph


def _checklist_folder(tenant: str, spec: SystemSpec) -> str:
    """Below the data folder, and there below the tenant's own."""
    return str(folder_of(PurePosixPath(), tenant) / spec.storage.checklist_dir)
