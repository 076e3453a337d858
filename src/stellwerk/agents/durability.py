"""``durability="sync"`` for a run in which some graphs store nothing.

The mode is inherited by every graph inside. One that was compiled with
``checkpointer=False`` makes no checkpoint, and LangGraph 1.2 still waits for it
after each step: it fails with an AttributeError. Here it finds a checkpoint that
is already stored.
"""

from collections.abc import Generator

# Private; a test of such a graph fails if it is called otherwise.
from langgraph.pregel._loop import PregelLoop


class _Stored:
    """What LangGraph waits for: as a future in a thread, as an awaitable on the event loop."""

    def result(self) -> None:
        return None

    def __await__(self) -> Generator[None, None, None]:
        yield from ()


def allow_graphs_without_checkpoints() -> None:
    PregelLoop._put_checkpoint_fut = _Stored()  # type: ignore[assignment]
