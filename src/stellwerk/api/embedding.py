"""Embedding: the server as a part of somebody else's app.

A host does not run the lifespan of what it mounts, so it is told to; whoever
forgets is told how by every answer. And a host's server waits for its open
streams before it ends any lifespan, so ours end when the signal comes.
"""

import asyncio
import signal
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from types import FrameType

from fastapi import FastAPI
from starlette.types import ASGIApp, Receive, Scope, Send

from stellwerk.api.problems import Problem
from stellwerk.log.wake import Wakes

_ENDS = (signal.SIGINT, signal.SIGTERM)


@asynccontextmanager
async def opened(agents: FastAPI) -> AsyncIterator[None]:
    """What ``create_app`` made, open for as long as the host is: for the lifespan of the host."""
    async with agents.router.lifespan_context(agents):
        yield


@contextmanager
def ending_with_the_process(wakes: Wakes) -> Iterator[None]:
    """Streams end by SIGINT and SIGTERM, which are then handed on to whoever heard them before."""
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


class OnlyOpened:
    """Answers for an app that was mounted, and not opened."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan" or scope["app"].state.opened:
            await self._app(scope, receive, send)
            return
        remedy = "open it in the lifespan of the app it is mounted in: FastAPI(lifespan=lambda _: stellwerk.opened(…))"
        await Problem(503, "not_opened", f"the server was mounted, but not opened; {remedy}")(scope, receive, send)
