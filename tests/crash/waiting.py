"""Waiting for something that cannot ring a bell: look, and look again, under a timeout."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from inspect import isawaitable

_LOOK_AGAIN = 0.02


async def eventually(
    holds: Callable[[], bool | Awaitable[bool]], *, within: float, what: str | Callable[[], str]
) -> float:
    """Return as soon as it holds, with the seconds it took; fail with ``what`` if it never does."""
    began = time.monotonic()
    while True:
        found = holds()
        if await found if isawaitable(found) else found:
            return time.monotonic() - began
        if time.monotonic() - began > within:
            raise AssertionError(f"after {within} s: {what if isinstance(what, str) else what()}")
        # The one sleep there is: another process, or the kernel, has no event that we could await.
        await asyncio.sleep(_LOOK_AGAIN)
