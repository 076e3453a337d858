"""The tick: one clock per process that says when buffered envelopes are due.

Every session asks for a moment; those that ask for the same one are flushed
together and so share a commit. While a commit is under way they keep merging
instead, so a slow disk makes batches larger. There is no task and no timer per
session.
"""

import asyncio
from collections.abc import Callable

Flush = Callable[[], None]


class Tick:
    def __init__(self, loop: asyncio.AbstractEventLoop, when_free: Callable[[Flush], object] | None = None) -> None:
        """``when_free`` calls a flush when its batch can be committed; else the next turn does."""
        self._loop, self._when_free = loop, when_free or loop.call_soon
        self._later: dict[float, set[Flush]] = {}

    def now(self) -> float:
        return self._loop.time()

    def soon(self, flush: Flush) -> None:
        """In the next turn of the loop, after everything that is ready now."""
        self._when_free(flush)

    def at(self, due: float, flush: Flush) -> None:
        """At ``due`` on the loop's clock, together with all who named the same moment."""
        group = self._later.get(due)
        if group is None:
            group = self._later[due] = set()
            self._loop.call_at(due, self._ring, due)
        group.add(flush)

    def _ring(self, due: float) -> None:
        for flush in self._later.pop(due):
            self._when_free(flush)  # each for itself: one that raises must not stop the others
