"""Hand-written graphs of any shape, run as the server runs them: each is told whole, in a legal order."""

import operator
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, TypedDict

import pytest
from langchain_core.messages import AIMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.config import get_stream_writer
from langgraph.func import entrypoint, task
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.runtime import Runtime
from langgraph.store.memory import InMemoryStore
from langgraph.types import Command, Send, interrupt

from stellwerk.agents.checkpoints.serde import StrictSerializer
from stellwerk.agents.graphs.input import find_input
from stellwerk.agents.graphs.registry import adopted
from stellwerk.agents.runtime.runnable import RunnableAgent
from stellwerk.agents.scripted.model import ScriptedModel
from stellwerk.envelope.model import AskUser, Envelope, LlmToken, Message, RunEnd, Update
from stellwerk.envelope.payloads import Answered
from stellwerk.spec.model import ChatMessage
from stellwerk.spec.script import ScriptRule, ScriptStep
from stellwerk.testing.order import order_problems

Builder = StateGraph[Any, Any, Any, Any]


def model(say: str) -> ScriptedModel:
    return ScriptedModel(script=[ScriptRule(steps=[ScriptStep(say=say)])])


def running(graph: Any) -> RunnableAgent:
    ours = adopted(graph, name="own", saver=InMemorySaver(serde=StrictSerializer()), store=InMemoryStore())
    return RunnableAgent("own", ours, graph_input=find_input(ours, name="own"))


async def story(agent: RunnableAgent, text: str = "hello", **more: Any) -> list[Envelope]:
    messages = [] if more else [ChatMessage(content=text)]
    told = [envelope async for envelope in agent.envelopes(messages, session_id="thread", **more)]
    assert order_problems([*more.get("history", []), *told]) == []
    return told


async def state_of(agent: RunnableAgent) -> Any:
    return (await agent.graph.aget_state({"configurable": {"thread_id": "thread"}})).values


def said(told: list[Envelope]) -> list[str]:
    return ["".join(p.text for p in e.payload.content if hasattr(p, "text")) for e in told if isinstance(e, Message)]


def tokens(told: list[Envelope]) -> str:
    return "".join(e.payload.text for e in told if isinstance(e, LlmToken))


def deltas(told: list[Envelope]) -> list[tuple[str, Any]]:
    return [(e.payload.node, e.payload.delta) for e in told if isinstance(e, Update)]


def ended(told: list[Envelope]) -> str:
    assert isinstance(told[-1], RunEnd)
    return told[-1].payload.status


class Notes(MessagesState):
    notes: Annotated[list[str], operator.add]
    length: int


async def asks_a_model(state: Notes) -> dict[str, Any]:
    return {"messages": [await model("one two").ainvoke(state["messages"])], "notes": ["asked"]}


async def listens_to_a_model(state: Notes) -> dict[str, Any]:
    pieces = [chunk.text async for chunk in model("three four").astream(state["messages"])]
    return {"messages": [AIMessage("".join(pieces))], "notes": ["heard"]}


def needs_no_model(state: Notes) -> dict[str, Any]:
    return {"length": len(state["notes"]), "messages": [AIMessage("done")]}


def notebook() -> Builder:
    """Keys of its own with reducers, nodes in every style, and a graph inside that keeps its notes to itself."""
    inner = Builder(Notes, output_schema=MessagesState)
    inner.add_sequence([asks_a_model, listens_to_a_model])
    inner.add_edge(START, "asks_a_model")
    outer = Builder(Notes)
    outer.add_node("inside", inner.compile())
    outer.add_node("note", lambda state: {"notes": ["outside"]})
    outer.add_node(needs_no_model)
    outer.add_edge(START, "inside")
    outer.add_edge("inside", "note")
    outer.add_edge("note", "needs_no_model")
    return outer


async def test_own_keys_with_reducers_two_nodes_and_a_graph_inside() -> None:
    agent = running(notebook().compile())
    told = await story(agent)
    assert tokens(told) == "one twothree four"
    outside = [e.payload.delta for e in told if isinstance(e, Update) and not e.payload.namespace]
    assert outside == [{"notes": ["outside"]}, {"length": 1}]
    assert said(told)[-1] == "done"
    await story(agent)
    assert (await state_of(agent))["length"] == 2, "the second round goes on with the state of the first"


async def test_being_listened_to_changes_nothing_in_a_graph() -> None:
    agent, alone = running(notebook().compile()), notebook().compile()
    await story(agent)
    heard, unheard = await state_of(agent), await alone.ainvoke({"messages": [("user", "hello")]})
    assert {key: heard[key] for key in ("notes", "length")} == {key: unheard[key] for key in ("notes", "length")}
    assert [m.text for m in heard["messages"]] == [m.text for m in unheard["messages"]]


@pytest.mark.parametrize("kind", ["async", "sync"])
async def test_a_node_may_say_where_to_go_next(kind: str) -> None:
    def decide(state: Notes) -> Command[Literal["right"]]:
        return Command(goto="right", update={"notes": ["went right"]})

    async def decide_later(state: Notes) -> Command[Literal["right"]]:
        return decide(state)

    builder = Builder(Notes)
    builder.add_node("decide", decide if kind == "sync" else decide_later)
    builder.add_node("right", lambda state: {"messages": [AIMessage("right")]})
    builder.add_node("left", lambda state: {"messages": [AIMessage("left")]})
    builder.add_edge(START, "decide")
    told = await story(running(builder))
    assert deltas(told) == [("decide", {"notes": ["went right"]}), ("right", {})]
    assert said(told)[-1] == "right"


class Fan(TypedDict):
    topic: str
    found: Annotated[list[str], operator.add]


async def test_a_graph_may_fan_out_and_have_no_messages_at_all() -> None:
    async def search(given: Any) -> dict[str, Any]:
        answer = await model(f"found {given['place']}").ainvoke("where?")
        return {"found": [str(answer.text)]}

    builder: Any = StateGraph(Fan)
    builder.add_node("search", search)
    builder.add_conditional_edges(START, lambda state: [Send("search", {"place": place}) for place in "abc"])
    agent = running(builder.compile())
    told = await story(agent)
    assert sorted(delta["found"][0] for _, delta in deltas(told)) == ["found a", "found b", "found c"]
    assert await state_of(agent) == {"topic": "hello", "found": ["found a", "found b", "found c"]}


async def test_a_question_of_a_node_inside_is_asked_and_answered_and_nothing_runs_twice() -> None:
    ran: list[str] = []

    def before(state: Notes) -> dict[str, Any]:
        ran.append("before")
        return {"notes": ["before"]}

    def question(state: Notes) -> dict[str, Any]:
        return {"messages": [AIMessage(f"You said {interrupt('Which colour?')}.")]}

    inner = Builder(Notes)
    inner.add_sequence([before, question])
    inner.add_edge(START, "before")
    outer = Builder(Notes)
    outer.add_node("inside", inner.compile())
    outer.add_edge(START, "inside")
    agent = running(outer.compile())
    first = await story(agent)
    asked = next(e.payload for e in first if isinstance(e, AskUser))
    assert (asked.question, ended(first)) == ("Which colour?", "awaiting_user")
    second = await story(agent, history=first, answers={asked.ask_id: Answered(ask_id=asked.ask_id, text="blue")})
    assert said(second)[-1] == "You said blue."
    assert (ended(second), ran) == ("completed", ["before"])


@dataclass
class Context:
    tone: str = "calm"
    words: list[str] = field(default_factory=list)


async def test_a_graph_with_a_context_of_its_own_gets_its_defaults() -> None:
    def speak(state: Notes, runtime: Runtime[Context]) -> dict[str, Any]:
        return {"messages": [AIMessage(runtime.context.tone)]}

    builder = StateGraph(Notes, context_schema=Context)
    builder.add_node("speak", speak)
    builder.add_edge(START, "speak")
    assert said(await story(running(builder.compile())))[-1] == "calm"


async def test_custom_events_of_a_node_are_recorded() -> None:
    def working(state: Notes) -> dict[str, Any]:
        get_stream_writer()({"progress": 50})
        return {}

    builder = Builder(Notes)
    builder.add_node(working)
    builder.add_edge(START, "working")
    builder.add_edge("working", END)
    assert ended(await story(running(builder))) == "completed"


async def test_a_graph_of_the_functional_api_runs_as_well() -> None:
    @task
    async def ask(text: str) -> str:
        return str((await model("one two").ainvoke(text)).text)

    @entrypoint()
    async def pipeline(text: str) -> dict[str, Any]:
        return {"answer": await ask(text)}

    told = await story(running(pipeline))
    assert tokens(told) == "one two"
    assert ended(told) == "completed"
