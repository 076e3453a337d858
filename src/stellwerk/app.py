"""The composition root: builds the whole server from its settings."""

import asyncio
from collections import ChainMap
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import structlog
from fastapi import APIRouter, FastAPI
from fastapi.params import Depends
from fastapi_offline import FastAPIOffline

import stellwerk
from stellwerk import logs
from stellwerk.agents.build.tenant_resources import TenantResources
from stellwerk.agents.checkpoints.serde import prove_strict
from stellwerk.agents.graphs import operator_file, registry, serve_targets
from stellwerk.agents.graphs.isolation import Isolation
from stellwerk.agents.isolated.pool import Workers
from stellwerk.agents.runtime import context, loopback, runnable, tracing
from stellwerk.agents.runtime.watchdog import watched_loop
from stellwerk.agents.store.graph_store import warn_if_shared
from stellwerk.agents.store.index import open_index
from stellwerk.agents.store.opening import shared_store
from stellwerk.agents.tools import registry as tools
from stellwerk.api.http import audit, auth, cors, guard, metrics_middleware, mounting, problems, response_start
from stellwerk.api.routes import all, files, operations, pages
from stellwerk.api.schema import openapi, responses
from stellwerk.api.services import PluginRouters, ServerPlugin, Services, server_plugins
from stellwerk.api.streams.reader import StreamSource
from stellwerk.background import Chores, Work, repeat, start
from stellwerk.database.folder import DATABASE, DOCUMENTS, locked, shared
from stellwerk.database.opening import database_of
from stellwerk.database.port import Database, OpenableDatabase
from stellwerk.demo import built_in
from stellwerk.documents.places import files_at
from stellwerk.documents.store import DocumentStore, FileNumbers
from stellwerk.documents.todolists import Todolists
from stellwerk.errors import BrokenReference, SettingsError, StorageGone
from stellwerk.ids import Clock, SortableIds, SystemClock
from stellwerk.log.durable import DurableLog
from stellwerk.log.notify import WakeUps
from stellwerk.log.tick import Tick
from stellwerk.overviews import Overviews
from stellwerk.retention import RetentionJob
from stellwerk.runs import transactions
from stellwerk.runs.client_threads import ClientThreads
from stellwerk.runs.jobs.crons import Crons
from stellwerk.runs.jobs.webhooks import Webhooks
from stellwerk.runs.ownership import own_runs
from stellwerk.runs.runner import Runner
from stellwerk.runs.scheduler import Scheduler, SessionStorage
from stellwerk.runs.sessions import Sessions
from stellwerk.runs.systems import Systems, purge
from stellwerk.settings import LOOPBACK, Settings, beyond_loopback, listed
from stellwerk.spec.operator import Operator
from stellwerk.tenants import jwt
from stellwerk.tenants.audit import Audit, AuditedDatabase
from stellwerk.tenants.keys import ApiKeys
from stellwerk.tenants.master_key import key_source
from stellwerk.tenants.quotas import TenantQuotas
from stellwerk.tenants.secrets import Secrets, open_secrets
from stellwerk.tenants.tenants import Tenants
from stellwerk.tenants.tickets import Tickets
from stellwerk.threads import RunThreads
from stellwerk.timings import Timings

if TYPE_CHECKING:
    from stellwerk.cluster.cluster import Cluster

logger = structlog.get_logger(__name__)

_LOOK_AROUND = 1.0
_KEEP_USES = 30.0
_REMOVE_LEFT = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """Parts of the server that tests replace."""

    timings: Timings = Timings()
    database: Callable[[Path], OpenableDatabase] | None = None
    """Made of the path of its file, in place of the one that the settings name."""
    clock: Clock = SystemClock()
    demo_systems: Callable[[], Mapping[str, str]] = built_in
    """By source: the texts of the systems that are there with ``Settings(demo=True)``."""
    plugins: Callable[[], Sequence[ServerPlugin]] = server_plugins


def create_app(
    settings: Settings | None = None,
    *,
    own: Mapping[str, str] | None = None,
    dependencies: Sequence[Depends] = (),
    identify: auth.Identify | None = None,
    parts: Parts = Parts(),
) -> FastAPI:
    """The whole server as an ASGI app; everything it holds is opened and closed by its lifespan.

    The systems demo and office are there only with ``Settings(demo=True)``. ``own`` are graphs and
    agent systems of yours, by name: ``{"desk": "desk.py:graph", "research": "research.yaml"}``.
    ``dependencies`` of yours come before every route but /, /docs and /healthz: who may use it is
    yours to say. ``identify`` gets each request and returns its principal,
    ``stellwerk.Principal(tenant, role, user)``. Without either, a server that has no keys takes only
    requests of its own machine. Run it by ``serve``; or mount it, and put ``stellwerk.opened(app)``
    into the lifespan of the app it is mounted in.
    """
    chosen = settings or Settings()
    wakes = WakeUps()
    plugins = parts.plugins()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        # LangChain runs synchronous nodes and tools in the default executor of the loop.
        asyncio.get_running_loop().set_default_executor(RunThreads())
        async with AsyncExitStack() as running:
            opening = _services(chosen, wakes, own or {}, identify, checked_before=bool(dependencies), parts=parts)
            services = await running.enter_async_context(opening)
            app.state.credentials = services.credentials
            app.state.audit = services.audit
            app.state.quotas = services.quotas
            app.state.unusable = services.systems.unusable()
            enter = running.enter_async_context
            plugged_in = [await enter(plugin.opened(app, services)) for plugin in plugins]
            for router in _routers(chosen, services, plugged_in):
                _include(app, router, dependencies)
            _include(app, operations.health_routes(services), ())
            app.state.opened = True
            with mounting.ending_with_the_process(wakes), watched_loop(parts.timings.watchdog):
                yield

    app = FastAPIOffline(
        docs_url=None,
        redoc_url=None,
        title="Stellwerk",
        version=stellwerk.__version__,
        description=openapi.ABOUT,
        openapi_tags=openapi.tags([tag for plugin in plugins for tag in plugin.tags]),
        swagger_ui_parameters={"defaultModelsExpandDepth": 0},
        lifespan=lifespan,
    )
    app.state.wakes = wakes
    app.state.opened = False
    app.state.requests = metrics_middleware.RequestMetrics()
    app.state.timings = parts.timings
    app.state.has_dependencies = bool(dependencies)
    app.state.parameters = auth.parameters_of(dependencies)
    problems.install(app)
    openapi.install(app, [*responses.PUBLISHED, *(schema for plugin in plugins for schema in plugin.schemas)])
    pages.install_docs(app)
    pages.install_console(app)
    app.state.own_endpoints = cors.endpoints(app.routes)
    _add_middleware(app, plugins, chosen)
    return app


def _add_middleware(app: FastAPI, plugins: Sequence[ServerPlugin], chosen: Settings) -> None:
    """The innermost first."""
    app.add_middleware(audit.AuditMiddleware)
    for plugin in plugins:
        for middleware in plugin.middleware:
            app.add_middleware(middleware)
    app.add_middleware(mounting.NotOpenedMiddleware)
    app.add_middleware(
        guard.Guard,
        hosts=(*LOOPBACK, *listed(chosen.hosts)),
        origins=listed(chosen.origins),
        body_limit=chosen.body_limit,
        path_limits={files.PATH: chosen.file_limit},
        prefix_limits=ChainMap(*(dict(plugin.body_limits) for plugin in plugins)),
    )
    app.add_middleware(
        problems.UnexpectedErrors, error_forms=ChainMap(*(dict(plugin.error_forms) for plugin in plugins))
    )
    app.add_middleware(cors.CorsMiddleware, origins=listed(chosen.origins))
    app.add_middleware(metrics_middleware.MetricsMiddleware, requests=app.state.requests)
    app.add_middleware(response_start.ResponseStartMiddleware)
    for plugin in plugins:
        if plugin.outermost is not None:
            app.add_middleware(plugin.outermost, chosen)


def _routers(settings: Settings, services: Services, plugged_in: Sequence[PluginRouters]) -> list[APIRouter]:
    if settings.role == "worker":  # it takes no requests but the operator's
        return [operations.metrics_routes(services)]
    return all.routers(services, plugged_in, frame_limit=settings.body_limit)


def _include(app: FastAPI, router: APIRouter, dependencies: Sequence[Depends]) -> None:
    app.include_router(router, dependencies=dependencies)
    app.state.own_endpoints |= cors.endpoints(router.routes)


def check_reach(settings: Settings, *, closed: bool) -> None:
    """Refuse a server that others than this machine may use, and that does not ask who they are."""
    setting = beyond_loopback(settings)
    if setting is not None and not closed:
        raise SettingsError(
            f"will not start with {setting}: there are no API keys, so anyone who reaches the server could use it; "
            f"create one with `stellwerk keys create me --role admin --data {settings.data}`, or leave {setting} out; "
            "embedded, give create_app dependencies or identify of your own"
        )


@asynccontextmanager
async def _services(
    settings: Settings,
    wakes: WakeUps,
    own: Mapping[str, str],
    identify: auth.Identify | None = None,
    *,
    checked_before: bool = False,
    parts: Parts = Parts(),
) -> AsyncIterator[Services]:
    operator = operator_file.read_operator(settings.config)
    wanted = serve_targets.served(own, operator.graphs)
    async with AsyncExitStack() as opened:
        opened.enter_context(locked(settings.data) if settings.database is None else shared(settings.data))
        prove_strict()
        tracing.trace_in_place()
        loopback.answer_loopback_clients()
        clock = parts.clock
        storage, cluster = await _storage(settings, operator, wakes, parts, opened)
        opened.enter_context(logs.redacting(storage.log.redactors.redact_line))
        await opened.enter_async_context(tracing.tracing(storage.log.redactors))
        secrets = await _secrets(settings, storage, clock)
        credentials = await _credentials(operator, storage.database, clock, identify, checked_before)
        check_reach(settings, closed=checked_before or credentials.asked_for)
        _follow_access(cluster, credentials, storage.quotas, wakes)
        graphs = serve_targets.graphs_among(wanted)
        resources = _tenant_resources(_isolation(settings, operator, own), storage, secrets, graphs, opened)
        resources = await _with_store(resources, settings, own)
        systems = Systems(storage.database, resources.factory, clock)
        secrets.when_changed(systems.forget)
        scheduler, sessions = _sessions(settings, storage, systems, clock, cluster, opened)
        start(repeat(storage.log.heartbeat, "look_around_failed", every=_LOOK_AROUND), opened)
        # Beside systems of the operator they are built when first used: graphs alone need no LangChain.
        await _give_built_in(systems, parts.demo_systems(), demo=bool(settings.demo), build=not wanted)
        await _give(systems, wanted, own, credentials)
        await _recover(storage, scheduler, cluster)
        overviews = Overviews(storage.database, systems, storage.todolists)
        start(repeat(credentials.keys.keep_uses, "uses_not_kept", every=_KEEP_USES), opened)
        audit_log = Audit(storage.database, clock, storage.log.redactors)
        kept = storage.database, storage.log, storage.documents
        retention = RetentionJob(*kept, sessions, audit_log, operator.retention, clock, serve_targets.ttls_of(own))
        retention.warn_of_unknown([tenant.name for tenant in credentials.tenants.all()])
        webhooks = Webhooks(storage.database, secrets, serve_targets.webhooks_of(operator, own), clock)
        opened.push_async_callback(webhooks.close)
        crons = Crons(storage.database, storage.log, sessions, audit_log, clock)
        jobs = (webhooks.deliver_due, scheduler.claim_due, crons.fire_due, retention.delete_ephemeral)
        _start_chores(jobs, overviews, retention, parts.timings, cluster, opened)
        streams = StreamSource(storage.database, storage.log, wakes, credentials, parts.timings)
        wakes.on_rewrite.append(streams.forget)
        yield Services(
            database=storage.database,
            log=storage.log,
            wakes=wakes,
            sessions=sessions,
            systems=systems,
            documents=storage.documents,
            numbers=FileNumbers(storage.database),
            overviews=overviews,
            credentials=credentials,
            streams=streams,
            audit=audit_log,
            secrets=secrets,
            quotas=storage.quotas,
            webhooks=webhooks,
            crons=crons,
            threads=ClientThreads(storage.database, storage.log, clock, SortableIds(clock)),
            clock=clock,
            tools=resources.inventory,
            stores=resources.store,
            cluster=cluster,
        )


def is_shared(settings: Settings) -> bool:
    """Whether other nodes may use the same database."""
    return settings.database is not None


async def _storage(
    settings: Settings, operator: Operator, wakes: WakeUps, parts: Parts, opened: AsyncExitStack
) -> "tuple[SessionStorage, Cluster | None]":
    data = settings.data
    stored = database_of(settings) if parts.database is None else parts.database(data / DATABASE)
    await stored.open()
    opened.push_async_callback(stored.close)
    cluster = await _joined(settings, stored, wakes, parts.timings, opened)
    audited = dict(audit.RECORDED)
    for plugin in parts.plugins():
        audited |= plugin.audited
    database = AuditedDatabase(stored, audited)
    start(_watch_database(stored), opened)
    log = DurableLog(database, wakes, operator_file.redactors_of(operator), unaudited=stored)
    quotas = TenantQuotas(database, parts.clock)
    await quotas.open()
    log.metrics.on_growth = quotas.log_grew
    files = files_at(settings.documents, data / DOCUMENTS, is_shared=is_shared(settings))
    documents = DocumentStore(database, files, parts.clock, quotas.files_changed)
    await documents.open()
    opened.push_async_callback(documents.close)
    start(documents.keep_swept(), opened)
    start(repeat(documents.remove_left, "documents_left", every=_REMOVE_LEFT), opened)
    todolists = Todolists(None if is_shared(settings) else data)
    return SessionStorage(database, log, documents, todolists, data, quotas, parts.timings), cluster


def _sessions(
    settings: Settings,
    storage: SessionStorage,
    systems: Systems,
    clock: Clock,
    cluster: "Cluster | None",
    opened: AsyncExitStack,
) -> tuple[Scheduler, Sessions]:
    tick = Tick(asyncio.get_running_loop(), storage.database.when_free)
    runner = Runner(storage, systems, tick, window=settings.window)
    slots = 0 if settings.role == "api" else settings.slots
    scheduler = Scheduler(storage, runner.run, clock, slots=slots, waiting=settings.waiting, node=cluster)
    opened.push_async_callback(scheduler.close)
    sessions = Sessions(storage, systems, scheduler, clock, SortableIds(clock))
    runner.answer_calls(sessions, clock)
    return scheduler, sessions


async def _joined(
    settings: Settings, stored: OpenableDatabase, wakes: WakeUps, timings: Timings, opened: AsyncExitStack
) -> "Cluster | None":
    """The node that this server is among others on its database; None on SQLite, where it is alone.

    Raises:
        SettingsError: it is to have a role among others, without a database for them.
    """
    if settings.database is None:
        if settings.role != "all":
            raise SettingsError(
                f"the role {settings.role} is for one of several nodes, which share a PostgreSQL database; "
                "name it with --database, or leave out the role"
            )
        return None
    from stellwerk.cluster.cluster import Cluster, node_of

    node = node_of(settings.role, stellwerk.__version__, settings.slots, settings.lease, timings.loop_patience)
    cluster = Cluster(stored, wakes, node, notifies=settings.notifications)
    await cluster.open()
    opened.push_async_callback(cluster.close)
    return cluster


def _start_chores(
    jobs: Sequence[Work],
    overviews: Overviews,
    retention: RetentionJob,
    timings: Timings,
    cluster: "Cluster | None",
    opened: AsyncExitStack,
) -> None:
    """What one node does for all."""

    def leads() -> bool:
        return cluster is None or cluster.is_leader

    chores = Chores(leads, opened)
    chores.start(jobs, "job_failed", every=timings.jobs)
    chores.start([overviews.catch_up], "overviews_not_kept", every=timings.overviews)
    start(retention.keep_running(leads), opened)


async def _give_built_in(systems: Systems, texts: Mapping[str, str], *, demo: bool, build: bool) -> None:
    """Register what comes with the server, or withdraw what an earlier start registered."""
    for source, text in texts.items():
        if demo:
            await systems.give(await systems.prepare(text, source=source, build=build))
        else:
            await systems.take_back(text, source=source)


async def _give(
    systems: Systems, wanted: Mapping[str, str], own: Mapping[str, str], credentials: auth.Credentials
) -> None:
    """Register what the server was started with, also graphs that cannot be used, with their reasons.

    Raises:
        BrokenReference: none of ``own`` can be used; has all reasons. Nothing was registered.
    """
    prepared = [
        await systems.prepare(serve_targets.text_of(name, place), source=place) for name, place in wanted.items()
    ]
    broken = {each.name: each.broken for each in prepared if each.broken is not None}
    if own and broken.keys() >= own.keys():
        raise BrokenReference.together([*broken.values()])
    for system in prepared:
        await systems.give(system)
        if system.agent is not None and not system.agent.wants_user_id:
            if system.agent.elsewhere is None:
                warn_if_shared(system.agent.graph)
        elif system.agent is not None and not credentials.asked_for:
            logger.warning("graph_wants_user_id", system=system.name, remedy=runnable.USER_REMEDY)
    for name, problem in broken.items():
        logger.error("graph_unusable", system=name, reason=problem.message)


async def _recover(storage: SessionStorage, scheduler: Scheduler, cluster: "Cluster | None") -> None:
    """Finish what the process before this one left, whether it ended or was killed."""
    while count := await storage.database.submit(transactions.rebuild_statuses, None, urgent=True):
        logger.info("sessions_read_anew", sessions=count)  # all of them after some upgrades
    await storage.documents.sweep_own()
    await storage.database.submit(purge, None, urgent=True)
    await scheduler.recover()
    if cluster is not None:
        own_runs(cluster, storage, scheduler)


async def _credentials(
    operator: Operator, database: Database, clock: Clock, identify: auth.Identify | None, checked_before: bool
) -> auth.Credentials:
    tenants = Tenants(database, clock)
    await tenants.open()
    keys = ApiKeys(database, clock)
    await keys.open()
    issuer = operator.tokens
    tokens = None if issuer is None else jwt.Tokens(jwt.Issuer(**issuer.model_dump()), clock)
    return auth.Credentials(keys, tenants, Tickets(clock), tokens, identify, checked_before)


def _follow_access(
    cluster: "Cluster | None", credentials: auth.Credentials, quotas: TenantQuotas, wakes: WakeUps
) -> None:
    """Close what a revoked key opened; read again what another node has changed."""
    credentials.keys.when_revoked(wakes.recheck)
    if cluster is not None:
        for read_again in (credentials.tenants.open, quotas.read_limits, credentials.keys.open):
            cluster.on_change("access", read_again)


async def _secrets(settings: Settings, storage: SessionStorage, clock: Clock) -> Secrets:
    key = key_source(settings.data, settings.master_key_command)
    return await open_secrets(storage.database, key, storage.log.redactors, clock, is_shared=is_shared(settings))


def _isolation(settings: Settings, operator: Operator, own: Mapping[str, str]) -> Isolation:
    projects = own.projects if isinstance(own, serve_targets.ServedSystems) else {}
    return Isolation(operator, settings.isolate, projects, settings.window)


def _tenant_resources(
    isolation: Isolation, storage: SessionStorage, secrets: Secrets, own: Mapping[str, str], opened: AsyncExitStack
) -> TenantResources:
    """What agents are built from: what is installed, and what the operator's file adds."""
    operator = isolation.operator
    named = {**operator.graphs, **own}
    graph_settings = registry.GraphSettings.of(operator)
    found_graphs = registry.discover(named, graph_settings, worker_of=isolation.worker_of)
    workers = Workers(storage.timings, window=isolation.window)
    opened.push_async_callback(workers.close)
    try:
        found_tools = tools.discover(operator.tools)
    except BrokenReference as error:
        raise BrokenReference.together([error, *found_graphs.broken()]) from error
    return TenantResources(
        database=storage.database,
        data=storage.data,
        operator=operator,
        tools=found_tools,
        graphs=found_graphs,
        keep=context.keep,
        secrets=secrets,
        redactors=storage.log.redactors,
        workers=workers,
        opened=opened,
    )


async def _with_store(resources: TenantResources, settings: Settings, own: Mapping[str, str]) -> TenantResources:
    index = await open_index(serve_targets.store_index_of(resources.operator, own))
    ttl = serve_targets.store_ttl_of(resources.operator, own)
    shared = await shared_store(settings, resources.database, index, ttl, resources.opened)
    return replace(resources, index=index, store_ttl=ttl, shared_store=shared)


async def _watch_database(database: OpenableDatabase) -> None:
    """Log that the database is gone, also on a server that writes nothing."""
    gone = False
    while True:
        await asyncio.sleep(_LOOK_AROUND)
        try:
            await database.check()
            gone = False
        except StorageGone as error:
            if not gone:
                logger.error("database_gone", path=database.where, error=error.message)
            gone = True
