"""States of a graph at its checkpoints, and changes of them, as plain values."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from stellwerk.agents.checkpoints.rows import Put, PutWrites
from stellwerk.database.port import Operation
from stellwerk.envelope.introspection import Blob
from stellwerk.envelope.results import ToolResult
from stellwerk.stream.facts import CheckpointSaved


@dataclass(frozen=True, slots=True)
class PendingInterrupt:
    id: str
    value: Any


@dataclass(frozen=True, slots=True)
class PendingTask:
    """A task of the next step: a node that would run."""

    id: str
    name: str
    error: str | None
    interrupts: Sequence[PendingInterrupt]


@dataclass(frozen=True, slots=True)
class SavedState:
    """The state at one checkpoint of the outermost graph."""

    values: Any
    """By the keys of the graph; of a graph without keys, its value."""
    next: Sequence[str] = ()
    tasks: Sequence[PendingTask] = ()
    checkpoint_id: str | None = None
    parent_id: str | None = None
    created_at: float | None = None
    source: str | None = None
    """What made it: ``input``, ``loop`` (a step), ``update`` or ``fork``."""
    step: int | None = None


@dataclass(frozen=True, slots=True)
class StateUpdate:
    """A change of the state, as if a node had returned these values."""

    values: Any
    as_node: str | None = None
    """The node; by default the one that ran last."""
    checkpoint_id: str | None = None
    """The checkpoint to start from; by default the latest."""


@dataclass
class PreparedUpdate:
    """The rows of an update. A ``Journal`` that collects what the saver would commit."""

    node: str
    puts: list[Put | PutWrites] = field(default_factory=list)
    saved: CheckpointSaved | None = None

    async def commit_with(self, operation: Operation[Any, Any], item: Any, fact: CheckpointSaved | None) -> None:
        self.puts.append(item)
        self.saved = fact or self.saved

    async def stored(self) -> None:
        """Nothing is stored before the caller commits."""

    async def keep(self, result: ToolResult, blobs: Sequence[Blob]) -> ToolResult:
        return result


class StatesElsewhere(Protocol):
    """The states of a graph that runs in another process."""

    async def read_state(self, session_id: str, checkpoint_id: str | None) -> SavedState | None: ...

    def state_history(self, session_id: str, *, before: str | None, limit: int) -> AsyncIterator[SavedState]: ...

    async def prepare_update(self, session_id: str, epoch: int, update: StateUpdate) -> PreparedUpdate: ...
