"""Interrupts: the first Ctrl-C stops what is under way, the second one ends the process at once."""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

BY_SIGNAL = 128
"""An exit code above it says which signal ended a process; so does every shell."""


class Interrupts:
    """Not the event loop's own signals: those are deaf while somebody's code blocks the loop."""

    def __init__(self, stop: Callable[[], None], farewell: Callable[[], None]) -> None:
        self._stop, self._farewell = stop, farewell
        self.caught: int | None = None

    @contextmanager
    def watched(self) -> Iterator[None]:
        before = {signum: signal.signal(signum, self._caught) for signum in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for signum, listener in before.items():
                signal.signal(signum, listener)

    def forget(self) -> None:
        """What was to be stopped has stopped, and the talk goes on."""
        self.caught = None

    def _caught(self, signum: int, frame: FrameType | None) -> None:
        if self.caught is not None:
            self._farewell()
            os._exit(BY_SIGNAL + signum)
        self.caught = signum
        self._stop()
