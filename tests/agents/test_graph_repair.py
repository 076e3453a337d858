"""Tool calls that a run left without a result get one in the state of an own graph, in front of the next message."""

import operator
from collections.abc import Sequence
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import interrupt

from stellwerk.agents.graphs.input import find_input
from stellwerk.agents.runtime.runnable import RunnableAgent
from stellwerk.envelope.model import Warning
from tests.agents.agent_runs import Conversation, asks, result

THREAD: Any = {"configurable": {"thread_id": "s1"}}


def calling(*ids: str) -> AIMessage:
    calls: list[Any] = [{"name": f"tool_{each}", "args": {}, "id": each} for each in ids]
    return AIMessage("", id=f"ai-{'-'.join(ids)}", tool_calls=calls)


def kinds(messages: Sequence[BaseMessage]) -> list[str]:
    return [message.tool_call_id if isinstance(message, ToolMessage) else message.type for message in messages]


class Sums(TypedDict):
    messages: Annotated[list[AnyMessage], operator.add]


class Plain(TypedDict):
    messages: list[AnyMessage]


def speaking(schema: type = MessagesState) -> tuple[Conversation, Any]:
    """A graph that says how many messages it sees; and its graph, to prepare a state."""
    builder: Any = StateGraph(schema)
    builder.add_node("speak", lambda state: {"messages": [AIMessage(f"{len(state['messages'])} seen")]})
    graph = builder.add_edge(START, "speak").compile(checkpointer=InMemorySaver())
    return Conversation(RunnableAgent("own", graph, graph_input=find_input(graph, name="own"))), graph


async def left_with(graph: Any, *messages: BaseMessage) -> None:
    await graph.aupdate_state(THREAD, {"messages": list(messages)}, as_node="speak")


@pytest.mark.parametrize("schema", [MessagesState, Sums], ids=["add_messages", "operator.add"])
async def test_a_missing_result_goes_between_its_call_and_the_next_message(schema: type) -> None:
    session, graph = speaking(schema)
    await left_with(graph, HumanMessage("x"), calling("a", "b"), ToolMessage("done", tool_call_id="a"))
    told = await session.send("hello?")
    assert kinds((await graph.aget_state(THREAD)).values["messages"]) == ["human", "ai", "a", "b", "human", "ai"]
    (warned,) = [e.payload for e in told if isinstance(e, Warning)]
    assert (warned.code, warned.message.endswith("given one: tool_b")) == ("tool_calls_closed", True)


async def test_a_gap_that_an_earlier_version_left_behind_is_filled_where_it_is() -> None:
    session, graph = speaking()
    await left_with(graph, HumanMessage("x", id="h1"), calling("a"), HumanMessage("y", id="h2"), calling("b"))
    assert result(await session.send("hello?")) == "7 seen"
    messages = (await graph.aget_state(THREAD)).values["messages"]
    assert kinds(messages) == ["human", "ai", "a", "human", "ai", "b", "human", "ai"]
    assert [message.id for message in messages if message.id in ("h1", "h2", "ai-a", "ai-b")] == [
        "h1",
        "ai-a",
        "h2",
        "ai-b",
    ]


async def test_a_conversation_that_is_whole_stays_as_it_is() -> None:
    session, graph = speaking()
    await left_with(graph, HumanMessage("x"), calling("a"), ToolMessage("done", tool_call_id="a"))
    told = await session.send("hello?")
    assert kinds((await graph.aget_state(THREAD)).values["messages"]) == ["human", "ai", "a", "human", "ai"]
    assert not [e for e in told if isinstance(e, Warning)]


async def test_a_graph_whose_input_replaces_its_messages_is_left_alone() -> None:
    session, graph = speaking(Plain)
    await left_with(graph, HumanMessage("x"), calling("a"))
    assert result(await session.send("hello?")) == "1 seen"


async def test_after_an_answer_that_a_graph_cannot_take_the_next_message_works() -> None:
    def decide(state: MessagesState) -> Any:
        decision: Any = interrupt({"question": "May it run?"})
        return {"messages": [ToolMessage(decision["type"], tool_call_id="a")]}

    def ask(state: MessagesState) -> Any:
        last = state["messages"][-1]
        return {"messages": [calling("a") if last.text == "do it" else AIMessage(str(kinds(state["messages"])))]}

    builder: Any = StateGraph(MessagesState)
    builder.add_node("ask", ask)
    builder.add_node("decide", decide)
    builder.add_edge(START, "ask")
    builder.add_conditional_edges("ask", lambda s: "decide" if s["messages"][-1].tool_calls else "__end__")
    graph = builder.compile(checkpointer=InMemorySaver())
    session = Conversation(RunnableAgent("own", graph, graph_input=find_input(graph, name="own")))
    (question,) = asks(await session.send("do it"))
    with pytest.raises(TypeError):
        await session.answer({question.payload.ask_id: "hmm, what does that do?"})
    session.log.clear()
    assert result(await session.send("well?")) == "['human', 'ai', 'a', 'human']"
