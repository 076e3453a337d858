"""Repair of an own graph's conversation: results for tool calls that a stop, a crash or a failed answer left without.

Model providers refuse a conversation in which a tool call has no result. Agents of ours are repaired in what
their model is sent; an operator's own graph has no such middleware, so the missing results go into its state, in
front of the user's next message.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, RemoveMessage, ToolMessage
from langgraph.channels.binop import BinaryOperatorAggregate
from langgraph.checkpoint.base import CheckpointTuple
from langgraph.graph.message import REMOVE_ALL_MESSAGES, add_messages
from langgraph.types import Command

from stellwerk.agents.graph_input import Graph, Intake

CLOSED = "tool_calls_closed"


class Repair:
    """What must be put in front of a message so that every tool call in the stored conversation has a result."""

    def __init__(self, graph: Graph, intake: Intake, saved: CheckpointTuple | None) -> None:
        self.tools: list[str] = []
        """Names of those that get a result."""
        self.messages: list[BaseMessage] = []
        channel = graph.channels.get(intake.key or "") if intake.form == "messages" else None
        # A channel without a reducer is replaced by the input as a whole; other reducers may do anything.
        if saved is not None and isinstance(channel, BinaryOperatorAggregate):
            said = saved.checkpoint["channel_values"].get(intake.key or "")
            if isinstance(said, list) and all(isinstance(message, BaseMessage) for message in said):
                self._close(said, saved, is_usual=channel.operator is add_messages)

    @property
    def warning(self) -> str:
        names = ", ".join(dict.fromkeys(self.tools))
        return f"tool calls of an earlier run had no result in the conversation and were given one: {names}"

    def _close(self, said: list[BaseMessage], saved: CheckpointTuple, *, is_usual: bool) -> None:
        # LangGraph drops what tasks of an unfinished step wrote as soon as there is new input.
        written = {result.tool_call_id: result for result in results_in(w for _, _, w in saved.pending_writes or ())}
        whole: list[BaseMessage] = []
        waiting: dict[str, ToolMessage] = {}
        for message in said:
            if isinstance(message, ToolMessage):
                waiting.pop(message.tool_call_id, None)
            else:  # ids may repeat over rounds, so a result counts only up to the next speaker
                whole += self._given(waiting)
                waiting = _missing(message) if isinstance(message, AIMessage) else {}
            whole.append(message)
        is_open = len(whole) > len(said)
        last = self._given({call: written.get(call, result) for call, result in waiting.items()})
        if not is_open:
            self.messages = last
        elif is_usual:  # a gap before the end, as earlier versions left it: no reducer inserts, so all is given again
            self.messages = [RemoveMessage(id=REMOVE_ALL_MESSAGES), *whole, *last]

    def _given(self, results: dict[str, ToolMessage]) -> list[BaseMessage]:
        self.tools += [result.name or "unknown" for result in results.values()]
        return list(results.values())


def results_in(values: Iterable[Any]) -> Iterator[ToolMessage]:
    """Results of tool calls among what tasks wrote."""
    for value in values:
        if isinstance(value, ToolMessage):
            yield value
        elif isinstance(value, list):
            yield from results_in(value)
        elif isinstance(value, Command):
            yield from results_in([value.update])
        elif isinstance(value, dict):
            yield from results_in(value.values())


def _missing(message: AIMessage) -> dict[str, ToolMessage]:
    asked = [(call["id"], call["name"] or "unknown") for call in [*message.tool_calls, *message.invalid_tool_calls]]
    return {
        call_id: ToolMessage(
            f"{name} has no result: the run ended before it. It may have taken effect all the same.",
            tool_call_id=call_id,
            name=name,
            status="error",
        )
        for call_id, name in asked
        if call_id
    }
