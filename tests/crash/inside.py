"""The whole server in this process, where a test can also see what the sockets do not show."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import stellwerk.ops.serve as real
from stellwerk.api.http.server import listener
from stellwerk.app import Parts
from stellwerk.log.notify import WakeUps
from stellwerk.settings import Settings
from tests import stores


class Inside(NamedTuple):
    address: str
    wakes: WakeUps


@asynccontextmanager
async def serving(settings: Settings, parts: Parts = Parts()) -> AsyncIterator[Inside]:
    """On real sockets, like any other; ends with the block."""
    ready, settings = asyncio.Event(), stores.settings(settings)
    with listener("127.0.0.1", 0, parts.timings) as socket:
        async with real.serving(settings, ready.set, parts=parts) as server:
            composed: Any = server.config.app
            running = asyncio.create_task(server.serve(sockets=[socket]))
            try:
                async with asyncio.timeout(60):
                    await ready.wait()
                yield Inside(f"http://127.0.0.1:{socket.getsockname()[1]}", composed.state.wakes)
            finally:
                server.should_exit = True
                await running
