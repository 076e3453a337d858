"""Serving: the app on a socket of its own, in a process of its own, until it is told to end."""

import asyncio
import gc
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NoReturn

import structlog
import uvloop

import stellwerk
from stellwerk import threads
from stellwerk.agents.targets import systems_of
from stellwerk.api.server import Server, listener
from stellwerk.app import check_reach, create_app
from stellwerk.database.folder import refuse_lost_database
from stellwerk.errors import SettingsError
from stellwerk.logs import configure
from stellwerk.offline import asks_who
from stellwerk.settings import LOOPBACK, Settings

logger = structlog.get_logger(__name__)

_GENERATIONS = (10_000, 5, 1_000_000)
"""Only what is young is searched for garbage by itself: a walk over all that 200 runs hold stops them all."""
_COLLECT = 300.0
"""Seconds between two such walks. A run leaves about 200 objects to them."""


@asynccontextmanager
async def serving(
    settings: Settings, ready: Callable[[], None], *, own: Mapping[str, str] | None = None
) -> AsyncIterator[Server]:
    """Everything opened, and a server that has yet to be told to ``serve``."""
    app = create_app(settings.model_copy(update={"demo": settings.demo is not False}), own=own)
    async with app.router.lifespan_context(app):
        yield Server(app, ready, body_limit=settings.body_limit)


def serve(settings: Settings, say: Callable[[str], None], *, targets: Sequence[str] = ()) -> None:
    """Run the server until it is told to stop.

    Raises:
        SettingsError: it must not, or cannot, start like this.
    """
    refuse_lost_database(settings.data)
    closed = asks_who(settings)
    if settings.host not in LOOPBACK and not closed:
        raise SettingsError(
            f"will not listen on {settings.host}: there are no API keys, so everybody who reaches it could use it; "
            f"make one with `stellwerk keys create me --role admin --data {settings.data}`, or use 127.0.0.1"
        )
    check_reach(settings, closed=closed)
    configure(settings.logs)
    with listener(settings.host, settings.port) as listening:
        host = f"[{settings.host}]" if ":" in settings.host else settings.host
        address = f"http://{host}:{listening.getsockname()[1]}"

        own = systems_of(targets)
        system = next(iter(own), None if settings.demo is False else "demo")

        async def main() -> None:
            asyncio.get_running_loop().set_task_factory(_contained)
            async with serving(settings, lambda: say(greeting(address, system, closed=closed)), own=own) as server:
                collect_seldom(asyncio.get_running_loop())
                for signum in (signal.SIGINT, signal.SIGTERM):
                    asyncio.get_running_loop().add_signal_handler(signum, server.handle_exit, signum, None)
                await server.serve(sockets=[listening])

        uvloop.run(main())
        if count := threads.left():
            _leave(count)


@asynccontextmanager
async def served_here(own: Mapping[str, str], config: Path | None) -> AsyncIterator[str]:
    """A server beside other work, on a free port of this machine; all that it keeps goes with the block.

    Raises:
        SettingsError, SpecError: it cannot start like this.
    """
    ready = asyncio.Event()
    with TemporaryDirectory(prefix="stellwerk-") as data, listener("127.0.0.1", 0) as listening:
        settings = Settings(data=Path(data), config=config, hosts="", origins="", demo=True)
        async with serving(settings, ready.set, own=own) as server:
            running = asyncio.create_task(server.serve(sockets=[listening]))
            try:
                await ready.wait()
                yield f"http://127.0.0.1:{listening.getsockname()[1]}"
            finally:
                server.should_exit = True
                await running


def _leave(count: int) -> NoReturn:
    """End the process, in which everything is stored and closed. Python would wait for threads that may hang."""
    logger.warning("ended_without_threads", threads=count)
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(0)


def _contained(loop: asyncio.AbstractEventLoop, coro: Any, **given: Any) -> "asyncio.Task[Any]":
    """A task whose ``sys.exit`` is an error like others: somebody's graph must not end the server for everybody."""

    async def containing() -> Any:
        try:
            return await coro
        except SystemExit as left:
            raise RuntimeError(f"the code called sys.exit({left.code!r})") from left

    return asyncio.Task(containing(), loop=loop, **given)


def collect_seldom(loop: asyncio.AbstractEventLoop) -> None:
    """The process is ours, and what it holds by now it keeps: that is never looked at again."""
    gc.set_threshold(*_GENERATIONS)
    gc.collect()
    gc.freeze()

    def again() -> None:
        gc.collect()
        loop.call_later(_COLLECT, again)

    loop.call_later(_COLLECT, again)


def greeting(address: str, system: str | None, *, closed: bool) -> str:
    """Where the server is, and a first request: a session with the system, or the system if there is none yet."""
    key = " -H 'Authorization: Bearer sw_…'" if closed else ""
    body = json.dumps({"agent_system_id": system})
    hint = f"/sessions{key} -H 'Content-Type: application/json' -d '{body}'"
    if system is None:
        hint = f"/agent-systems{key} -H 'Content-Type: application/yaml' --data-binary @system.yaml"
    return (
        f"Stellwerk {stellwerk.__version__} is ready (process {os.getpid()}): open {address}/\n"
        f"Try: curl -s {address}{hint}"
    )
