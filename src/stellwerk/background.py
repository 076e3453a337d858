"""Background jobs of a server, which end when it closes."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import AsyncExitStack
from typing import Any

import structlog

from stellwerk.errors import StorageFull, StorageGone

logger = structlog.get_logger(__name__)

Work = Callable[[], Awaitable[None]]


def start(job: Coroutine[Any, Any, None], opened: AsyncExitStack) -> None:
    """Run a background job until the server closes."""
    opened.callback(asyncio.create_task(job).cancel)


async def repeat(work: Work, failed: str, *, every: float) -> None:
    """Do it now and then, also while the disk is full or gone: then ``failed`` is logged."""
    while True:
        try:
            await work()
        except (StorageFull, StorageGone) as error:
            logger.warning(failed, error=error.message)
        await asyncio.sleep(every)


class Chores:
    """What is done again and again, of several nodes by one: by the one for which ``is_ours`` is true."""

    def __init__(self, is_ours: Callable[[], bool], opened: AsyncExitStack) -> None:
        self._is_ours, self._opened = is_ours, opened

    def start(self, works: Sequence[Work], failed: str, *, every: float) -> None:
        for work in works:
            start(repeat(self._if_ours(work), failed, every=every), self._opened)

    def _if_ours(self, work: Work) -> Work:
        async def do() -> None:
            if self._is_ours():
                await work()

        return do
