"""Metering of graphs that others made: what they call is asked for and counted, on the loop and in threads."""

from typing import Any

import pytest
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph

from stellwerk.agents.graph_input import find_intake
from stellwerk.agents.metering import metering
from stellwerk.agents.models import EnvironmentKeys, chat_model
from stellwerk.agents.runnable import RunnableAgent
from stellwerk.envelope.model import LlmEnd, RunEnd, ToolStart
from stellwerk.ids import SystemClock
from stellwerk.tenants.ledger import Ledger, Meter, Spent
from stellwerk.tenants.limits import Limits
from tests.agents.driving import Conversation, say, scripted

MODEL = chat_model(scripted(say("one two three")), providers={}, keys=EnvironmentKeys({}))
done: list[str] = []


@tool
async def act(what: str) -> str:
    """Do something."""
    done.append(what)
    return what


async def on_the_loop(state: MessagesState) -> Any:
    return {"messages": [await MODEL.ainvoke(state["messages"])]}


def in_a_thread(state: MessagesState) -> Any:
    return {"messages": [MODEL.invoke(state["messages"])]}


async def acting(state: MessagesState) -> Any:
    await act.ainvoke({"what": "it"})
    return {}


def metered(limits: Limits) -> Meter:
    return Meter(Ledger(SystemClock(), limits), Spent(), SystemClock().steady())


def talking(*nodes: Any) -> Conversation:
    graph = StateGraph(MessagesState).add_sequence(nodes).add_edge(START, nodes[0].__name__)
    compiled = graph.compile(checkpointer=InMemorySaver())
    return Conversation(RunnableAgent("own", compiled, intake=find_intake(compiled, name="own")))


@pytest.mark.parametrize("node", [on_the_loop, in_a_thread])
async def test_each_model_call_of_anybodys_graph_counts_and_the_one_too_many_is_not_made(node: Any) -> None:
    meter = metered(Limits(steps=1))
    session = talking(node)
    with metering(meter):
        told = await session.send("go")
        (spent,) = [each.payload.usage for each in told if isinstance(each, LlmEnd)]
        assert spent is not None
        assert (meter.steps, meter.tokens) == (1, spent.input_tokens + spent.output_tokens)
        (end,) = [each.payload for each in await session.send("again") if isinstance(each, RunEnd)]
    assert (end.status, end.code) == ("failed", "quota_exceeded")
    assert meter.steps == 1


async def test_a_tool_that_may_not_be_called_is_not_begun() -> None:
    done.clear()
    with metering(metered(Limits(tokens=1))):
        told = await talking(on_the_loop, acting).send("go")
    assert [each.payload.code for each in told if isinstance(each, RunEnd)] == ["quota_exceeded"]
    assert (done, [each for each in told if isinstance(each, ToolStart)]) == ([], [])
