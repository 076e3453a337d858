"""Tools with effects outside of the server, each one line in a file; and a graph whose tool runs another graph."""

import asyncio
from pathlib import Path
from typing import Any, TypedDict

from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode

from stellwerk.agents.tools.spec import tool as our_tool

_EFFECTS = Path(__file__).parent / "effects"
"""The loop copies this file into a folder of its own."""
_WORK = 0.05


async def _do(what: str) -> None:
    wish, _, _ = what.partition("\n")  # a task says more than what was wished
    with _EFFECTS.open("ab", buffering=0) as effects:  # one write, which is done or not
        effects.write(f"order\t{wish}\n".encode())
    await asyncio.sleep(_WORK)


@our_tool(effects="write")
async def order(what: str) -> str:
    """Order something; twice would be once too often."""
    await _do(what)
    return f"{what} is ordered"


tools = [order]


@tool("order")
async def receipt(what: str) -> str:
    """The same, in a graph of strangers."""
    await _do(what)
    return f"{what} is ordered"


class Load(TypedDict):
    what: str


async def first(state: Load) -> Load:
    await receipt.ainvoke({"what": f"first {state['what']}"})
    return state


async def second(state: Load) -> Load:
    await receipt.ainvoke({"what": f"second {state['what']}"})
    return state


inner: Any = StateGraph(Load).add_node(first).add_node(second).add_edge(START, "first").add_edge("first", "second")
inner = inner.compile(name="inner")


@tool
async def move(what: str) -> str:
    """Move something by a graph."""
    await inner.ainvoke({"what": what})
    return f"{what} is moved"


def model(state: MessagesState) -> dict[str, Any]:
    asked = state["messages"][-1]
    call = {"name": "move", "args": {"what": str(asked.text)}, "id": f"call-{asked.id}", "type": "tool_call"}
    return {"messages": [AIMessage("", tool_calls=[call])]}


async def in_node(state: MessagesState) -> dict[str, Any]:
    asked = next(m for m in reversed(state["messages"]) if m.type == "human")
    await inner.ainvoke({"what": f"node {asked.text}"})
    return {"messages": [AIMessage(f"Done: {asked.text}")]}


graph = StateGraph(MessagesState).add_node(model).add_node("tools", ToolNode([move])).add_node(in_node)
graph.add_edge(START, "model").add_edge("model", "tools").add_edge("tools", "in_node")
