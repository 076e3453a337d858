"""A graph with ``checkpointer=True`` that a node calls: it keeps its state, and is in the tree like any other."""

from typing import Any

from langchain_core.messages import AIMessage
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import interrupt

from stellwerk.envelope.model import LlmStart, ToolStart
from tests.agents.agent_runs import asks, ended, ends, result, starts
from tests.agents.test_graph_answers import Builder, model, served, steps


async def think(state: MessagesState) -> dict[str, Any]:
    return {"messages": [await model(f"Thought {len(state['messages'])}.").ainvoke("x")]}


def ask(state: MessagesState) -> dict[str, Any]:
    return {"messages": [AIMessage(f"You said {interrupt('Which?')}.")]}


def calling(*nodes: tuple[str, Any]) -> Builder:
    child: Any = StateGraph(MessagesState).add_sequence(list(nodes)).add_edge(START, nodes[0][0])
    child = child.compile(checkpointer=True, name="child")

    async def call(state: MessagesState) -> dict[str, Any]:
        done = await child.ainvoke({"messages": [state["messages"][-1].text]})
        return {"messages": [AIMessage(done["messages"][-1].text)]}

    return steps(MessagesState, ("call", call))


async def test_it_is_a_graph_in_the_tree_and_its_model_calls_belong_to_it() -> None:
    session = served(calling(("think", think)))
    for answer in ("Thought 1.", "Thought 3."):
        told = await session.send("hello")
        (graph,) = starts(told)
        assert (graph.payload.kind, graph.payload.tool_name, graph.payload.node) == ("graph", "child", "call")
        (call,) = [e for e in told if isinstance(e, LlmStart)]
        assert call.parent_id == graph.call_id
        assert [e.payload.status for e in ends(told)] == ["ok"]
        assert result(told) == answer, "it has the messages of the round before"


async def test_its_question_pauses_its_call_which_goes_on_with_the_answer() -> None:
    session = served(calling(("ask", ask), ("think", think)))
    first = await session.send("hello")
    (graph,), (asked,) = starts(first), asks(first)
    assert asked.parent_id == graph.call_id
    told = await session.answer({asked.payload.ask_id: "this"})
    assert (ended(told), result(told)) == ("completed", "Thought 2.")
    assert [e for e in told if isinstance(e, ToolStart)] == [], "the same call goes on"
    assert [e.call_id for e in ends(told)] == [graph.call_id]
