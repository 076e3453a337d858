"""Facts: what a framework said, in plain values, from whichever source it came.

A fact names calls by the framework's own ids (``run``, ``parent``); giving
them their place in the log is the adapter's work. No fact is interpreted here.
A ``namespace`` says where in nested graphs something stands: empty for the
outermost graph, ``tools:…`` for a task of it, ``tools:…|model:…`` for one below.
"""

from typing import Any, Literal

from msgspec import Struct

Voice = Literal["open", "silent", "held"]
"""How a model call is heard: as it speaks, not at all, or once its answer is accepted."""


class _Fact(Struct, frozen=True, gc=False):
    """Made for each token, so it is small, and the garbage collector need not look at it."""


class Linked(_Fact, frozen=True, gc=False):
    """A step of a graph began; it stands between a call and the calls inside it."""

    run: str
    parent: str | None
    node: str | None = None
    namespace: str = ""
    name: str = ""
    ts: float = 0.0
    input: Any = None
    """What it was given, if it may be a graph; of a conversation the last message."""


class StepEnded(_Fact, frozen=True, gc=False):
    """A step of a graph is over; ``failed`` is the class of what it raised."""

    ts: float
    run: str
    failed: str | None = None


class ModelBegan(_Fact, frozen=True, gc=False):
    ts: float
    run: str
    parent: str | None
    model: str
    agent: str | None
    node: str | None
    params: dict[str, Any] = {}
    voice: Voice = "open"
    prompt: list[Any] | None = None
    """What the model was asked, if that is to be stored."""


class ModelSpoke(_Fact, frozen=True, gc=False):
    ts: float
    run: str
    text: str
    kind: Literal["text", "reasoning"] = "text"
    block: int = 0


class ModelWrote(_Fact, frozen=True, gc=False):
    """A piece of the arguments of a tool call; only the first one of a call has to say which call it is."""

    ts: float
    run: str
    index: int | str | None
    """Tells the calls of one message apart."""
    text: str
    tool_call_id: str | None = None
    name: str | None = None


class ModelDone(_Fact, frozen=True, gc=False):
    ts: float
    run: str
    message_id: str
    text: str
    finish_reason: str | None
    input_tokens: int
    output_tokens: int
    tool_calls: list[tuple[str, str, Any]]
    """(name, tool_call_id, arguments) of what the model wants called."""


class ToolBegan(_Fact, frozen=True, gc=False):
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
    idempotent: bool = False
    message_id: str | None = None
    """Of the message that will tell what came of it; files made inside go with that message."""


class ToolDone(_Fact, frozen=True, gc=False):
    ts: float
    run: str
    output: Any
    """What the tool returned, or the artifact it attached for us."""
    failed: bool = False
    """The tool reported an error as its result."""
    notes: tuple[str, ...] = ()
    """What was changed in the result before it came here."""


class ToolAnswered(_Fact, frozen=True, gc=False):
    """A node answered a tool call, perhaps without running the tool: refused, limited, timed out."""

    ts: float
    namespace: str
    """Of the graph in which the node stands."""
    tool_call_id: str
    output: Any
    failed: bool


class CallFailed(_Fact, frozen=True, gc=False):
    """A model or tool raised."""

    ts: float
    run: str
    kind: str
    message: str


class CallPaused(_Fact, frozen=True, gc=False):
    """A tool stopped to ask the user; it goes on in a later run."""

    run: str
    ask_ids: tuple[str, ...]


class Interrupted(_Fact, frozen=True, gc=False):
    """A graph waits for the user."""

    ts: float
    ask_id: str
    """Empty for a breakpoint, which LangGraph does not name."""
    value: Any
    schema: Any
    namespace: str


class Declined(_Fact, frozen=True, gc=False):
    """The user said no at a breakpoint: the graph does not go on."""


class MessageReturned(_Fact, frozen=True, gc=False):
    """A node of the outermost graph put an AI message into the state."""

    ts: float
    message_id: str
    text: str
    agent: str | None
    asks_for_tools: bool
    is_step: bool = False
    """The node says that its answer is yet to come."""
    documents: tuple[str, ...] = ()
    """Files that go with it."""


class AnswerAccepted(_Fact, frozen=True, gc=False):
    """The answer of a held model call was found valid."""

    ts: float
    message_id: str
    text: str


class StateDecides(_Fact, frozen=True, gc=False):
    """The final state of this graph says what its answer is, whichever model speaks last."""


class AnswerGiven(_Fact, frozen=True, gc=False):
    """A graph has ended, and this is the last AI message that its state has of this round."""

    ts: float
    message_id: str
    text: str
    agent: str | None
    documents: tuple[str, ...] = ()


class OutputGiven(_Fact, frozen=True, gc=False):
    """A graph has ended with this, and without a message."""

    ts: float
    value: Any


class NodeUpdated(_Fact, frozen=True, gc=False):
    """A node changed the state of its graph; ``delta`` is without messages."""

    ts: float
    node: str
    namespace: str
    delta: Any
    repeated: bool = False
    """It was told before the graph was interrupted."""


class ToolSpoke(_Fact, frozen=True, gc=False):
    """A tool gave out a piece of its output."""

    ts: float
    run: str
    data: Any


class Emitted(_Fact, frozen=True, gc=False):
    """A tool or node wrote something to the stream of its graph; which one, only a tool_call_id in the data tells.
    Or it dispatched an event; then ``run`` is who did."""

    ts: float
    namespace: str
    data: Any
    tool_call_id: str | None = None
    run: str | None = None


class CheckpointSaved(_Fact, frozen=True, gc=False):
    ts: float
    checkpoint_id: str
    namespace: str
    state_digest: str


class Warned(_Fact, frozen=True, gc=False):
    """Something was not done as the user may expect; the message says what, and what to do."""

    ts: float
    code: str
    message: str


class Unknown(_Fact, frozen=True, gc=False):
    """A recording has something that no reader of recordings knows."""

    ts: float
    what: str


Fact = (
    Linked
    | StepEnded
    | ModelBegan
    | ModelSpoke
    | ModelWrote
    | ModelDone
    | ToolBegan
    | ToolDone
    | ToolAnswered
    | CallFailed
    | CallPaused
    | Interrupted
    | Declined
    | MessageReturned
    | AnswerAccepted
    | StateDecides
    | AnswerGiven
    | OutputGiven
    | NodeUpdated
    | ToolSpoke
    | Emitted
    | CheckpointSaved
    | Warned
    | Unknown
)
