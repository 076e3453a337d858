"""A graph of the operator's own, storing with our saver: nothing about it changes, and its types come back."""

import operator
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypedDict

import pytest
from langchain.agents import create_agent
from langchain.agents.structured_output import ToolStrategy
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.cache.memory import InMemoryCache
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.func import entrypoint, task
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.store.memory import InMemoryStore
from langgraph.types import CachePolicy, Command
from pydantic import BaseModel

from stellwerk.agents.checkpoints.saver import DurableSaver
from stellwerk.agents.graphs.import_reference import load_reference
from stellwerk.agents.graphs.registry import GraphEntry, adopted, open_graph
from stellwerk.agents.scripted.model import ScriptedModel
from stellwerk.errors import CorruptStore
from stellwerk.spec.script import ScriptRule, ScriptStep

THREAD: Any = {"configurable": {"thread_id": "thread"}}
DESK = f"{Path(__file__).parents[2] / 'examples/own-graph/desk.py'}:graph"


class Colour(Enum):
    BLUE = "blue"


class Size(NamedTuple):
    wide: int
    high: int


@dataclass
class Part:
    name: str
    size: Size


class Order(BaseModel):
    parts: list[Part]
    colour: Colour = Colour.BLUE


class Kinds(TypedDict):
    order: Order
    parts: Annotated[Sequence[Part], operator.add]
    sizes: dict[str, list[Size]]
    colour: Colour | None


PART = Part("leg", Size(1, 70))
VALUES: dict[str, Any] = {
    "order": Order(parts=[PART]),
    "parts": [PART],
    "sizes": {"all": [Size(1, 2), Size(3, 4)]},
    "colour": Colour.BLUE,
}


def adopt(graph: Any, saver: DurableSaver) -> Any:
    return adopted(graph, name="own", saver=saver, store=InMemoryStore())


def one_node(schema: type, node: Any) -> StateGraph[Any, Any, Any, Any]:
    builder: StateGraph[Any, Any, Any, Any] = StateGraph(schema)
    builder.add_node("node", node)
    builder.add_edge(START, "node")
    return builder


async def test_every_type_that_the_schema_names_comes_back_as_itself(saver: DurableSaver) -> None:
    graph = adopt(one_node(Kinds, lambda state: VALUES).compile(), saver)
    await graph.ainvoke({"parts": []}, THREAD)
    assert (await graph.aget_state(THREAD)).values == VALUES


async def test_a_builder_that_was_never_compiled_will_do(saver: DurableSaver) -> None:
    graph = adopt(one_node(Kinds, lambda state: VALUES), saver)
    await graph.ainvoke({"parts": []}, THREAD)
    assert (await graph.aget_state(THREAD)).values == VALUES


async def test_types_of_a_graph_inside_are_allowed_too(saver: DurableSaver) -> None:
    inner = one_node(Kinds, lambda state: VALUES)
    inner.add_node("again", lambda state: {"parts": [Part(state["parts"][0].name, Size(9, 9))]})
    inner.add_edge("node", "again")
    sub = inner.compile().with_config({"tags": ["inner"]})  # a copy, in which LangGraph forgets its types

    async def outer(state: MessagesState) -> dict[str, Any]:
        made = await sub.ainvoke({"parts": []})
        return {"messages": [AIMessage(made["parts"][1].name)]}

    graph = adopt(one_node(MessagesState, outer).compile(), saver)
    assert (await graph.ainvoke({"messages": [("user", "x")]}, THREAD))["messages"][-1].text == "leg"


class Verdict(BaseModel):
    good: bool
    why: Part | None = None


@pytest.mark.parametrize("wanted", [Verdict, ToolStrategy(Verdict | Order)], ids=["a model", "one of two"])
async def test_the_response_format_of_an_agent_comes_back_as_itself(saver: DurableSaver, wanted: Any) -> None:
    steps = [ScriptStep(call="Verdict", args={"good": True, "why": {"name": "leg", "size": [1, 2]}})]
    model = ScriptedModel(script=[ScriptRule(steps=steps)])
    graph = adopt(create_agent(model, [], response_format=wanted), saver)
    await graph.ainvoke({"messages": [("user", "x")]}, THREAD)
    state = (await graph.aget_state(THREAD)).values
    assert state["structured_response"] == Verdict(good=True, why=Part("leg", Size(1, 2)))


class Loose(TypedDict):
    anything: Any


async def test_a_type_that_no_schema_names_fails_the_run_by_its_name(saver: DurableSaver) -> None:
    graph = adopt(one_node(Loose, lambda state: {"anything": Colour.BLUE}).compile(), saver)
    with pytest.raises(CorruptStore, match=f"the type {__name__}.Colour is not allowed .* name it in the state schema"):
        await graph.ainvoke({"anything": 1}, THREAD)


async def test_a_graph_stops_at_its_breakpoints(saver: DurableSaver) -> None:
    builder = one_node(MessagesState, lambda state: {"messages": [AIMessage("one")]})
    builder.add_node("two", lambda state: {"messages": [AIMessage("two")]})
    builder.add_node("three", lambda state: {"messages": [AIMessage("three")]})
    builder.add_edge("node", "two")
    builder.add_edge("two", "three")
    graph = adopt(builder.compile(interrupt_before=["two"], interrupt_after=["two"]), saver)
    await graph.ainvoke({"messages": [("user", "x")]}, THREAD)
    assert (await graph.aget_state(THREAD)).next == ("two",)
    await graph.ainvoke(None, THREAD)
    assert (await graph.aget_state(THREAD)).next == ("three",)
    everywhere = adopt(builder.compile(interrupt_before="*"), saver)
    assert everywhere.interrupt_before_nodes == "*"


async def test_what_its_owner_set_on_a_graph_stays(saver: DurableSaver) -> None:
    @dataclass
    class Context:
        who: str

    cache: InMemoryCache[Any] = InMemoryCache()
    builder = StateGraph(MessagesState, context_schema=Context)
    builder.add_node("node", lambda state: {}, cache_policy=CachePolicy())
    builder.add_edge(START, "node")
    theirs = builder.compile(InMemorySaver(), cache=cache, debug=True, name="theirs").with_config(recursion_limit=7)
    graph = adopt(theirs, saver)
    assert (graph.name, graph.cache, graph.debug, graph.context_schema) == ("own", cache, True, Context)
    assert graph.config == theirs.config
    assert isinstance(graph.checkpointer, DurableSaver)
    below = adopted(theirs, name="own", saver=None, store=InMemoryStore())
    assert below.checkpointer is None, "inside of another graph it stores with that one"


async def test_a_default_error_handler_is_no_obstacle(saver: DurableSaver) -> None:
    """LangGraph cannot compile such a builder twice; a canary for the private name that we need."""

    def fails(state: MessagesState) -> dict[str, Any]:
        raise ValueError("boom")

    builder = one_node(MessagesState, fails)
    builder.set_node_defaults(error_handler=lambda state: {"messages": [AIMessage("caught")]})
    graph = adopt(builder.compile(), saver)
    assert (await graph.ainvoke({"messages": [("user", "x")]}, THREAD))["messages"][-1].text == "caught"
    assert adopt(builder, saver), "and once more"


async def test_a_graph_of_the_functional_api_remembers(saver: DurableSaver) -> None:
    @task
    async def shorten(text: str) -> str:
        return text[:3]

    @entrypoint()
    async def remember(text: str, *, previous: list[Part] | None = None) -> list[Part]:
        return [*(previous or []), Part(await shorten(text), Size(1, 1))]

    graph = adopt(remember, saver)
    await graph.ainvoke("lamps", THREAD)
    assert await graph.ainvoke("chairs", THREAD) == [Part("lam", Size(1, 1)), Part("cha", Size(1, 1))]


async def test_the_example_asks_before_it_sells_and_goes_on_where_it_asked(saver: DurableSaver) -> None:
    async with AsyncExitStack() as resources:
        theirs = await open_graph(GraphEntry("desk", load_reference(DESK), DESK), resources, store=InMemoryStore())
    graph = adopt(theirs, saver)
    asked = await graph.ainvoke({"messages": [HumanMessage("A desk and a lamp, please.")]}, THREAD)
    assert asked["__interrupt__"][0].value == "That would be 320 euros. Is it all right?"
    done = await graph.ainvoke(Command(resume="yes"), THREAD)
    assert done["messages"][-1].text == "Noted: lamp, desk, 320 euros."
    await graph.ainvoke({"messages": [HumanMessage("And a chair?")]}, THREAD)
    state = await graph.aget_state(THREAD)
    assert [type(item).__name__ for item in state.values["items"]] == ["Item"]
    assert state.values["quoted"] == ["lamp", "desk", "chair"]
    assert state.next == ()
