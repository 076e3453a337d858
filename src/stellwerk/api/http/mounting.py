"""Mounting: the server inside another ASGI app.

A host app does not run the lifespan of a mounted app, so it has to open the server
itself; until then every response explains how. The server of a host waits for open
streams before it ends any lifespan, so streams end at the signal.
"""

import asyncio
import signal
import threading
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from types import FrameType

from fastapi import FastAPI
from starlette.types import ASGIApp, Receive, Scope, Send

from stellwerk.api.http.problems import ProblemResponse
from stellwerk.log.notify import WakeUps

_ENDS = (signal.SIGINT, signal.SIGTERM)
_OPEN_IT = "open it in the lifespan of the app it is mounted in: FastAPI(lifespan=lambda _: stellwerk.opened(…))"


def opened(agents: FastAPI) -> AbstractAsyncContextManager[object]:
    """Open an app of ``create_app`` for the lifespan of its host."""
    return agents.router.lifespan_context(agents)


@contextmanager
def ending_with_the_process(wakes: WakeUps) -> Iterator[None]:
    """End streams at SIGINT and SIGTERM, and pass the signal on to the previous handlers."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()
    before = {signum: signal.getsignal(signum) for signum in _ENDS}

    def caught(signum: int, frame: FrameType | None) -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(wakes.close)
        earlier = before[signal.Signals(signum)]
        if callable(earlier):
            earlier(signum, frame)

    heard = [signum for signum in _ENDS if callable(before[signum])]
    for signum in heard:
        signal.signal(signum, caught)
    try:
        yield
    finally:
        for signum in heard:
            if signal.getsignal(signum) is caught:
                signal.signal(signum, before[signum])


class NotOpenedMiddleware:
    """Responds with 503 for an app that was mounted and not opened."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan" or scope["app"].state.opened:
            await self._app(scope, receive, send)
            return
        problem = ProblemResponse(503, "not_opened", f"the server was mounted, but not opened; {_OPEN_IT}")
        await problem(scope, receive, send)
