"""Starting: a word on the screen while Python still loads what a run needs. It must not need any of that itself."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

_WORD = "starting"


@contextmanager
def starting() -> Iterator[None]:
    """The word stands there as long as the block lasts, and only where somebody sits."""
    screen = sys.stderr
    if screen is None or not screen.isatty():
        yield
        return
    try:
        screen.write(f"{_WORD}\r")  # whatever else is said meanwhile is longer, and stands in its place
        screen.flush()
        yield
    finally:
        screen.write(f"\r{' ' * len(_WORD)}\r")
        screen.flush()
