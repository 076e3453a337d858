"""What the conversation says about the current input: where it begins, what it has cost. Pure functions."""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolCall, ToolMessage
from langgraph.types import Command

from stellwerk.agents.middleware.kinds import ToolOutcome
from stellwerk.envelope.payloads import ATTACHED

VALIDATOR = "validator"
"""The name under which a validation speaks to the model; such a message is no new input."""
OUR_WORDS = "stellwerk_said"
"""In the metadata of an AI message that no model wrote: why we wrote it."""
SPENT = "stellwerk_spent"
"""In the metadata of a message: what was spent on it beside the call that wrote it, by sub-agents or a judge."""
SECONDS = "stellwerk_seconds"
"""In the metadata of a message: how long its run had been at work by then."""
REFUSED = "stellwerk_refused"
"""In the metadata of a tool message: the call was beyond a limit and did not run."""
STEP = "stellwerk_step"
"""In the metadata of an AI message that no model wrote: there is more to come, so this is not the answer yet."""
DOCUMENTS = "stellwerk_documents"
"""In the metadata of a message: ids of the files that go with it."""
GIVEN = "stellwerk_given"
"""In the metadata of a message that gives a task or a wish: of each document that goes with it id, extension, and
whether a task made it; and of a task, how many of its letters are the wish. The rest of its text tells of the
documents, in words that strangers may have written."""
TASK = "task"
"""The one tool through which a deep agent calls all its sub-agents."""
HELPER = "general-purpose"
"""The sub-agent that every deep agent has: it works with the agent's own tools."""

Spoken = TypeVar("Spoken", bound=BaseMessage)


@dataclass(frozen=True, slots=True)
class Spent:
    steps: int = 0
    tokens: int = 0
    calls: Counter[str] = field(default_factory=Counter)
    """Of tools that are limited."""

    def __add__(self, other: "Spent") -> "Spent":
        return Spent(self.steps + other.steps, self.tokens + other.tokens, self.calls + other.calls)

    def beyond(self, other: "Spent") -> "Spent":
        """What is more here than there."""
        steps, tokens = max(0, self.steps - other.steps), max(0, self.tokens - other.tokens)
        return Spent(steps, tokens, self.calls - other.calls)

    def to_json(self) -> dict[str, Any]:
        calls = {"calls": dict(self.calls)} if self.calls else {}
        return {"steps": self.steps, "tokens": self.tokens, **calls}


def since_input(messages: Sequence[BaseMessage]) -> Sequence[BaseMessage]:
    """What has been said since the user last spoke."""
    last = max((n for n, m in enumerate(messages) if isinstance(m, HumanMessage) and m.name != VALIDATOR), default=-1)
    return messages[last + 1 :]


def question_of(messages: Sequence[BaseMessage]) -> str:
    asked = _asked(messages)
    return "" if asked is None else str(asked.text)


def wish_of(messages: Sequence[BaseMessage]) -> str:
    """What the user or the plan asks for, without what is told of the files that go with it."""
    asked = _asked(messages)
    if asked is None:
        return ""
    if "wish" in (given := asked.response_metadata.get(GIVEN, {})):
        return str(asked.text)[: given["wish"]]
    return f"\n{asked.text}".partition(f"\n{ATTACHED}")[0].removeprefix("\n")


def documents_of(messages: Sequence[BaseMessage], extensions: Collection[str], *, made: bool = True) -> list[str]:
    """The ids of the documents that go with the input, with one of these extensions; with any if none is named.

    Without those that a task ``made``, if wanted.
    """
    asked = _asked(messages)
    given = [] if asked is None else asked.response_metadata.get(GIVEN, {}).get("documents", [])
    fitting = [each for each in given if not extensions or "*" in extensions or each["ext"] in extensions]
    return [each["id"] for each in fitting if made or not each.get("made")]


def _asked(messages: Sequence[BaseMessage]) -> BaseMessage | None:
    begin = len(messages) - len(since_input(messages)) - 1
    return messages[begin] if begin >= 0 else None


def names_of(call: ToolCall) -> tuple[str, ...]:
    """The names by which rules may mean a call: the tool's, and that of the sub-agent behind it."""
    agent = call["args"].get("subagent_type") if call["name"] == TASK else None
    return (call["name"], agent) if isinstance(agent, str) else (call["name"],)


def by_model(message: BaseMessage) -> bool:
    return isinstance(message, AIMessage) and OUR_WORDS not in message.response_metadata


def noted(message: Spoken, **notes: Any) -> Spoken:
    """The same message with more in its metadata, which is stored with it and not sent to models."""
    return message.model_copy(update={"response_metadata": {**message.response_metadata, **notes}})


def outcome_noted(outcome: ToolOutcome, **notes: Any) -> ToolOutcome:
    """The same for what a tool gives back: its message, or a change of the state with the message in it."""
    if isinstance(outcome, ToolMessage):
        return noted(outcome, **notes)
    match outcome:
        case Command(update={"messages": [*others, ToolMessage() as result], **rest}):
            return replace(outcome, update={**rest, "messages": [*others, noted(result, **notes)]})
        case _:
            return outcome


def spent_in(messages: Sequence[BaseMessage]) -> Spent:
    """What these messages have cost, with all that sub-agents and judges did on the way."""
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
    return Spent(steps, tokens, calls)


def seconds_in(messages: Sequence[BaseMessage]) -> float:
    """How long the run had been at work when the last of these was written; 0 if nobody took the time."""
    return max((float(message.response_metadata.get(SECONDS, 0)) for message in messages), default=0.0)


def ran_in(messages: Sequence[BaseMessage]) -> list[ToolCall]:
    """The tool calls that have a result, without those that were refused."""
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
