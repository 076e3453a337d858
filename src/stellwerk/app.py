"""The composition root: the only place that builds everything from the settings and knows it all."""

import asyncio
import fcntl
from collections.abc import AsyncIterator, Coroutine, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import structlog
from fastapi import FastAPI
from fastapi.params import Depends
from fastapi_offline import FastAPIOffline
from starlette.responses import RedirectResponse

import stellwerk
from stellwerk.agents import graphs, journal, tools
from stellwerk.agents.checkpoints import DurableSaver, prove_strict
from stellwerk.agents.factory import AgentFactory
from stellwerk.agents.inventory import inventory
from stellwerk.agents.mcp import McpServers
from stellwerk.agents.operator_file import read_operator
from stellwerk.agents.pool import Pool
from stellwerk.agents.references import both
from stellwerk.agents.stores import open_store
from stellwerk.agents.targets import graphs_among, served, text_of
from stellwerk.agents.tracing import trace_in_place
from stellwerk.api import embedding, files, guard, health, openapi, problems, routes, workflow_shortcut
from stellwerk.api.overviews import Overviews
from stellwerk.api.services import LOCAL_TENANT, Services
from stellwerk.database.port import Database
from stellwerk.database.sqlite import Sqlite
from stellwerk.demo import built_in
from stellwerk.documents.extraction import Extractor
from stellwerk.documents.numbers import FileNumbers
from stellwerk.documents.store import DocumentStore
from stellwerk.documents.todolists import Todolists
from stellwerk.envelope.redaction import Redactor
from stellwerk.errors import SettingsError, StorageFull, StorageGone
from stellwerk.ids import Clock, SortableIds, SystemClock
from stellwerk.log.durable import DurableLog
from stellwerk.log.tick import Tick
from stellwerk.log.wake import Wakes
from stellwerk.runs import tables
from stellwerk.runs.dispatch import Dispatch
from stellwerk.runs.runner import Runner
from stellwerk.runs.sessions import Sessions
from stellwerk.runs.stores import Stores
from stellwerk.settings import LOOPBACK, Settings, listed, provider_keys
from stellwerk.spec.operator import Operator
from stellwerk.systems import rows as system_rows
from stellwerk.systems.registry import Systems
from stellwerk.workflows.documents import Documents
from stellwerk.workflows.folds import Folds
from stellwerk.workflows.removal import Removals
from stellwerk.workflows.starting import Starting
from stellwerk.workflows.workflows import Workflows

logger = structlog.get_logger(__name__)

_LOOK_AROUND = 1.0
_KEEP_OVERVIEWS = 2.0


def create_app(
    settings: Settings | None = None,
    *,
    own: Mapping[str, str] | None = None,
    dependencies: Sequence[Depends] = (),
) -> FastAPI:
    """The whole server as an ASGI app; everything it holds is opened and closed by its lifespan.

    ``own`` are graphs and agent systems of yours, by name: ``{"desk": "desk.py:graph", "research": "research.yaml"}``.
    ``dependencies`` of yours come before every route but /docs and /healthz: who may use it is yours to say.
    Run it by ``serve``; or mount it, and put ``stellwerk.opened(app)`` into the lifespan of the app it is mounted in.
    """
    chosen = settings or Settings()
    wakes = Wakes()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with _services(chosen, wakes, own or {}) as services:
            for router in routes.routers(services, frame_limit=chosen.body_limit):
                app.include_router(router, dependencies=dependencies)
            app.include_router(health.routes(services))
            app.add_api_route("/", lambda: RedirectResponse("docs"), include_in_schema=False)
            app.state.opened, app.state.shortcut = True, None if dependencies else services
            with embedding.ending_with_the_process(wakes):
                yield

    app = FastAPIOffline(
        redoc_url=None,
        title="Stellwerk",
        version=stellwerk.__version__,
        description=routes.ABOUT,
        openapi_tags=routes.TAGS,
        swagger_ui_parameters={"defaultModelsExpandDepth": 0},
        lifespan=lifespan,
    )
    app.state.wakes, app.state.opened = wakes, False
    problems.install(app)
    openapi.install(app)
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
    return app


@asynccontextmanager
async def _services(settings: Settings, wakes: Wakes, own: Mapping[str, str]) -> AsyncIterator[Services]:
    operator = read_operator(settings.config)
    wanted = served(own, operator.graphs)
    async with AsyncExitStack() as opened:
        opened.enter_context(_locked(settings.data))
        prove_strict()
        trace_in_place()
        clock = SystemClock()
        stores = await _stores(settings.data, operator, wakes, clock, opened)
        pool = await _pool(settings.data, operator, stores.database, graphs_among(wanted), opened)
        systems = Systems(stores.database, AgentFactory(pool), clock)
        dispatch = _dispatch(settings, stores, systems, clock, opened)
        _keep_doing(_look_around(stores.log), "lookout", opened)
        await _give(systems, wanted)
        await _recover(stores, dispatch)
        overviews = Overviews(stores.database, systems, stores.todolists)
        _keep_doing(_keep_overviews(overviews), "overviews", opened)
        sessions = Sessions(stores, systems, dispatch, clock, SortableIds(clock))
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
            tools=partial(inventory, pool),
        )


async def _stores(data: Path, operator: Operator, wakes: Wakes, clock: Clock, opened: AsyncExitStack) -> Stores:
    database = Sqlite(data / "stellwerk.db")
    await database.open()
    opened.push_async_callback(database.close)
    log = DurableLog(database, wakes, _redactor(operator))
    documents = DocumentStore(database, data / "documents", clock)
    return Stores(database, log, documents, Extractor(documents), Todolists(data), data)


def _dispatch(settings: Settings, stores: Stores, systems: Systems, clock: Clock, opened: AsyncExitStack) -> Dispatch:
    tick = Tick(asyncio.get_running_loop(), stores.database.when_free)
    runner = Runner(stores, systems, tick, clock, window=settings.window)
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


async def _give(systems: Systems, wanted: Mapping[str, str]) -> None:
    """Register what comes with the server, and what it was started with."""
    for source, text in built_in().items():
        await systems.give(LOCAL_TENANT, text, source=source)
    for name, place in wanted.items():
        await systems.give(LOCAL_TENANT, text_of(name, place), source=place)


async def _recover(stores: Stores, dispatch: Dispatch) -> None:
    """Finish what the process before this one left, whether it ended or was killed."""
    await stores.database.submit(tables.rebuild_standings, None, urgent=True)
    await stores.documents.sweep()
    await stores.database.submit(system_rows.purge, None, urgent=True)
    await dispatch.recover()


async def _pool(
    data: Path, operator: Operator, database: Database, own: Mapping[str, str], opened: AsyncExitStack
) -> Pool:
    """What agents are built from: what is installed, and what the operator's file adds."""
    named = {**operator.graphs, **own}
    found = both(lambda: tools.discover(operator.tools), lambda: graphs.discover(named, inputs=operator.graph_inputs))
    mcp = McpServers(operator.mcp_servers)
    opened.push_async_callback(mcp.close)
    return Pool(
        tools=found[0],
        graphs=found[1],
        mcp=mcp,
        providers=operator.providers,
        saver=DurableSaver(database, tenant=LOCAL_TENANT),
        store=await opened.enter_async_context(open_store(data / "store.db")),
        keep=journal.keep,
        resources=opened,
    )


def _redactor(operator: Operator) -> Redactor:
    """What the operator knows and nobody else may read: keys of models, and what MCP servers are given."""
    servers = operator.mcp_servers.values()
    told = [value for server in servers for value in (*server.headers.values(), *server.env.values())]
    bare = [value.rpartition(" ")[2] for value in told]  # of "Bearer x" the x
    return Redactor([*told, *bare, *(key.get_secret_value() for key in provider_keys().values())])


async def _look_around(log: DurableLog) -> None:
    while True:
        await asyncio.sleep(_LOOK_AROUND)
        try:
            await log.look_around()
        except (StorageFull, StorageGone) as error:
            logger.warning("look_around_failed", error=error.message)


async def _keep_overviews(overviews: Overviews) -> None:
    while True:
        try:
            await overviews.catch_up()
        except StorageGone as error:
            logger.warning("overviews_not_kept", error=error.message)
        await asyncio.sleep(_KEEP_OVERVIEWS)


@contextmanager
def _locked(data: Path) -> Iterator[None]:
    """One process per data folder."""
    try:
        data.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = (data / "lock").open("w")
    except OSError as error:
        raise SettingsError(f"cannot use the data folder {data}: {error.strerror}; name another with --data") from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise SettingsError(
                f"another Stellwerk uses the data folder {data}; stop it, or name another with --data"
            ) from error
        yield
