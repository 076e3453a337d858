"""Calls from a thread to the event loop: how synchronous code waits for what only the loop may do.

A plain ``def`` node or tool runs in a thread, and so does a graph that it calls
with ``invoke``. What such a graph stores goes through the loop all the same, in
order with everything else that its run stores.
"""

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import wait
from typing import Any, TypeVar

from stellwerk.errors import BlockedLoop

R = TypeVar("R")

_SILENT = 15.0
"""Seconds after which a thread asks whether the loop turns at all, and then waits as long for its answer."""


class LoopCalls:
    """Make it on the loop that is to be called."""

    def __init__(self, *, silent: float = _SILENT) -> None:
        self._loop, self._silent = asyncio.get_running_loop(), silent

    def wait_for(self, work: Coroutine[Any, Any, R]) -> R:
        """Run the coroutine on the loop, in the context of this thread, and return what it returns.

        Raises:
            BlockedLoop: the loop waits for this very call, so that it could never be made.
        """
        try:
            self._refuse_on_loop()
            answer = asyncio.run_coroutine_threadsafe(work, self._loop)
        except (BlockedLoop, RuntimeError):  # the latter if the loop is closed, as the server has ended
            work.close()
            raise
        while not wait([answer], self._silent).done:
            if not self._is_turning():
                answer.cancel()
                raise BlockedLoop
        return answer.result()

    def _refuse_on_loop(self) -> None:
        try:
            running = asyncio.get_running_loop()
        except RuntimeError:
            return
        if running is self._loop:
            raise BlockedLoop

    def _is_turning(self) -> bool:
        turned = threading.Event()
        self._loop.call_soon_threadsafe(turned.set)
        return turned.wait(self._silent)
