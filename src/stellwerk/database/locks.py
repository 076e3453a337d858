"""Locks by name within one process: what is done under a name is done by one caller at a time."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from weakref import WeakValueDictionary


class NamedLocks:
    def __init__(self) -> None:
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    @asynccontextmanager
    async def locked(self, *names: str) -> AsyncIterator[None]:
        async with AsyncExitStack() as held:
            for name in sorted(set(names)):  # in one order, so that two callers never wait for each other
                await held.enter_async_context(self._locks.setdefault(name, asyncio.Lock()))
            yield
