"""Repair of dangling tool calls in the state of an operator's graph, before its next input.

Model providers reject a conversation in which a tool call has no result; a stop, a crash or a failed
run can leave one behind. Agents of ours are repaired in each model request (``middleware``). A graph
of the operator has no such middleware, so the missing results go into its state, in front of the
user's next message.
"""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from langchain_core.messages import BaseMessage, RemoveMessage, ToolMessage
from langgraph.channels.binop import BinaryOperatorAggregate
from langgraph.checkpoint.base import CheckpointTuple
from langgraph.graph.message import REMOVE_ALL_MESSAGES, add_messages
from langgraph.types import Command

from stellwerk.agents.graphs.input import Graph, GraphInput
from stellwerk.agents.runtime.conversation import with_missing_results

CLOSED = "tool_calls_closed"
_TEXT = "{} has no result: the run ended before it. It may have taken effect all the same."


class Repair(NamedTuple):
    """The messages to put in front of the input, so that every tool call in the state has a result."""

    messages: list[BaseMessage]
    warning: str


def repair(graph: Graph, graph_input: GraphInput, saved: CheckpointTuple | None) -> dict[str, Repair]:
    """By state key. Without those in which every tool call has a result, or which cannot be repaired."""
    if saved is None:
        return {}
    found = {key: _repair(channel, key, saved) for key, channel in _conversations(graph, graph_input)}
    return {key: repaired for key, repaired in found.items() if repaired is not None}


def _conversations(graph: Graph, graph_input: GraphInput) -> Iterator[tuple[str, BinaryOperatorAggregate[Any]]]:
    """The state keys with messages that an input can add to."""
    main = graph_input.key if graph_input.form == "messages" else None
    for key in graph_input.shape.fields or ([] if main is None else [main]):
        channel = graph.channels.get(key)
        # A channel without a reducer is replaced by the input as a whole; other reducers may do anything.
        if isinstance(channel, BinaryOperatorAggregate) and (key == main or channel.operator is add_messages):
            yield key, channel


def _repair(channel: BinaryOperatorAggregate[Any], key: str, saved: CheckpointTuple) -> Repair | None:
    said = saved.checkpoint["channel_values"].get(key)
    if not isinstance(said, list) or not all(isinstance(message, BaseMessage) for message in said):
        return None
    whole = list(with_missing_results(said, _TEXT))
    known = {id(message) for message in said}
    end = 1 + max((n for n, message in enumerate(whole) if id(message) in known), default=-1)
    gaps = [message for message in whole[:end] if id(message) not in known]
    # LangGraph drops the writes of an unfinished step as soon as there is new input.
    written = {result.tool_call_id: result for result in results_in(w for _, _, w in saved.pending_writes or ())}
    trailing = [written.get(result.tool_call_id, result) for result in whole[end:]]
    messages: list[BaseMessage] = [*trailing]
    if gaps:  # left by earlier versions; no reducer inserts, so the whole conversation is written again
        if channel.operator is not add_messages:
            return None
        messages = [RemoveMessage(id=REMOVE_ALL_MESSAGES), *whole[:end], *trailing]
    names = ", ".join(dict.fromkeys(result.name or "unknown" for result in [*gaps, *trailing]))
    warning = f"tool calls of an earlier run had no result in the conversation and were given one: {names}"
    return Repair(messages, warning) if messages else None


def results_in(values: Iterable[Any]) -> Iterator[ToolMessage]:
    """Tool results among the writes of tasks."""
    for value in values:
        if isinstance(value, ToolMessage):
            yield value
        elif isinstance(value, list):
            yield from results_in(value)
        elif isinstance(value, Command):
            yield from results_in([value.update])
        elif isinstance(value, dict):
            yield from results_in(value.values())
