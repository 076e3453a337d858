"""Facts: what a framework said, in plain values, from whichever source it came.

A fact names calls by the framework's own ids (``run``, ``parent``); giving
them their place in the log is the adapter's work. No fact is interpreted here.
A ``namespace`` says where in nested graphs something stands: empty for the
outermost graph, ``tools:…`` for a task of it, ``tools:…|model:…`` for one below.
"""

from dataclasses import dataclass, field
from typing import Any, Literal

Voice = Literal["open", "silent", "held"]
"""How a model call is heard: as it speaks, not at all, or once its answer is accepted."""


@dataclass(frozen=True, slots=True)
class Linked:
    """A step of a graph began; it stands between a call and the calls inside it."""

    run: str
    parent: str | None
    node: str | None = None
    namespace: str = ""
    name: str = ""
    ts: float = 0.0


@dataclass(frozen=True, slots=True)
class StepEnded:
    """A step of a graph is over; ``failed`` is the class of what it raised."""

    ts: float
    run: str
    failed: str | None = None


@dataclass(frozen=True, slots=True)
class ModelBegan:
    ts: float
    run: str
    parent: str | None
    model: str
    agent: str | None
    node: str | None
    params: dict[str, Any] = field(default_factory=dict)
    voice: Voice = "open"
    prompt: list[Any] | None = None
    """What the model was asked, if that is to be stored."""


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
    tool_calls: list[tuple[str, str, Any]]
    """(name, tool_call_id, arguments) of what the model wants called."""


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
    kind: Literal["tool", "agent"] = "tool"
    title: str | None = None
    signal: str | None = None
    """The name of the call that brackets an agent's result."""


@dataclass(frozen=True, slots=True)
class ToolDone:
    ts: float
    run: str
    output: Any
    """What the tool returned, or the artifact it attached for us."""
    failed: bool = False
    """The tool reported an error as its result."""
    notes: tuple[str, ...] = ()
    """What was changed in the result before it came here."""


@dataclass(frozen=True, slots=True)
class ToolAnswered:
    """A node answered a tool call, perhaps without running the tool: refused, limited, timed out."""

    ts: float
    namespace: str
    """Of the graph in which the node stands."""
    tool_call_id: str
    output: Any
    failed: bool


@dataclass(frozen=True, slots=True)
class CallFailed:
    """A model or tool raised."""

    ts: float
    run: str
    kind: str
    message: str


@dataclass(frozen=True, slots=True)
class CallPaused:
    """A tool stopped to ask the user; it goes on in a later run."""

    run: str
    ask_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Interrupted:
    """A graph waits for the user."""

    ts: float
    ask_id: str
    value: Any
    schema: Any
    namespace: str


@dataclass(frozen=True, slots=True)
class MessageReturned:
    """A node of the outermost graph put an AI message into the state."""

    ts: float
    message_id: str
    text: str
    agent: str | None
    asks_for_tools: bool


@dataclass(frozen=True, slots=True)
class AnswerAccepted:
    """The answer of a held model call was found valid."""

    ts: float
    message_id: str
    text: str


@dataclass(frozen=True, slots=True)
class NodeUpdated:
    """A node changed the state of its graph; ``delta`` is without messages."""

    ts: float
    node: str
    namespace: str
    delta: Any
    repeated: bool = False
    """It was told before the graph was interrupted."""


@dataclass(frozen=True, slots=True)
class Emitted:
    """A tool or node wrote something to the stream."""

    ts: float
    namespace: str
    data: Any
    tool_call_id: str | None = None


@dataclass(frozen=True, slots=True)
class CheckpointSaved:
    ts: float
    checkpoint_id: str
    namespace: str
    state_digest: str


Fact = (
    Linked
    | StepEnded
    | ModelBegan
    | ModelSpoke
    | ModelDone
    | ToolBegan
    | ToolDone
    | ToolAnswered
    | CallFailed
    | CallPaused
    | Interrupted
    | MessageReturned
    | AnswerAccepted
    | NodeUpdated
    | Emitted
    | CheckpointSaved
)
