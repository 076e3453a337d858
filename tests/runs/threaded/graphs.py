"""Graphs whose plain functions call graphs: a ``def`` node or tool runs in a thread, and calls ``invoke`` there."""

import operator
import time
from pathlib import Path
from typing import Annotated, Any, TypedDict

from langchain.agents import create_agent
from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import interrupt

from stellwerk.agents.scripted.model import ScriptedModel
from stellwerk.spec.script import ScriptRule, ScriptStep

HERE = Path(__file__).parent
"""The test copies this file into a folder of its own, where the gate is."""


class Words(TypedDict):
    words: Annotated[list[str], operator.add]


def note(line: str) -> None:
    with (HERE / "done.txt").open("a") as file:
        file.write(f"{line}\n")


def sequence(*nodes: Any, schema: Any = Words) -> StateGraph[Any, Any, Any, Any]:
    builder: StateGraph[Any, Any, Any, Any] = StateGraph(schema)
    builder.add_sequence([(node.__name__, node) for node in nodes])
    return builder.add_edge(START, nodes[0].__name__)


def outer(node: Any) -> Any:
    return sequence(node, schema=MessagesState).compile()


def said(given: dict[str, Any]) -> dict[str, Any]:
    return {"messages": [AIMessage(" ".join(given["words"]))]}


# An inner graph of two steps, called in each way that there is.


def one(state: Words) -> dict[str, Any]:
    return {"words": ["one"]}


def two(state: Words) -> dict[str, Any]:
    return {"words": ["two"]}


def calls(state: MessagesState) -> dict[str, Any]:
    return said(sequence(one, two).compile().invoke({"words": []}))


async def calls_async(state: MessagesState) -> dict[str, Any]:
    return said(await sequence(one, two).compile().ainvoke({"words": []}))


plain, plain_async = outer(calls), outer(calls_async)

remembering = sequence(one).compile(checkpointer=True)


def calls_remembering(state: MessagesState) -> dict[str, Any]:
    return said(remembering.invoke({"words": []}))


remembers = outer(calls_remembering)

stateless = sequence(one, two).compile(checkpointer=False)


def calls_stateless(state: MessagesState) -> dict[str, Any]:
    return said(stateless.invoke({"words": []}))


async def calls_stateless_async(state: MessagesState) -> dict[str, Any]:
    return said(await stateless.ainvoke({"words": []}))


forgets, forgets_async = outer(calls_stateless), outer(calls_stateless_async)


def streams_inner(state: MessagesState) -> dict[str, Any]:
    parts = list(sequence(one, two).compile().stream({"words": []}, stream_mode="updates"))
    return said({"words": [name for part in parts for name in part]})


streams = outer(streams_inner)


def level_two(state: Words) -> dict[str, Any]:
    return {"words": ["below:", *sequence(one, two).compile().invoke({"words": []})["words"]]}


def level_one(state: Words) -> dict[str, Any]:
    return {"words": sequence(level_two).compile().invoke({"words": []})["words"]}


def level_zero(state: MessagesState) -> dict[str, Any]:
    return said(sequence(level_one).compile().invoke({"words": []}))


async def level_two_async(state: Words) -> dict[str, Any]:
    return {"words": ["below:", *(await sequence(one, two).compile().ainvoke({"words": []}))["words"]]}


async def level_one_async(state: Words) -> dict[str, Any]:
    return {"words": (await sequence(level_two_async).compile().ainvoke({"words": []}))["words"]}


async def level_zero_async(state: MessagesState) -> dict[str, Any]:
    return said(await sequence(level_one_async).compile().ainvoke({"words": []}))


deep, deep_async = outer(level_zero), outer(level_zero_async)


def asks_user(state: Words) -> dict[str, Any]:
    return {"words": [f"you said {interrupt('Which one?')}"]}


def asking_node(state: MessagesState) -> dict[str, Any]:
    return said(sequence(one, asks_user, two).compile().invoke({"words": []}))


asks = outer(asking_node)


async def blocks_the_loop(state: MessagesState) -> dict[str, Any]:
    return said(sequence(one, two).compile().invoke({"words": []}))


on_loop = outer(blocks_the_loop)

# An agent in a tool, LangChain's pattern for sub-agents.


def scripted(*steps: ScriptStep) -> ScriptedModel:
    return ScriptedModel(script=[ScriptRule(steps=list(steps))])


@tool
def look_up(what: str) -> str:
    """Look something up."""
    return f"{what} is blue"


researcher = create_agent(
    scripted(ScriptStep(say="I look. ", call="look_up", args={"what": "the sky"}), ScriptStep(say="{result}")),
    [look_up],
    name="researcher",
)


boss = scripted(ScriptStep(say="I ask. ", call="research"), ScriptStep(say="They say: {result}"))


@tool("research")
def ask_researcher() -> str:
    """Ask the researcher."""
    given: Any = {"messages": [("user", "Go.")]}
    return str(researcher.invoke(given)["messages"][-1].text)


@tool("research")
async def ask_researcher_async() -> str:
    """Ask the researcher."""
    given: Any = {"messages": [("user", "Go.")]}
    return str((await researcher.ainvoke(given))["messages"][-1].text)


agents = create_agent(boss, [ask_researcher], name="boss")
agents_async = create_agent(boss, [ask_researcher_async], name="boss")

# An inner graph that waits in its second step until the test opens a gate.


def begins(state: Words) -> dict[str, Any]:
    note("begins")
    return {"words": ["begun"]}


def waits(state: Words) -> dict[str, Any]:
    note("waits")
    while not (HERE / "gate").exists():
        time.sleep(0.01)
    note("went on")
    return {"words": ["gone on"]}


def ends(state: Words) -> dict[str, Any]:
    note("ends")
    return {"words": ["ended"]}


def calls_gated(state: MessagesState) -> dict[str, Any]:
    note("calls")
    try:
        return said(sequence(begins, waits, ends).compile().invoke({"words": []}))
    finally:
        note("left")


gated = outer(calls_gated)


def fails(state: MessagesState) -> dict[str, Any]:
    while not (HERE / "done.txt").read_text().endswith("waits\n"):
        time.sleep(0.01)
    raise ValueError("beside it")


side_by_side: StateGraph[Any, Any, Any, Any] = StateGraph(MessagesState)
side_by_side.add_node(calls_gated)
side_by_side.add_node(fails)
side_by_side.add_edge(START, "calls_gated").add_edge(START, "fails")
beside = side_by_side.compile()
