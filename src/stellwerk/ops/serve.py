"""Start the server: the app on a socket, in a process of its own, until a signal ends it."""

import asyncio
import json
import os
import signal
import socket
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import structlog
import uvloop

import stellwerk
from stellwerk import threads
from stellwerk.agents.graphs.langgraph_json import HttpApp
from stellwerk.agents.graphs.serve_targets import http_app_of, systems_of
from stellwerk.api.http.beside import app_beside
from stellwerk.api.http.server import Server, listener
from stellwerk.app import Parts, check_reach, create_app
from stellwerk.database.folder import refuse_lost_database
from stellwerk.errors import SettingsError
from stellwerk.logs import configure
from stellwerk.ops.offline import asks_who
from stellwerk.settings import LOOPBACK, Settings

logger = structlog.get_logger(__name__)


@asynccontextmanager
async def serving(
    settings: Settings,
    ready: Callable[[], None],
    *,
    own: Mapping[str, str] | None = None,
    http_app: HttpApp | None = None,
    parts: Parts = Parts(),
) -> AsyncIterator[Server]:
    """Open the app, and give a server on which ``serve`` is still to be called."""
    with_demo = settings.model_copy(update={"demo": settings.demo is not False})
    app = create_app(with_demo, own=own, parts=parts)
    async with app.router.lifespan_context(app), app_beside(app, http_app):
        yield Server(app, ready, body_limit=settings.body_limit)


def serve(
    settings: Settings,
    say: Callable[[str], None],
    *,
    targets: Sequence[str] = (),
    listening: socket.socket | None = None,
    ends_with: int | None = None,
) -> None:
    """Run the server until a signal ends it, or until the descriptor ``ends_with`` can be read."""
    if settings.database is None:
        refuse_lost_database(settings.data)
    closed = asks_who(settings)
    if settings.host not in LOOPBACK and not closed:
        raise SettingsError(
            f"will not listen on {settings.host}: there are no API keys, so anyone who reaches it could use it; "
            f"make one with `stellwerk keys create me --role admin --data {settings.data}`, or use 127.0.0.1"
        )
    check_reach(settings, closed=closed)
    configure(settings.logs)
    with listening or listener(settings.host, settings.port) as listening:
        host = f"[{settings.host}]" if ":" in settings.host else settings.host
        address = f"http://{host}:{listening.getsockname()[1]}"
        own = systems_of(targets, ignore_auth=settings.ignore_auth, isolate=settings.isolate)
        http_app = http_app_of(targets)

        def hello(server: Server) -> str:
            usable = [name for name in own if name not in server.app.state.unusable]
            system = next(iter(usable), None if settings.demo is False else "demo")
            return greeting(address, system, closed=closed)

        async def main() -> None:
            loop = asyncio.get_running_loop()
            loop.set_task_factory(threads.exits_contained)
            async with serving(settings, lambda: say(hello(server)), own=own, http_app=http_app) as server:
                threads.collect_seldom(loop)
                for signum in (signal.SIGINT, signal.SIGTERM):
                    loop.add_signal_handler(signum, server.handle_exit, signum, None)
                if ends_with is not None:
                    loop.add_reader(ends_with, _end, server, loop, ends_with)
                await server.serve(sockets=[listening])

        uvloop.run(main())
        if count := threads.left():
            logger.warning("ended_without_threads", threads=count)
            threads.exit_now(0)  # all is stored


def _end(server: Server, loop: asyncio.AbstractEventLoop, descriptor: int) -> None:
    loop.remove_reader(descriptor)
    server.handle_exit(signal.SIGTERM, None)


@asynccontextmanager
async def served_here(own: Mapping[str, str], config: Path | None) -> AsyncIterator[str]:
    """Run a server in this process on a free port; its data is deleted with the block."""
    ready = asyncio.Event()
    with TemporaryDirectory(prefix="stellwerk-") as data, listener("127.0.0.1", 0) as listening:
        settings = Settings(data=Path(data), database=None, config=config, hosts="", origins="", demo=True)
        async with serving(settings, ready.set, own=own) as server:
            running = asyncio.create_task(server.serve(sockets=[listening]))
            try:
                await ready.wait()
                yield f"http://127.0.0.1:{listening.getsockname()[1]}"
            finally:
                server.should_exit = True
                await running


def greeting(address: str, system: str | None, *, closed: bool) -> str:
    """The address of the server, and a first request to try."""
    key = " -H 'Authorization: Bearer sw_…'" if closed else ""
    body = json.dumps({"agent_system_id": system})
    hint = f"/sessions{key} -H 'Content-Type: application/json' -d '{body}'"
    if system is None:
        hint = f"/agent-systems{key} -H 'Content-Type: application/yaml' --data-binary @system.yaml"
    return (
        f"Stellwerk {stellwerk.__version__} is ready (process {os.getpid()}): open {address}/\n"
        f"Try: curl -s {address}{hint}"
    )
