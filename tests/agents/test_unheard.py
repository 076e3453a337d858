"""Messages of a run that was cut off are given to the graph again, whatever its state is."""

from collections.abc import Callable
from typing import TypedDict

import pytest
from langchain_core.messages import AnyMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.func import entrypoint

from stellwerk.agents.graph_input import Graph, find_intake
from stellwerk.agents.runnable import RunnableAgent
from stellwerk.agents.turn import Turn, UnheardMessage
from stellwerk.ids import SystemClock
from stellwerk.spec.chat import ChatMessage
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
    agent = RunnableAgent("count", count, intake=find_intake(count, name="count", key=None))
    told: list[Fact] = []
    await agent.drive(Turn("session", message_id="m1", text="one"), told.append, SystemClock())
    lost = [UnheardMessage("m2", ChatMessage(content="two"))]
    await agent.drive(Turn("session", message_id="m3", text="three", unheard=lost), told.append, SystemClock())
    assert [fact.value for fact in told if isinstance(fact, OutputGiven)] == [1, 2]
