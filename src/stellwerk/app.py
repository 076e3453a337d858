"""The composition root: the only place that builds everything from the settings and knows it all."""

import asyncio
from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import structlog
from fastapi import FastAPI
from fastapi.params import Depends
from fastapi_offline import FastAPIOffline

import stellwerk
from stellwerk import logs
from stellwerk.agents import graphs, journal, tools
from stellwerk.agents.checkpoints import prove_strict
from stellwerk.agents.operator_file import read_operator, redactors_of
from stellwerk.agents.pools import Pools
from stellwerk.agents.references import both
from stellwerk.agents.targets import graphs_among, served, text_of
from stellwerk.agents.tracing import trace_in_place, tracing
from stellwerk.agents.user_context import USER_REMEDY
from stellwerk.api import (
    console_page,
    docs_page,
    embedding,
    files,
    guard,
    health,
    openapi,
    parameters,
    problems,
    routes,
    workflow_shortcut,
)
from stellwerk.api.audit_trail import RECORDED, AuditTrail
from stellwerk.api.browsers import Browsers, endpoints
from stellwerk.api.credentials import Credentials, Identify
from stellwerk.api.measuring import Measuring, Requests
from stellwerk.api.overviews import Overviews
from stellwerk.api.services import Services
from stellwerk.database.folder import DATABASE, DOCUMENTS, locked, refuse_lost_database
from stellwerk.database.port import Database
from stellwerk.database.sqlite import Sqlite
from stellwerk.demo import built_in
from stellwerk.documents.extraction import Extractor
from stellwerk.documents.numbers import FileNumbers
from stellwerk.documents.store import DocumentStore
from stellwerk.documents.todolists import Todolists
from stellwerk.errors import SettingsError, StorageFull, StorageGone
from stellwerk.ids import Clock, SortableIds, SystemClock
from stellwerk.log.durable import DurableLog
from stellwerk.log.tick import Tick
from stellwerk.log.wake import Wakes
from stellwerk.retention import Retention
from stellwerk.runs import tables
from stellwerk.runs.dispatch import Dispatch
from stellwerk.runs.runner import Runner
from stellwerk.runs.sessions import Sessions
from stellwerk.runs.stores import Stores
from stellwerk.settings import LOOPBACK, Settings, beyond_loopback, listed
from stellwerk.spec.operator import Operator
from stellwerk.systems import rows as system_rows
from stellwerk.systems.registry import Systems
from stellwerk.tenants.audit import Audit
from stellwerk.tenants.audited import AuditedDatabase
from stellwerk.tenants.keys import Keys
from stellwerk.tenants.master_key import key_source
from stellwerk.tenants.quotas import Quotas
from stellwerk.tenants.secrets import Secrets, open_secrets
from stellwerk.tenants.tenants import Tenants
from stellwerk.tenants.tickets import Tickets
from stellwerk.tenants.tokens import Issuer, Tokens
from stellwerk.tenants.usage import UsageBook
from stellwerk.threads import RunThreads
from stellwerk.workflows.documents import Documents
from stellwerk.workflows.folds import Folds
from stellwerk.workflows.removal import Removals
from stellwerk.workflows.starting import Starting
from stellwerk.workflows.workflows import Workflows

logger = structlog.get_logger(__name__)

_LOOK_AROUND = 1.0
_KEEP_OVERVIEWS = 2.0
_KEEP_USES = 30.0


def create_app(
    settings: Settings | None = None,
    *,
    own: Mapping[str, str] | None = None,
    dependencies: Sequence[Depends] = (),
    identify: Identify | None = None,
) -> FastAPI:
    """The whole server as an ASGI app; everything it holds is opened and closed by its lifespan.

    The systems demo and office are there only with ``Settings(demo=True)``.
    ``own`` are graphs and agent systems of yours, by name: ``{"desk": "desk.py:graph", "research": "research.yaml"}``.
    ``dependencies`` of yours come before every route but /, /docs and /healthz: who may use it is yours to say.
    Without them and without ``identify``, a server that has no keys takes only requests of its own machine.
    ``identify`` is told each request and says whose it is, ``stellwerk.Principal(tenant, role, user)``.
    Run it by ``serve``; or mount it, and put ``stellwerk.opened(app)`` into the lifespan of the app it is mounted in.
    """
    chosen = settings or Settings()
    wakes = Wakes()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        # LangChain runs synchronous nodes and tools in the default executor of the loop, and in no other.
        asyncio.get_running_loop().set_default_executor(RunThreads())
        async with _services(chosen, wakes, own or {}, identify, checked_before=bool(dependencies)) as services:
            app.state.credentials, app.state.audit = services.credentials, services.audit
            app.state.quotas, app.state.clock = services.quotas, SystemClock()
            for router in routes.routers(services, frame_limit=chosen.body_limit):
                app.include_router(router, dependencies=dependencies)
                app.state.own_endpoints |= endpoints(router.routes)
            about_health = health.routes(services)
            app.include_router(about_health)
            app.state.own_endpoints |= endpoints(about_health.routes)
            app.state.opened, app.state.shortcut = True, None if dependencies else services
            with embedding.ending_with_the_process(wakes):
                yield

    app = FastAPIOffline(
        docs_url=None,
        redoc_url=None,
        title="Stellwerk",
        version=stellwerk.__version__,
        description=routes.ABOUT,
        openapi_tags=routes.TAGS,
        swagger_ui_parameters={"defaultModelsExpandDepth": 0},
        lifespan=lifespan,
    )
    app.state.wakes, app.state.opened, app.state.requests = wakes, False, Requests()
    app.state.parameters = parameters.of_dependencies(dependencies)
    problems.install(app)
    openapi.install(app)
    docs_page.install(app)
    console_page.install(app)
    app.state.own_endpoints = endpoints(app.routes)
    app.add_middleware(AuditTrail)
    app.add_middleware(workflow_shortcut.Shortcut)
    app.add_middleware(embedding.OnlyOpened)
    app.add_middleware(
        guard.Guard,
        hosts=(*LOOPBACK, *listed(chosen.hosts)),
        origins=listed(chosen.origins),
        body_limit=chosen.body_limit,
        streamed={files.PATH: chosen.file_limit},
    )
    app.add_middleware(problems.Unforeseen)
    app.add_middleware(Browsers, origins=listed(chosen.origins))
    app.add_middleware(Measuring, requests=app.state.requests)
    return app


def check_reach(settings: Settings, *, closed: bool) -> None:
    """
    Raises:
        SettingsError: others than this machine may use the server, and nothing asks who they are.
    """
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
    wakes: Wakes,
    own: Mapping[str, str],
    identify: Identify | None = None,
    *,
    checked_before: bool = False,
    clock: Clock | None = None,
) -> AsyncIterator[Services]:
    operator = read_operator(settings.config)
    wanted = served(own, operator.graphs)
    async with AsyncExitStack() as opened:
        opened.enter_context(locked(settings.data))
        refuse_lost_database(settings.data)
        prove_strict()
        trace_in_place()
        clock = clock or SystemClock()
        stores = await _stores(settings.data, operator, wakes, clock, opened)
        opened.enter_context(logs.redacting(stores.log.redactors.redact_line))
        await opened.enter_async_context(tracing(stores.log.redactors))
        key = key_source(settings.data, settings.master_key_command)
        secrets = await open_secrets(stores.database, key, stores.log.redactors, clock)
        credentials = await _credentials(operator, stores.database, clock, identify, checked_before)
        check_reach(settings, closed=checked_before or credentials.asked_for)
        credentials.keys.when_revoked(wakes.look_again)
        pools = _pools(operator, stores, secrets, graphs_among(wanted), opened)
        systems = Systems(stores.database, pools.factory, clock)
        secrets.when_changed(systems.forget)
        dispatch = _dispatch(settings, stores, systems, clock, opened)
        _keep_doing(_look_around(stores.log), "lookout", opened)
        await _give_built_in(systems, demo=bool(settings.demo))
        await _give(systems, wanted, credentials)
        await _recover(stores, dispatch)
        overviews = Overviews(stores.database, systems, stores.todolists)
        _keep_doing(_keep_overviews(overviews), "overviews", opened)
        _keep_doing(_keep_uses(credentials.keys), "uses", opened)
        sessions = Sessions(stores, systems, dispatch, clock, SortableIds(clock))
        audit = Audit(stores.database, clock, stores.log.redactors)
        kept = stores.database, stores.log, stores.documents
        retention = Retention(*kept, sessions, audit, operator.retention, clock)
        retention.tell_unknown([tenant.name for tenant in credentials.tenants.all()])
        _keep_doing(retention.keep_doing(), "retention", opened)
        yield Services(
            database=stores.database,
            log=stores.log,
            wakes=wakes,
            sessions=sessions,
            systems=systems,
            documents=stores.documents,
            numbers=FileNumbers(stores.database),
            overviews=overviews,
            workflows=_workflows(stores, sessions, systems, wakes, clock, opened),
            credentials=credentials,
            audit=audit,
            secrets=secrets,
            quotas=stores.quotas,
            usage=UsageBook(stores.database, clock),
            tools=pools.inventory,
        )


async def _stores(data: Path, operator: Operator, wakes: Wakes, clock: Clock, opened: AsyncExitStack) -> Stores:
    stored = Sqlite(data / DATABASE)
    await stored.open()
    opened.push_async_callback(stored.close)
    database = AuditedDatabase(stored, RECORDED)
    _keep_doing(_watch_database(stored, data / DATABASE), "presence", opened)
    log = DurableLog(database, wakes, redactors_of(operator))
    quotas = Quotas(database, clock)
    await quotas.open()
    log.tally.when_grown(quotas.grew)
    documents = DocumentStore(database, data / DOCUMENTS, clock, quotas.look)
    return Stores(database, log, documents, Extractor(documents), Todolists(data), data, quotas)


def _dispatch(settings: Settings, stores: Stores, systems: Systems, clock: Clock, opened: AsyncExitStack) -> Dispatch:
    tick = Tick(asyncio.get_running_loop(), stores.database.when_free)
    runner = Runner(stores, systems, tick, window=settings.window)
    dispatch = Dispatch(stores, runner, clock, slots=settings.slots, waiting=settings.waiting)
    opened.push_async_callback(dispatch.close)
    return dispatch


def _workflows(
    stores: Stores, sessions: Sessions, systems: Systems, wakes: Wakes, clock: Clock, opened: AsyncExitStack
) -> Workflows:
    database, numbers = stores.database, FileNumbers(stores.database)
    documents = Documents(stores.documents, numbers, stores.extractor)
    opened.push_async_callback(documents.close)
    starting, folds = Starting(database, sessions, systems, numbers), Folds(database, wakes)
    removals = Removals(database, stores.log, stores.documents, systems, folds, clock)
    return Workflows(database, sessions, stores.documents, starting, folds, documents, removals)


def _keep_doing(work: Coroutine[Any, Any, None], name: str, opened: AsyncExitStack) -> None:
    opened.callback(asyncio.create_task(work, name=name).cancel)


async def _give_built_in(systems: Systems, *, demo: bool) -> None:
    """Register what comes with the server, or withdraw what an earlier start registered."""
    for source, text in built_in().items():
        if demo:
            await systems.give(text, source=source)
        else:
            await systems.take_back(text, source=source)


async def _give(systems: Systems, wanted: Mapping[str, str], credentials: Credentials) -> None:
    """Register what the server was started with."""
    for name, place in wanted.items():
        agent = await systems.give(text_of(name, place), source=place)
        if agent is not None and agent.wants_user_id and not credentials.asked_for:
            logger.warning("graph_wants_user_id", system=name, remedy=USER_REMEDY)


async def _recover(stores: Stores, dispatch: Dispatch) -> None:
    """Finish what the process before this one left, whether it ended or was killed."""
    while count := await stores.database.submit(tables.rebuild_standings, None, urgent=True):
        logger.info("sessions_read_anew", sessions=count)  # all of them after some upgrades, and somebody waits
    await stores.documents.sweep()
    await stores.database.submit(system_rows.purge, None, urgent=True)
    await dispatch.recover()


async def _credentials(
    operator: Operator, database: Database, clock: Clock, identify: Identify | None, checked_before: bool
) -> Credentials:
    tenants, keys = Tenants(database, clock), Keys(database, clock)
    await tenants.open()
    await keys.open()
    issuer = operator.tokens
    tokens = None if issuer is None else Tokens(Issuer(**issuer.model_dump()), clock)
    return Credentials(keys, tenants, Tickets(clock), tokens, identify, checked_before)


def _pools(
    operator: Operator, stores: Stores, secrets: Secrets, own: Mapping[str, str], opened: AsyncExitStack
) -> Pools:
    """What agents are built from: what is installed, and what the operator's file adds."""
    named = {**operator.graphs, **own}
    found = both(
        lambda: tools.discover(operator.tools),
        lambda: graphs.discover(named, inputs=operator.graph_inputs, images=operator.graph_images),
    )
    redactors = stores.log.redactors
    return Pools(stores.database, stores.data, operator, *found, journal.keep, secrets, redactors, opened)


async def _look_around(log: DurableLog) -> None:
    while True:
        await asyncio.sleep(_LOOK_AROUND)
        try:
            await log.look_around()
        except (StorageFull, StorageGone) as error:
            logger.warning("look_around_failed", error=error.message)


async def _watch_database(database: Sqlite, path: Path) -> None:
    """Writes notice by themselves that the database is gone; a server that writes nothing logs it here."""
    gone = False
    while True:
        await asyncio.sleep(_LOOK_AROUND)
        try:
            await database.check()
            gone = False
        except StorageGone as error:
            if not gone:
                logger.error("database_gone", path=str(path), error=error.message)
            gone = True


async def _keep_uses(keys: Keys) -> None:
    while True:
        await asyncio.sleep(_KEEP_USES)
        try:
            await keys.keep_uses()
        except (StorageFull, StorageGone) as error:
            logger.warning("uses_not_kept", error=error.message)


async def _keep_overviews(overviews: Overviews) -> None:
    while True:
        try:
            await overviews.catch_up()
        except StorageGone as error:
            logger.warning("overviews_not_kept", error=error.message)
        await asyncio.sleep(_KEEP_OVERVIEWS)
