"""A conversation: the turn that a run answers, and queries on messages: input, documents, cost, taint marks."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any, TypedDict, TypeVar

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, InvalidToolCall, ToolCall, ToolMessage
from langgraph.types import Command
from msgspec import Struct

from stellwerk.agents.runtime.langgraph_features import RunControl
from stellwerk.envelope.model import Message
from stellwerk.envelope.payloads import ATTACHED, FilePart, TextPart
from stellwerk.spec.model import ChatMessage

VALIDATOR = "validator"
"""The author of remarks of the validation; such a message is no new input."""
SERVER_WRITTEN = "stellwerk_said"
"""In the metadata of an AI message that no model wrote: the reason for it."""
SPENT = "stellwerk_spent"
"""In a message's metadata: its cost beside the call that wrote it, by sub-agents or a judge."""
SECONDS = "stellwerk_seconds"
"""In the metadata of a message: the running time of its run by then."""
REFUSED = "stellwerk_refused"
"""In the metadata of a tool message: the call was beyond a limit and did not run."""
STEP = "stellwerk_step"
"""In the metadata of an AI message that no model wrote: an intermediate message, not the answer."""
DOCUMENTS = "stellwerk_documents"
"""In the metadata of a message: ids of its files."""
INPUT_NOTE = "stellwerk_given"
"""In a task's or request's metadata: id and extension of its documents, and if a task made them.

Of a task also the length of the request in its text. The rest of the text lists the documents,
in words that strangers may have written.
"""
TAINT = "stellwerk_read"
"""In the metadata of a message: the names of the untrusted sources that were read before it."""
ATTACHED_FILES = "attached files"
"""A source: strangers may have named the files."""
EARLIER_MESSAGES = "what was said before"
"""A source: what an agent said in a conversation that the client keeps."""
TASK = "task"
"""The one tool through which a deep agent calls all its sub-agents."""
GENERAL_PURPOSE = "general-purpose"
"""The sub-agent that every deep agent has: it works with the agent's own tools."""

_inherited_taint: ContextVar[tuple[str, ...]] = ContextVar("stellwerk_read_above", default=())

Spoken = TypeVar("Spoken", bound=BaseMessage)


@dataclass(frozen=True, slots=True)
class Cost:
    """What agents have used up: model calls, tokens, and calls of limited tools."""

    steps: int = 0
    tokens: int = 0
    calls: Counter[str] = field(default_factory=Counter)
    """Of limited tools, by name."""

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(self.steps + other.steps, self.tokens + other.tokens, self.calls + other.calls)

    def beyond(self, other: "Cost") -> "Cost":
        """What this exceeds the other by."""
        steps = max(0, self.steps - other.steps)
        tokens = max(0, self.tokens - other.tokens)
        return Cost(steps, tokens, self.calls - other.calls)

    def to_json(self) -> dict[str, Any]:
        calls = {"calls": dict(self.calls)} if self.calls else {}
        return {"steps": self.steps, "tokens": self.tokens, **calls}


def since_input(messages: Sequence[BaseMessage]) -> Sequence[BaseMessage]:
    """The messages after the user's last one."""
    return messages[_input_place(messages) + 1 :]


def _input_place(messages: Sequence[BaseMessage]) -> int:
    """The index of the user's last message; -1 if there is none."""
    for place in reversed(range(len(messages))):
        message = messages[place]
        if isinstance(message, HumanMessage) and message.name != VALIDATOR:
            return place
    return -1


def input_text(messages: Sequence[BaseMessage]) -> str:
    return str(_asked(messages).text)


def request_text(messages: Sequence[BaseMessage]) -> str:
    """The request of the user or the plan, without the list of its files."""
    asked = _asked(messages)
    given = asked.response_metadata.get(INPUT_NOTE, {})
    if "wish" in given:
        return str(asked.text)[: given["wish"]]
    return f"\n{asked.text}".partition(f"\n{ATTACHED}")[0].removeprefix("\n")


def input_documents(messages: Sequence[BaseMessage], extensions: Collection[str], *, made: bool = True) -> list[str]:
    """Ids of the input's documents that have one of these extensions; all if none is given.

    With ``made=False``, documents that a task made are left out.
    """
    given = _asked(messages).response_metadata.get(INPUT_NOTE, {}).get("documents", [])
    if extensions and "*" not in extensions:
        given = [each for each in given if each["ext"] in extensions]
    return [each["id"] for each in given if made or not each.get("made")]


def _asked(messages: Sequence[BaseMessage]) -> BaseMessage:
    """The user's last message, empty if there is none."""
    place = _input_place(messages)
    return messages[place] if place >= 0 else HumanMessage("")


def names_of(call: ToolCall) -> tuple[str, ...]:
    """The names that a rule for a call may use: the tool's, and that of the sub-agent behind it."""
    agent = call["args"].get("subagent_type") if call["name"] == TASK else None
    return (call["name"], agent) if isinstance(agent, str) else (call["name"],)


def by_model(message: BaseMessage) -> bool:
    return isinstance(message, AIMessage) and SERVER_WRITTEN not in message.response_metadata


def with_notes(message: Spoken, **notes: Any) -> Spoken:
    """The message with more metadata, which is stored with it and not sent to models."""
    return message.model_copy(update={"response_metadata": {**message.response_metadata, **notes}})


def outcome_with_notes(outcome: ToolMessage | Command[Any], **notes: Any) -> ToolMessage | Command[Any]:
    """The outcome of a tool with notes on its message, which may be inside a command."""
    match outcome:
        case ToolMessage():
            return with_notes(outcome, **notes)
        case Command(update={"messages": [*others, ToolMessage() as result], **rest}):
            messages = [*others, with_notes(result, **notes)]
            return replace(outcome, update={**rest, "messages": messages})
        case _:
            return outcome


def cost_in(messages: Sequence[BaseMessage]) -> Cost:
    """The cost of these messages, including that of sub-agents and judges."""
    steps = tokens = 0
    calls: Counter[str] = Counter()
    for message in messages:
        if isinstance(message, AIMessage) and by_model(message):
            steps += 1
            tokens += message.usage_metadata["total_tokens"] if message.usage_metadata else 0
        if beside := message.response_metadata.get(SPENT):
            steps += beside["steps"]
            tokens += beside["tokens"]
            calls.update(beside.get("calls", {}))
    return Cost(steps, tokens, calls)


def seconds_in(messages: Sequence[BaseMessage]) -> float:
    """The running time of the run at the last of these messages; 0 if it was not recorded."""
    return max((message.response_metadata.get(SECONDS, 0.0) for message in messages), default=0.0)


def ran_in(messages: Sequence[BaseMessage]) -> list[ToolCall]:
    """The tool calls that have a result, except refused ones."""
    ran: list[ToolCall] = []
    open_calls: dict[str | None, ToolCall] = {}
    for message in messages:
        if isinstance(message, ToolMessage):
            call = open_calls.get(message.tool_call_id)
            if call is not None and REFUSED not in message.response_metadata:
                ran.append(call)
        elif isinstance(message, AIMessage):  # ids may repeat over rounds
            open_calls = {call["id"]: call for call in message.tool_calls}
    return ran


def with_missing_results(messages: Iterable[BaseMessage], text: str) -> Iterator[Any]:
    """The conversation with an error result right behind each tool call that has no result.

    ``text`` is formatted with the name of the tool.
    """
    missing: dict[str, ToolMessage] = {}
    for message in messages:
        if isinstance(message, ToolMessage):
            missing.pop(message.tool_call_id, None)
        else:  # ids may repeat over rounds, so a result counts only up to the next other message
            yield from missing.values()
            missing = {}
        for call in _calls(message):
            name, call_id = call["name"] or "unknown", call["id"]
            if call_id:
                result = ToolMessage(text.format(name), tool_call_id=call_id, name=name, status="error")
                missing[call_id] = result
        yield message
    yield from missing.values()


def _calls(message: BaseMessage) -> Sequence[ToolCall | InvalidToolCall]:
    if not isinstance(message, AIMessage):
        return ()
    return [*message.tool_calls, *message.invalid_tool_calls]


def taint_sources(messages: Sequence[BaseMessage]) -> list[str]:
    """The untrusted sources that this conversation's agent, or an agent that called it, has read.

    A taint mark is stored in the metadata of a message, so it survives a restart, goes along with a
    fork, and stays when a tool result is shortened or removed.
    """
    own = (name for message in messages for name in _marks(message))
    return list(dict.fromkeys([*_inherited_taint.get(), *own]))


def _marks(message: BaseMessage) -> Collection[str]:
    if isinstance(message, HumanMessage) and f"\n{ATTACHED}" in f"\n{message.text}":
        return (ATTACHED_FILES,)
    return list(message.response_metadata.get(TAINT, ()))


def taint_note(sources: Sequence[str]) -> dict[str, Any]:
    """Metadata for a message that contains, or follows, content of these sources."""
    return {TAINT: list(sources)} if sources else {}


@contextmanager
def tainted_by(sources: Sequence[str]) -> Iterator[None]:
    """Agents that run inside the block inherit these sources, as their task may quote them."""
    token = _inherited_taint.set(tuple(dict.fromkeys([*_inherited_taint.get(), *sources])))
    try:
        yield
    finally:
        _inherited_taint.reset(token)


_BY_KEY = ("configurable", "metadata")
"""Parts of a config that are merged key by key."""


class GivenParameters(TypedDict, total=False):
    """Input, config and context of a run, as arguments."""

    input: Any
    config: dict[str, Any] | None
    context: dict[str, Any] | None


class RunParameters(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a message gives to its runs beside its text; `agents/graphs/parameters.py` checks it."""

    input: Any = None
    config: dict[str, Any] | None = None
    context: dict[str, Any] | None = None

    @classmethod
    def of(cls, message: Message) -> "RunParameters":
        said = message.payload
        return cls(input=said.input, config=said.config, context=said.context)

    @property
    def is_empty(self) -> bool:
        return self.input is None and self.config is None and self.context is None

    @property
    def configurable(self) -> Mapping[str, Any]:
        return (self.config or {}).get("configurable") or {}

    def over(self, defaults: "RunParameters") -> "RunParameters":
        """These parameters, and the defaults for keys that they do not have."""
        if defaults.is_empty:
            return self
        config = _joined(defaults.config, self.config)
        for part in _BY_KEY:
            if (base := (defaults.config or {}).get(part)) and (own := (self.config or {}).get(part)):
                config = {**(config or {}), part: {**base, **own}}
        given = self.input
        if given is None or isinstance(given, dict):
            given = _joined(defaults.input, given)
        return RunParameters(input=given, config=config, context=_joined(defaults.context, self.context))


def _joined(defaults: dict[str, Any] | None, given: dict[str, Any] | None) -> dict[str, Any] | None:
    return given if defaults is None else {**defaults, **(given or {})}


NO_PARAMETERS = RunParameters()


@dataclass(frozen=True, slots=True)
class Turn:
    """A message, answers to open questions, or a request to continue an interrupted run."""

    session_id: str
    epoch: int | None = None
    """The fencing token of the lease under which the run may write; None without a server."""
    user_id: str | None = None
    """The session's user, for graphs that keep data for each user."""
    message_id: str = ""
    """The user's message, also for a run that continues an earlier one."""
    text: str = ""
    files: Sequence[FilePart] = ()
    parameters: RunParameters = NO_PARAMETERS
    """Of the user's message, also for a run that continues an earlier one."""
    warned: bool = False
    """The log already has the warning about images that no model is shown."""
    answers: Mapping[str, Any] = field(default_factory=dict)
    """The resume value of each question, by ask_id."""
    state_changed: bool = False
    """A client changed the state since the questions were asked, so it has no interrupts with their ids."""
    earlier: Sequence[ChatMessage] = ()
    """The history of a conversation that is not stored here."""
    unheard: Sequence[Message] = ()
    """Messages of stopped or failed runs; the state may lack some of them."""
    from_checkpoint: str | None = None
    """Start from this checkpoint instead of the last one."""
    state_changes: Mapping[str, Any] = field(default_factory=dict)
    """What a client has set since that checkpoint, given to the graph with its input."""
    goes_on: bool = False
    """The graph's state already has the input: continue from its last checkpoint."""
    pause: RunControl | None = None
    """On request the graph finishes its step, stores its state, and ``Paused`` is raised."""

    def of_message(self, message: Message) -> "Turn":
        """The turn with this message as its input."""
        message_id = message.payload.message_id
        turn = self.with_parameters(message)
        return replace(turn, message_id=message_id, text=text_of(message), files=files_of(message))

    def with_parameters(self, message: Message) -> "Turn":
        """The turn with the config and context of this message."""
        return replace(self, parameters=RunParameters.of(message))


def chat_message_of(message: Message) -> ChatMessage:
    return ChatMessage.model_validate({"role": message.payload.role, "content": text_of(message)})


def text_of(message: Message) -> str:
    """The text that the agent reads: the message, and the names of its files."""
    texts = [part.text for part in message.payload.content if isinstance(part, TextPart)]
    return "\n".join([*texts, *(part.as_text for part in files_of(message))])


def files_of(message: Message) -> list[FilePart]:
    return [part for part in message.payload.content if isinstance(part, FilePart)]
