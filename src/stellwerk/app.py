"""The composition root: the only place that builds everything from the settings and knows it all."""

import asyncio
import fcntl
import json
import os
import signal
import socket
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path

import structlog
import uvicorn
import uvloop
from fastapi import FastAPI
from fastapi_offline import FastAPIOffline
from starlette.responses import RedirectResponse

import stellwerk
from stellwerk.agents import graphs, journal, tools
from stellwerk.agents.checkpoints import DurableSaver, prove_strict
from stellwerk.agents.factory import AgentFactory
from stellwerk.agents.mcp import McpServers
from stellwerk.agents.operator_file import read_operator
from stellwerk.agents.pool import Pool
from stellwerk.agents.references import both
from stellwerk.agents.stores import open_store
from stellwerk.agents.targets import graphs_among, served, systems_of, text_of
from stellwerk.agents.tracing import trace_in_place
from stellwerk.api import guard, health, problems, sessions, stream_test
from stellwerk.api.services import LOCAL_TENANT, Services
from stellwerk.database.sqlite import Sqlite
from stellwerk.demo import demo_yaml
from stellwerk.documents.store import DocumentStore
from stellwerk.envelope.redaction import Redactor
from stellwerk.errors import SettingsError, StorageGone
from stellwerk.ids import SortableIds, SystemClock
from stellwerk.log.durable import DurableLog
from stellwerk.log.tick import Tick
from stellwerk.log.wake import Wakes
from stellwerk.logs import configure
from stellwerk.runs import tables
from stellwerk.runs.dispatch import Dispatch
from stellwerk.runs.recovery import recover
from stellwerk.runs.runner import Runner
from stellwerk.runs.sessions import Sessions, Stores
from stellwerk.runs.systems import Systems
from stellwerk.settings import LOOPBACK, Settings, provider_keys
from stellwerk.spec.operator import Operator

logger = structlog.get_logger(__name__)

_LOOK_AROUND = 1.0
_SEND_BUFFER = 128 * 1024
"""What the kernel may hold for a reader that does not read; it takes twice as much."""
_KEEPALIVE = {"TCP_KEEPIDLE": 10, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3, "TCP_USER_TIMEOUT": 20_000}


def create_app(settings: Settings | None = None, *, own: Mapping[str, str] | None = None) -> FastAPI:
    """The whole server as an ASGI app; everything it holds is opened and closed by its lifespan.

    ``own`` are graphs and agent systems of yours, by name: ``{"desk": "desk.py:graph", "research": "research.yaml"}``.
    Run it by ``serve``, or end the streams yourself before the host server waits for them: ``app.state.wakes.close()``.
    """
    chosen = settings or Settings()
    wakes = Wakes()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with _services(chosen, wakes, own or {}) as services:
            app.include_router(sessions.routes(services))
            app.include_router(stream_test.routes(services))
            app.include_router(health.routes(services))
            app.add_api_route("/", lambda: RedirectResponse("docs"), include_in_schema=False)
            yield

    app = FastAPIOffline(redoc_url=None, title="Stellwerk", version=stellwerk.__version__, lifespan=lifespan)
    app.state.wakes = wakes
    problems.install(app)
    app.add_middleware(guard.Guard, hosts=LOOPBACK, body_limit=chosen.body_limit)
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
        database = Sqlite(settings.data / "stellwerk.db")
        await database.open()
        opened.push_async_callback(database.close)
        log = DurableLog(database, wakes, clock, _redactor(operator))
        documents = DocumentStore(database, settings.data / "documents", clock)
        pool = await _pool(settings.data, operator, database, graphs_among(wanted), opened)
        systems = Systems(database, AgentFactory(pool), clock)
        tick = Tick(asyncio.get_running_loop(), database.when_free)
        runner = Runner(log, systems, documents, tick, clock, window=settings.window)
        dispatch = Dispatch(database, log, runner, clock, slots=settings.slots, waiting=settings.waiting)
        opened.push_async_callback(dispatch.close)
        lookout = asyncio.create_task(_look_around(log), name="lookout")
        opened.callback(lookout.cancel)
        await systems.register(LOCAL_TENANT, demo_yaml(), source="demo.yaml")
        for name, place in wanted.items():
            await systems.register(LOCAL_TENANT, text_of(name, place), source=place)
        await database.submit(tables.rebuild_standings, None, urgent=True)
        await recover(database, log, clock)
        await documents.sweep()
        dispatch.claim()
        stores = Stores(database, log, documents)
        yield Services(database, log, wakes, Sessions(stores, systems, dispatch, clock, SortableIds(clock)))


async def _pool(
    data: Path, operator: Operator, database: Sqlite, own: Mapping[str, str], opened: AsyncExitStack
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
        except StorageGone as error:
            logger.warning("look_around_failed", error=error.message)


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


class Server(uvicorn.Server):
    """uvicorn, with streams that end when the server does, and a word when it is ready."""

    def __init__(self, app: FastAPI, ready: Callable[[], None]) -> None:
        # The lifespan is entered by `serving`, so that what prevents a start is raised and not only logged.
        super().__init__(
            uvicorn.Config(
                app,
                http="httptools",
                lifespan="off",
                access_log=False,
                log_config=None,
                timeout_graceful_shutdown=5,
            )
        )
        self._wakes: Wakes = app.state.wakes
        self._ready = ready

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield  # whoever owns the process decides about its signals

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._wakes.close()
        await super().shutdown(sockets)


@asynccontextmanager
async def serving(
    settings: Settings, ready: Callable[[], None], *, own: Mapping[str, str] | None = None
) -> AsyncIterator[Server]:
    """Everything opened, and a server that has yet to be told to ``serve``."""
    app = create_app(settings, own=own)
    async with app.router.lifespan_context(app):
        yield Server(app, ready)


def serve(settings: Settings, say: Callable[[str], None], *, targets: Sequence[str] = ()) -> None:
    """Run the server until it is told to stop.

    Raises:
        SettingsError: it must not, or cannot, start like this.
    """
    if settings.host not in LOOPBACK:
        raise SettingsError(
            f"will not listen on {settings.host}: there are no API keys, so everybody who reaches it could use it; "
            "use 127.0.0.1"
        )
    configure()
    with listener(settings.host, settings.port) as listening:
        host = f"[{settings.host}]" if ":" in settings.host else settings.host
        address = f"http://{host}:{listening.getsockname()[1]}"

        own = systems_of(targets)
        system = next(iter(own), "demo")

        async def main() -> None:
            async with serving(settings, lambda: say(greeting(address, system)), own=own) as server:
                for signum in (signal.SIGINT, signal.SIGTERM):
                    asyncio.get_running_loop().add_signal_handler(signum, server.handle_exit, signum, None)
                await server.serve(sockets=[listening])

        uvloop.run(main())


def greeting(address: str, system: str) -> str:
    body = json.dumps({"agent_system_id": system})
    return (
        f"Stellwerk {stellwerk.__version__} is ready (process {os.getpid()}): open {address}/docs\n"
        f"Try: curl -s {address}/sessions -H 'Content-Type: application/json' -d '{body}'"
    )


def listener(host: str, port: int) -> socket.socket:
    """A listening socket whose connections notice a dead peer: they inherit these options."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    made = socket.socket(family)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER)
    for name, value in _KEEPALIVE.items():
        if hasattr(socket, name):
            made.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    try:
        made.bind((host, port))
    except OSError as error:
        made.close()
        raise SettingsError(f"cannot listen on {host}:{port}: {error.strerror}; choose another with --port") from error
    return made
