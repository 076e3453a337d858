"""What the conversation says about the current input: where it begins, what it has cost. Pure functions."""

from collections.abc import Sequence
from dataclasses import dataclass

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolCall, ToolMessage

VALIDATOR = "validator"
"""The name under which a validation speaks to the model; such a message is no new input."""
OUR_WORDS = "stellwerk_said"
"""In the metadata of an AI message that no model wrote: why we wrote it."""
SPENT = "stellwerk_spent"
"""In the metadata of a tool message: the steps and tokens of the agents that ran inside the call."""


@dataclass(frozen=True, slots=True)
class Spent:
    steps: int = 0
    tokens: int = 0

    def __add__(self, other: "Spent") -> "Spent":
        return Spent(self.steps + other.steps, self.tokens + other.tokens)


def since_input(messages: Sequence[BaseMessage]) -> Sequence[BaseMessage]:
    """What has been said since the user last spoke."""
    last = max((n for n, m in enumerate(messages) if isinstance(m, HumanMessage) and m.name != VALIDATOR), default=-1)
    return messages[last + 1 :]


def question_of(messages: Sequence[BaseMessage]) -> str:
    begin = len(messages) - len(since_input(messages)) - 1
    return str(messages[begin].text) if begin >= 0 else ""


def calls_of(messages: Sequence[BaseMessage]) -> list[ToolCall]:
    """The tool calls that the model asked for, in its order."""
    return [call for message in messages if isinstance(message, AIMessage) for call in message.tool_calls]


def by_model(message: BaseMessage) -> bool:
    return isinstance(message, AIMessage) and OUR_WORDS not in message.response_metadata


def spent_in(messages: Sequence[BaseMessage]) -> Spent:
    """What these messages have cost, with all that sub-agents did on the way to their results."""
    return sum((_cost(message) for message in messages), start=Spent())


def _cost(message: BaseMessage) -> Spent:
    if isinstance(message, AIMessage) and by_model(message):
        return Spent(1, message.usage_metadata["total_tokens"] if message.usage_metadata else 0)
    if isinstance(message, ToolMessage):
        return Spent(**message.response_metadata.get(SPENT, {}))
    return Spent()
