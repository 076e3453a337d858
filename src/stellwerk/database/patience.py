"""Patience with a disk that is full or gone: what must be written is tried again."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from stellwerk.errors import StorageClosed, StorageFull, StorageGone

R = TypeVar("R")
RETRY = 1.0
"""Seconds between two tries."""


async def patiently(submit: Callable[[], Awaitable[R]], patience: float) -> R:
    """Try again while the disk is full or gone, as long as patience lasts."""
    waited = 0.0
    while True:
        try:
            return await submit()
        except StorageClosed:
            raise
        except (StorageFull, StorageGone):
            if waited >= patience:
                raise
        waited += RETRY
        await asyncio.sleep(RETRY)
