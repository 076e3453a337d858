"""What an operator's own graph answers: the last AI message of its final state, or else its output."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage
from langgraph.types import StateSnapshot

from stellwerk.agents.graph_input import Graph, Intake
from stellwerk.agents.middleware.conversation import DOCUMENTS
from stellwerk.agents.parts import messages_in
from stellwerk.agents.shapes import plain_id
from stellwerk.ids import Clock
from stellwerk.stream.facts import AnswerGiven, Fact, OutputGiven


@dataclass(frozen=True, slots=True)
class Round:
    """What is known of the round that has ended."""

    asked: str
    """The id of the user's message."""
    told: Collection[str]
    """Ids of the messages that were told in this run."""
    agent: str
    clock: Clock


def answer_facts(graph: Graph, intake: Intake, state: StateSnapshot, over: Round) -> Iterator[Fact]:
    """The answer in the state of a graph that has ended.

    If the graph has dropped the user's message, only the messages that were told in this run are known to belong to
    it. What a function of the functional API returns belongs to it anyway.
    """
    said = _messages(state.values, intake.key) if intake.form == "messages" else []
    whole, ts = isinstance(graph.output_channels, str), over.clock.now()
    if (answer := _answer(said, over.asked, None if whole else over.told)) is not None:
        documents = tuple(map(str, answer.response_metadata.get(DOCUMENTS) or ()))
        yield AnswerGiven(ts, plain_id(answer.id), str(answer.text), answer.name or over.agent, documents)
    elif not said or not whole:
        output = _output(graph, state.values, but=intake.key if intake.form == "messages" else None)
        if output is not None:
            yield OutputGiven(ts, output)


def _messages(values: Any, key: str | None) -> list[BaseMessage]:
    """The conversation in a state; or in what a function of the functional API returned, which has any shape."""
    if isinstance(values, Mapping):
        found = values.get(key or "messages", [])
        return messages_in(found if isinstance(found, list) else [found])
    given = values if isinstance(values, list) else [values]
    return [message for message in given if isinstance(message, BaseMessage)]


def _answer(said: Sequence[BaseMessage], asked: str, told: Collection[str] | None) -> AIMessage | None:
    place = next((n for n, message in enumerate(said) if message.id == asked), None)
    for message in reversed(said if place is None else said[place + 1 :]):
        if isinstance(message, AIMessage) and message.text:
            is_ours = place is not None or told is None or plain_id(message.id) in told
            return message if is_ours else None
    return None


def _output(graph: Graph, values: Any, *, but: str | None) -> Any:
    """What the output schema names of the state, without the conversation; a single text is given as it is."""
    channels = graph.output_channels
    if isinstance(channels, str) or not isinstance(values, Mapping):
        return values
    wanted = [key for key in channels if key != but]
    output = {key: values[key] for key in wanted if key in values}
    if len(wanted) == 1 and isinstance(output.get(wanted[0]), str):
        return output[wanted[0]]
    return output if output or but is None else None
