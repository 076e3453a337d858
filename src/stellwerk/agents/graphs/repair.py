"""Repair of dangling tool calls in the state of an operator's graph, before its next input.

Model providers reject a conversation in which a tool call has no result; a stop, a crash or a
failed run can leave one behind. Agents of ours are repaired in each model request (``middleware``).
For a graph of the operator the missing results go into its state, before the user's next message.
"""

from collections.abc import Iterable, Iterator
from itertools import takewhile
from typing import Any, NamedTuple

from langchain_core.messages import BaseMessage, ToolMessage
from langgraph.channels.binop import BinaryOperatorAggregate
from langgraph.checkpoint.base import CheckpointTuple
from langgraph.types import Command

from stellwerk.agents.graphs.input import Graph, GraphInput
from stellwerk.agents.runtime.conversation import with_missing_results

CLOSED = "tool_calls_closed"
_TEXT = "{} has no result: the run ended before it. It may have taken effect all the same."


class Repair(NamedTuple):
    """The results to put in front of the input, so that no tool call at the end lacks one."""

    messages: list[BaseMessage]
    warning: str


def repair(graph: Graph, graph_input: GraphInput, saved: CheckpointTuple | None) -> Repair | None:
    """None if no tool call lacks a result, or if the state cannot be repaired."""
    key = graph_input.key or ""
    channel = graph.channels.get(key) if graph_input.form == "messages" else None
    # A channel without a reducer is replaced by the input; other reducers may do anything.
    if saved is None or not isinstance(channel, BinaryOperatorAggregate):
        return None
    said = saved.checkpoint["channel_values"].get(key)
    if not isinstance(said, list) or not all(isinstance(message, BaseMessage) for message in said):
        return None
    known = {id(message) for message in said}
    backwards = reversed([*with_missing_results(said, _TEXT)])
    missing = [*takewhile(lambda message: id(message) not in known, backwards)][::-1]
    # LangGraph drops the writes of an unfinished step as soon as there is new input.
    pending = results_in(write for _, _, write in saved.pending_writes or ())
    written = {result.tool_call_id: result for result in pending}
    results = [written.get(result.tool_call_id, result) for result in missing]
    if not results:
        return None
    names = ", ".join(dict.fromkeys(result.name or "unknown" for result in results))
    problem = "tool calls of an earlier run had no result in the conversation"
    return Repair([*results], f"{problem} and were given one: {names}")


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
