"""Quotas of an operator's graph: its calls are checked and counted, on the loop and in threads."""

from typing import Any

import pytest
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph

from stellwerk.agents.build.models import EnvironmentSecrets, chat_model
from stellwerk.agents.graphs.input import find_input
from stellwerk.agents.runtime.context import RunContext, running_in
from stellwerk.agents.runtime.runnable import RunnableAgent
from stellwerk.envelope.model import LlmEnd, RunEnd, ToolStart
from stellwerk.ids import SystemClock
from stellwerk.tenants.quotas import Limits, RunUsage, SessionUsage, TenantUsage
from tests.agents.agent_runs import Conversation, say, scripted

MODEL = chat_model(scripted(say("one two three")), providers={}, keys=EnvironmentSecrets({}))
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


def metered(limits: Limits) -> RunUsage:
    return RunUsage(TenantUsage(SystemClock(), limits), SessionUsage(), SystemClock().steady())


def conversation_with(*nodes: Any) -> Conversation:
    graph = StateGraph(MessagesState).add_sequence(nodes).add_edge(START, nodes[0].__name__)
    compiled = graph.compile(checkpointer=InMemorySaver())
    return Conversation(RunnableAgent("own", compiled, graph_input=find_input(compiled, name="own")))


@pytest.mark.parametrize("node", [on_the_loop, in_a_thread])
async def test_each_model_call_of_a_graph_counts_and_the_one_beyond_the_quota_is_not_made(node: Any) -> None:
    meter = metered(Limits(steps=1))
    session = conversation_with(node)
    with running_in(RunContext(usage=meter)):
        envelopes = await session.send("go")
        (spent,) = [each.payload.usage for each in envelopes if isinstance(each, LlmEnd)]
        assert spent is not None
        assert (meter.session.steps, meter.session.tokens) == (1, spent.input_tokens + spent.output_tokens)
        (end,) = [each.payload for each in await session.send("again") if isinstance(each, RunEnd)]
    assert (end.status, end.code) == ("failed", "quota_exceeded")
    assert meter.session.steps == 1


async def test_a_tool_call_beyond_the_quota_does_not_start() -> None:
    done.clear()
    with running_in(RunContext(usage=metered(Limits(tokens=1)))):
        envelopes = await conversation_with(on_the_loop, acting).send("go")
    assert [each.payload.code for each in envelopes if isinstance(each, RunEnd)] == ["quota_exceeded"]
    assert (done, [each for each in envelopes if isinstance(each, ToolStart)]) == ([], [])
