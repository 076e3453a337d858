"""The source on real graphs: every fact once, in order, with the right parent, whatever the style of the node."""

import asyncio
from itertools import groupby
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage
from langchain_core.tools import BaseTool, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import MessagesState, StateGraph

from stellwerk.agents.runtime.conversation import Turn
from stellwerk.agents.runtime.runnable import RunnableAgent
from stellwerk.agents.scripted.model import ScriptedModel
from stellwerk.agents.tools.builtin import get_weather
from stellwerk.agents.tools.call import langchain_tool
from stellwerk.envelope.model import LlmToken, Message, type_of
from stellwerk.spec.script import ScriptRule, ScriptStep
from stellwerk.stream.facts import Fact
from stellwerk.testing.order import order_problems
from tests.agents.agent_runs import run_graph, text, types
from tests.samples import SteadyClock

Node = Any


def model(*steps: ScriptStep) -> ScriptedModel:
    return ScriptedModel(script=[ScriptRule(steps=list(steps))])


def agent(chat: ScriptedModel, tools: list[BaseTool], name: str = "boss", **options: Any) -> Any:
    return create_agent(chat, tools, name=name, checkpointer=options.get("checkpointer"))


async def test_a_run_of_an_agent_with_a_tool_is_recorded_completely() -> None:
    chat = model(ScriptStep(say="Look. ", call="get_weather", args={"city": "Ulm"}), ScriptStep(say="Sunny it is."))
    envelopes = await run_graph(agent(chat, [langchain_tool(get_weather)], checkpointer=InMemorySaver()))
    assert order_problems(envelopes) == []
    assert text(envelopes) == "Look. Sunny it is."
    assert [t for t, _ in groupby(types(envelopes)) if t != "llm_token"] == [
        *("run_start", "llm_start", "tool_update", "llm_end", "message", "tool_start", "tool_end"),
        *("llm_start", "llm_end", "message", "run_end"),
    ]


@pytest.mark.requirement("000.stream.outer-is-the-only-source")
async def test_two_sub_agents_at_once_each_have_their_own_calls() -> None:
    inner = agent(
        model(ScriptStep(call="get_weather", args={"city": "Ulm"}), ScriptStep(say="inner")),
        [langchain_tool(get_weather)],
        "researcher",
    )

    @tool
    async def research(topic: str) -> str:
        "Delegate a topic."
        answers = await asyncio.gather(*(inner.ainvoke({"messages": [("user", topic)]}) for _ in range(2)))
        return " ".join(str(answer["messages"][-1].text) for answer in answers)

    envelopes = await run_graph(
        agent(
            model(ScriptStep(call="research", args={"topic": "x"}), ScriptStep(say="outer")),
            [research],
            checkpointer=InMemorySaver(),
        )
    )
    assert order_problems(envelopes) == []
    outer = next(e for e in envelopes if type_of(e) == "tool_start")
    inside = [e for e in envelopes if e.parent_id == outer.call_id]
    assert [t for t in types(inside) if t.endswith("_start")].count("llm_start") == 4
    assert {e.agent for e in inside} == {"researcher"}


async def says_by_ainvoke(state: MessagesState) -> Any:
    return {"messages": [await model(ScriptStep(say="one two")).ainvoke(state["messages"])]}


async def says_by_astream(state: MessagesState) -> Any:
    whole = None
    async for chunk in model(ScriptStep(say="one two")).astream(state["messages"]):
        whole = chunk if whole is None else whole + chunk
    return {"messages": [whole]}


def says_by_sync_invoke(state: MessagesState) -> Any:
    return {"messages": [model(ScriptStep(say="one two")).invoke(state["messages"])]}


def says_without_a_model(state: MessagesState) -> Any:
    return {"messages": [AIMessage("one two", id="own")]}


@pytest.mark.parametrize("node", [says_by_ainvoke, says_by_astream, says_by_sync_invoke], ids=lambda n: n.__name__)
async def test_a_node_gives_tokens_however_it_calls_its_model(node: Node) -> None:
    envelopes = await run_graph(graph_of(node))
    assert order_problems(envelopes) == []
    assert text(envelopes) == "one two"
    assert len([e for e in envelopes if isinstance(e, LlmToken)]) == 2


async def test_a_message_without_a_model_is_the_answer_all_the_same() -> None:
    envelopes = await run_graph(graph_of(says_without_a_model))
    assert types(envelopes) == ["run_start", "message", "run_end"]
    assert isinstance(envelopes[1], Message)
    assert envelopes[1].payload.status == "last"


def graph_of(node: Node) -> Any:
    builder = StateGraph(MessagesState)
    builder.add_node("say", node)
    builder.set_entry_point("say")
    return builder.compile(checkpointer=InMemorySaver())


async def test_a_tool_that_raises_is_closed_before_the_graph_fails() -> None:
    @tool
    def broken() -> str:
        "Always fails."
        raise ValueError("boom")

    envelopes: list[Fact] = []
    graph = agent(model(ScriptStep(call="broken")), [broken], checkpointer=InMemorySaver())
    with pytest.raises(ValueError, match="boom"):
        await RunnableAgent("boss", graph).drive(Turn("thread", 1, "m1", "x"), envelopes.append, SteadyClock())
    assert "CallFailed" in [type(fact).__name__ for fact in envelopes]
