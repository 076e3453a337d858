"""Messages of a run that was cut off are given to the graph again, whatever its state is."""

from collections.abc import Callable
from typing import TypedDict

import pytest
from langchain_core.messages import AnyMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.func import entrypoint

from stellwerk.agents.graphs.input import Graph, find_input
from stellwerk.agents.runtime.conversation import Turn
from stellwerk.agents.runtime.runnable import RunnableAgent
from stellwerk.envelope.model import Message
from stellwerk.envelope.payloads import Said, TextPart
from stellwerk.ids import SystemClock
from stellwerk.stream.facts import Fact, OutputGiven


class Conversation(TypedDict):
    messages: list[AnyMessage]


def counting_list() -> Graph:
    @entrypoint(checkpointer=InMemorySaver())
    async def count(messages: list[AnyMessage]) -> int:
        return len(messages)

    return count


def counting_dict() -> Graph:
    @entrypoint(checkpointer=InMemorySaver())
    async def count(given: Conversation) -> int:
        return len(given["messages"])

    return count


@pytest.mark.parametrize("made", [counting_list, counting_dict])
async def test_a_function_that_returns_a_number_gets_the_message_that_was_cut_off(made: Callable[[], Graph]) -> None:
    count = made()
    agent = RunnableAgent("count", count, graph_input=find_input(count, name="count", key=None))
    facts: list[Fact] = []
    await agent.drive(Turn("session", message_id="m1", text="one"), facts.append, SystemClock())
    said = Said(message_id="m2", role="user", content=[TextPart(text="two")], status="first")
    lost = [Message(ts=0.0, parent_id=None, call_id="call", seq=0, payload=said)]
    await agent.drive(Turn("session", message_id="m3", text="three", unheard=lost), facts.append, SystemClock())
    assert [fact.value for fact in facts if isinstance(fact, OutputGiven)] == [1, 2]
