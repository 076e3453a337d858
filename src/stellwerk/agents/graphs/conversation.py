"""The conversation of an operator's graph: repaired before a run, and its answer after it.

Model providers reject a conversation in which a tool call has no result; a stop, a crash or a
failed run can leave one behind. Agents of ours are repaired in each model request (``middleware``).
For a graph of the operator the missing results go into its state, before the user's next message.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, NamedTuple

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langgraph.channels.binop import BinaryOperatorAggregate
from langgraph.checkpoint.base import CheckpointTuple
from langgraph.types import Command, StateSnapshot

from stellwerk.agents.graphs.input import Graph, GraphInput
from stellwerk.agents.runtime.conversation import DOCUMENTS, with_missing_results
from stellwerk.agents.runtime.shapes import messages_in, plain_id
from stellwerk.ids import Clock
from stellwerk.stream.facts import AnswerGiven, Fact, OutputGiven

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


@dataclass(frozen=True, slots=True)
class FinishedRun:
    asked: str
    """The id of the user's message."""
    messages: Collection[str]
    """Ids of the AI messages of this run."""
    agent: str
    clock: Clock


def answer_facts(graph: Graph, graph_input: GraphInput, state: StateSnapshot, run: FinishedRun) -> Iterator[Fact]:
    """The answer in the final state: the last AI message, or else the output.

    If the graph has dropped the user's message, only messages of this run can be the answer. The
    return value of a function of the functional API always belongs to the run.
    """
    has_messages = graph_input.form == "messages"
    said = _messages(state.values, graph_input.key) if has_messages else []
    whole = isinstance(graph.output_channels, str)
    ts = run.clock.now()
    if (answer := _answer(said, run.asked, None if whole else run.messages)) is not None:
        documents = tuple(map(str, answer.response_metadata.get(DOCUMENTS) or ()))
        name = answer.name or run.agent
        yield AnswerGiven(ts, plain_id(answer.id), str(answer.text), name, documents)
    elif not said or not whole:
        output = _output(graph, state.values, but=graph_input.key if has_messages else None)
        if output is not None:
            yield OutputGiven(ts, output)


def _messages(values: Any, key: str | None) -> list[BaseMessage]:
    """The conversation in a state, or in a return value of the functional API, of any shape."""
    if isinstance(values, Mapping):
        return messages_in(values.get(key or "messages", []))
    given = values if isinstance(values, list) else [values]
    return [message for message in given if isinstance(message, BaseMessage)]


def _answer(said: Sequence[BaseMessage], asked: str, own: Collection[str] | None) -> AIMessage | None:
    place = next((n for n, message in enumerate(said) if message.id == asked), None)
    for message in reversed(said if place is None else said[place + 1 :]):
        if isinstance(message, AIMessage) and message.text:
            is_ours = place is not None or own is None or plain_id(message.id) in own
            return message if is_ours else None
    return None


def _output(graph: Graph, values: Any, *, but: str | None) -> Any:
    """The output schema's part of the state, without the conversation; a single text as it is."""
    channels = graph.output_channels
    if isinstance(channels, str) or not isinstance(values, Mapping):
        return values
    wanted = [key for key in channels if key != but]
    output = {key: values[key] for key in wanted if key in values}
    if len(wanted) == 1 and isinstance(output.get(wanted[0]), str):
        return output[wanted[0]]
    return output if output or but is None else None
