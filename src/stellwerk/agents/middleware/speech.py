"""Speech: whether a model has begun to speak, as whoever listens to the run knows it anyway.

A listener of its own for each model call would cost as much per token as all
the rest. So the one that is there counts first words, and is asked.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from uuid import UUID

FirstWords = Counter[UUID | None]
"""How many model calls have begun to speak, by the step of the graph that they were made in."""

_heard: ContextVar[FirstWords | None] = ContextVar("first_words", default=None)


@contextmanager
def listening(words: FirstWords) -> Iterator[None]:
    token = _heard.set(words)
    try:
        yield
    finally:
        _heard.reset(token)


def first_words() -> FirstWords | None:
    """Those of the run around; None if nobody listens."""
    return _heard.get()
