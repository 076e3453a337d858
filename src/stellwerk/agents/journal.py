"""The journal: how the checkpoint saver stores a checkpoint and the log in one transaction.

Whoever drives a run opens its journal around the graph; the saver finds it
there. So a checkpoint, the envelope that tells of it, and everything the run
said before it are committed together: the two can never disagree.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Protocol

from stellwerk.database.port import Operation
from stellwerk.stream.facts import CheckpointSaved


class Journal(Protocol):
    async def commit_with(self, operation: Operation[Any, Any], item: Any, fact: CheckpointSaved | None) -> None:
        """Commit the item together with all that was told so far, and the fact."""


_journal: ContextVar[Journal | None] = ContextVar("stellwerk_journal", default=None)


def current_journal() -> Journal | None:
    return _journal.get()


@contextmanager
def keeping(journal: Journal) -> Iterator[None]:
    token = _journal.set(journal)
    try:
        yield
    finally:
        _journal.reset(token)
