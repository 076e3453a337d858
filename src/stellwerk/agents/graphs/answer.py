"""The answer of an operator's graph: the last AI message of its final state, or else its output."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage
from langgraph.types import StateSnapshot

from stellwerk.agents.graphs.input import Graph, GraphInput
from stellwerk.agents.runtime.conversation import DOCUMENTS
from stellwerk.agents.runtime.shapes import files_in, messages_in, plain_id
from stellwerk.ids import Clock
from stellwerk.stream.facts import AnswerGiven, Fact, OutputGiven

STRUCTURED = "structured_response"
"""The state key in which LangChain's ``create_agent`` puts the answer by its ``response_format``."""


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
    structured = _structured(graph, state.values) if has_messages else None
    answer = _answer(said, run.asked, None if whole else run.messages)
    if answer is not None and (structured is None or answer is _last_words(said)):
        documents = tuple(map(str, answer.response_metadata.get(DOCUMENTS) or ()))
        name = answer.name or run.agent
        text = str(answer.text)
        yield AnswerGiven(ts, plain_id(answer.id), text, name, documents, structured, files_in(answer))
    elif structured is not None:
        yield OutputGiven(ts, structured)
    else:
        conversation = (graph_input.key or "messages") if has_messages and (said or not whole) else None
        output = _output(graph, state.values, but=conversation)
        if output is not None:
            yield OutputGiven(ts, output)


def _structured(graph: Graph, values: Any) -> Any:
    """The structured output of LangChain's agents; the agent clears it when a run has none."""
    if not isinstance(values, Mapping) or STRUCTURED not in graph.output_channels:
        return None
    return values.get(STRUCTURED)


def _last_words(said: Sequence[BaseMessage]) -> AIMessage | None:
    """The last AI message, unless it calls tools: structured output may be such a call."""
    last = next((message for message in reversed(said) if isinstance(message, AIMessage)), None)
    return None if last is None or last.tool_calls else last


def _messages(values: Any, key: str | None) -> list[BaseMessage]:
    """The conversation in a state, or in a return value of the functional API, of any shape."""
    if isinstance(values, Mapping):
        return messages_in(values.get(key or "messages", []))
    given = values if isinstance(values, list) else [values]
    return [message for message in given if isinstance(message, BaseMessage)]


def _answer(said: Sequence[BaseMessage], asked: str, own: Collection[str] | None) -> AIMessage | None:
    place = next((n for n, message in enumerate(said) if message.id == asked), None)
    for message in reversed(said if place is None else said[place + 1 :]):
        if isinstance(message, AIMessage) and (message.text or files_in(message)):
            is_ours = place is not None or own is None or plain_id(message.id) in own
            return message if is_ours else None
    return None


def _output(graph: Graph, values: Any, *, but: str | None) -> Any:
    """The output schema's part of the state, without the conversation; a single text as it is."""
    channels = graph.output_channels
    if not isinstance(values, Mapping):
        return values if but is None else None
    if isinstance(channels, str):
        return values if but is None else {key: values[key] for key in values if key != but} or None
    wanted = [key for key in channels if key != but]
    output = {key: values[key] for key in wanted if key in values}
    if len(wanted) == 1 and isinstance(output.get(wanted[0]), str):
        return output[wanted[0]]
    return output if output or but is None else None
