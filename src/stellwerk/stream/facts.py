"""Facts: events of the framework in plain values, the input of the stream adapter.

A fact names calls by the framework's own ids (``run``, ``parent``); the adapter
gives them their place in the log. A ``namespace`` locates an event in nested
graphs: empty for the outermost graph, ``tools:…`` for a task of it,
``tools:…|model:…`` for one below.
"""

from typing import Any, Literal

from msgspec import Struct

Voice = Literal["open", "silent", "held"]
"""How a model call is streamed: as it comes, not at all, or once its answer is accepted."""


class Fact(Struct, frozen=True, gc=False):
    """Made for each token, so it is small and untracked by the garbage collector."""


class StepStarted(Fact, frozen=True, gc=False):
    """A step of a graph started; it is between a call and the calls inside it."""

    run: str
    parent: str | None
    node: str | None = None
    namespace: str = ""
    name: str = ""
    ts: float = 0.0
    input: Any = None
    """Its input, if it may be a graph; of a conversation the last message."""


class StepEnded(Fact, frozen=True, gc=False):
    """A step of a graph ended; ``failed`` is the class of its exception."""

    ts: float
    run: str
    failed: str | None = None


class ModelStarted(Fact, frozen=True, gc=False):
    ts: float
    run: str
    parent: str | None
    model: str
    agent: str | None
    node: str | None
    params: dict[str, Any] = {}
    voice: Voice = "open"
    prompt: list[Any] | None = None
    """The messages to the model, if prompts are stored."""


class ModelToken(Fact, frozen=True, gc=False):
    ts: float
    run: str
    text: str
    kind: Literal["text", "reasoning"] = "text"
    block: int = 0


class ToolArgsDelta(Fact, frozen=True, gc=False):
    """A piece of the arguments of a tool call; only the first one of a call needs name and id."""

    ts: float
    run: str
    index: int | str | None
    """Identifies the call within its message."""
    text: str
    tool_call_id: str | None = None
    name: str | None = None


class ModelFinished(Fact, frozen=True, gc=False):
    ts: float
    run: str
    message_id: str
    text: str
    finish_reason: str | None
    input_tokens: int
    output_tokens: int
    tool_calls: list[tuple[str, str, Any]]
    """(name, tool_call_id, arguments) of the requested tool calls."""


class ToolStarted(Fact, frozen=True, gc=False):
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
    """The message that will hold its outcome; files made inside belong to that message."""


class ToolFinished(Fact, frozen=True, gc=False):
    ts: float
    run: str
    output: Any
    """The return value of the tool, or its artifact."""
    failed: bool = False
    """The tool reported an error as its result."""
    notes: tuple[str, ...] = ()
    """Changes made to the result before."""


class ToolAnswered(Fact, frozen=True, gc=False):
    """A node answered a tool call, perhaps without running it: rejected, limited, timed out."""

    ts: float
    namespace: str
    """The graph of the node."""
    tool_call_id: str
    output: Any
    failed: bool


class CallFailed(Fact, frozen=True, gc=False):
    ts: float
    run: str
    kind: str
    message: str


class CallPaused(Fact, frozen=True, gc=False):
    """A tool was interrupted to ask the user; a later run resumes it."""

    run: str
    ask_ids: tuple[str, ...]


class Interrupted(Fact, frozen=True, gc=False):
    """A graph was interrupted and waits for the user."""

    ts: float
    ask_id: str
    """Empty for a breakpoint, which LangGraph does not name."""
    value: Any
    schema: Any
    namespace: str


class Declined(Fact, frozen=True, gc=False):
    """The user answered no at a breakpoint: the graph does not go on."""


class MessageReturned(Fact, frozen=True, gc=False):
    """A node of the outermost graph put an AI message into the state."""

    ts: float
    message_id: str
    text: str
    agent: str | None
    asks_for_tools: bool
    is_step: bool = False
    """The node marked it as a step: its answer follows."""
    documents: tuple[str, ...] = ()
    """Files that go with it."""
    files: tuple[Any, ...] = ()
    """Images and other files in its content, as results of tools carry them."""


class MessageRemoved(Fact, frozen=True, gc=False):
    """A node of the outermost graph took a message out of the state."""

    message_id: str


class AnswerAccepted(Fact, frozen=True, gc=False):
    """The answer of a held model call is valid."""

    ts: float
    message_id: str
    text: str


class StateDecides(Fact, frozen=True, gc=False):
    """The final state of this graph decides its answer, not the last model call."""


class AnswerGiven(Fact, frozen=True, gc=False):
    """A graph ended; this is the last AI message of this round in its state."""

    ts: float
    message_id: str
    text: str
    agent: str | None
    documents: tuple[str, ...] = ()
    output: Any = None
    """The structured output beside it."""
    files: tuple[Any, ...] = ()


class OutputGiven(Fact, frozen=True, gc=False):
    """A graph ended with this output and without a message."""

    ts: float
    value: Any


class NodeUpdated(Fact, frozen=True, gc=False):
    """A node changed the state of its graph; ``delta`` is without messages."""

    ts: float
    node: str
    namespace: str
    delta: Any
    repeated: bool = False
    """The framework repeats it after an interrupt."""


class ToolOutputDelta(Fact, frozen=True, gc=False):
    ts: float
    run: str
    data: Any


class CustomEvent(Fact, frozen=True, gc=False):
    """A tool or node wrote to its graph's stream, or dispatched an event.

    In the stream only a ``tool_call_id`` in the data identifies it; of an event, ``run`` is the id.
    """

    ts: float
    namespace: str
    data: Any
    tool_call_id: str | None = None
    run: str | None = None


class CheckpointSaved(Fact, frozen=True, gc=False):
    ts: float
    checkpoint_id: str
    namespace: str
    state_digest: str


class Warned(Fact, frozen=True, gc=False):
    """The run deviates from what the user may expect; the message has what and the remedy."""

    ts: float
    code: str
    message: str
