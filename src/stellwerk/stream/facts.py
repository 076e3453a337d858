"""Facts: what a framework said, in plain values, from whichever source it came.

A fact names calls by the framework's own ids (``run``, ``parent``); giving
them their place in the log is the adapter's work. No fact is interpreted here.
"""

from dataclasses import dataclass, field
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class Linked:
    """A step of a graph began; it stands between a call and the calls inside it."""

    run: str
    parent: str | None
    node: str | None = None
    namespace: str = ""
    """Where the step stands: ``model:…`` in the outermost graph, ``tools:…|model:…`` in one below."""


@dataclass(frozen=True, slots=True)
class ModelBegan:
    ts: float
    run: str
    parent: str | None
    model: str
    agent: str | None
    node: str | None
    params: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ModelSpoke:
    ts: float
    run: str
    text: str
    kind: Literal["text", "reasoning"] = "text"
    block: int = 0


@dataclass(frozen=True, slots=True)
class ModelDone:
    ts: float
    run: str
    message_id: str
    text: str
    finish_reason: str | None
    input_tokens: int
    output_tokens: int
    tool_calls: list[tuple[str, str]]
    """(name, tool_call_id) of what the model wants called."""


@dataclass(frozen=True, slots=True)
class ToolBegan:
    ts: float
    run: str
    parent: str | None
    name: str
    tool_call_id: str
    namespace: str
    args: dict[str, Any]
    agent: str | None
    node: str | None


@dataclass(frozen=True, slots=True)
class ToolDone:
    ts: float
    run: str
    output: Any
    """What the tool returned, or the artifact it attached for us."""
    failed: bool = False
    """The tool reported an error as its result."""


@dataclass(frozen=True, slots=True)
class CallFailed:
    """A model or tool raised."""

    ts: float
    run: str
    kind: str
    message: str


@dataclass(frozen=True, slots=True)
class MessageReturned:
    """A node of the outermost graph put an AI message into the state."""

    ts: float
    message_id: str
    text: str
    agent: str | None
    asks_for_tools: bool


@dataclass(frozen=True, slots=True)
class CheckpointSaved:
    ts: float
    checkpoint_id: str
    namespace: str
    state_digest: str


Fact = (
    Linked | ModelBegan | ModelSpoke | ModelDone | ToolBegan | ToolDone | CallFailed | MessageReturned | CheckpointSaved
)
