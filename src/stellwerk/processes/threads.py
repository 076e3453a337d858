"""A search through a text of any length: in a thread where it would hold up the event loop."""

import asyncio
from collections.abc import Callable, Sized
from typing import TypeVar

R = TypeVar("R")
LONG = 64 * 1024
"""Characters or bytes from which a thread is worth its while."""


async def searched(text: Sized, search: Callable[[], R]) -> R:
    """What the search gives, which takes the longer the longer the text is."""
    return search() if len(text) < LONG else await asyncio.to_thread(search)
