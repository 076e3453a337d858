"""The journal: where a graph that runs leaves what is to be stored.

Whoever drives a run opens its journal around the graph; the saver and the tools
find it there. So files belong to the session of the run; and a checkpoint, the
envelope that tells of it, and everything the run said before it are committed
together: the two can never disagree.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Protocol

from stellwerk.database.port import Operation
from stellwerk.envelope.results import ToolResult
from stellwerk.envelope.shapes import Blob
from stellwerk.stream.facts import CheckpointSaved


class Journal(Protocol):
    async def commit_with(self, operation: Operation[Any, Any], item: Any, fact: CheckpointSaved | None) -> None:
        """Commit the item together with all that was told so far, and the fact."""

    async def stored(self) -> None:
        """Return when all that was told so far is stored."""

    async def keep(self, result: ToolResult, blobs: Sequence[Blob]) -> ToolResult:
        """Store what a result refers to; it is there when this returns. The result refers to what was stored."""


_journal: ContextVar[Journal | None] = ContextVar("stellwerk_journal", default=None)


def current_journal() -> Journal | None:
    return _journal.get()


async def keep(result: ToolResult, blobs: Sequence[Blob]) -> ToolResult:
    """Store the files of a tool's result with the run around it; without one there is no place for them."""
    journal = _journal.get()
    return result if journal is None else await journal.keep(result, blobs)


@contextmanager
def keeping(journal: Journal) -> Iterator[None]:
    token = _journal.set(journal)
    try:
        yield
    finally:
        _journal.reset(token)
