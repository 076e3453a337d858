"""A graph of somebody's with tools of LangChain's: each of them notes whether the log had its start when it began."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from pathlib import Path
from typing import Any

from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode

from tests import stores

HERE = Path(__file__).parent
"""The test copies this file into a folder of its own, where the server keeps its data."""
STARTS = "SELECT count(*) FROM event WHERE type = 'tool_start'"


LEFT: list["asyncio.Task[None]"] = []
"""What goes on when the run is over."""


def _count(query: str) -> int:
    with stores.beside(HERE / "data") as stored:
        return int(stored.value(query))


def _write(line: str) -> None:
    with (HERE / "ledger").open("a") as ledger:
        ledger.write(f"{line}\n")


def _note(name: str) -> str:
    _write(f"{name} {'announced' if _count(STARTS) else 'unannounced'}")
    return "hammered"


@tool
async def hammer() -> str:
    """Hammer."""
    return _note("hammer")


@tool
def saw() -> str:
    """Saw."""
    return _note("saw")


TOOLS = {"hammer": hammer, "saw": saw}


def place(state: MessagesState) -> str:
    return str(state["messages"][-1].text).split()[0]


def _call(state: MessagesState) -> AIMessage:
    name = str(state["messages"][-1].text).split()[1]
    return AIMessage("", tool_calls=[{"name": name, "args": {}, "id": "c1", "type": "tool_call"}])


def model(state: MessagesState) -> dict[str, Any]:
    return {"messages": [_call(state)]}


async def awaits(state: MessagesState) -> dict[str, Any]:
    await TOOLS[str(state["messages"][-1].text).split()[1]].ainvoke({})
    return {"messages": [AIMessage("done")]}


def calls(state: MessagesState) -> dict[str, Any]:
    saw.invoke({})
    return {"messages": [AIMessage("done")]}


async def blocks(state: MessagesState) -> dict[str, Any]:
    """What nobody should do: the event loop stands still until threads have called the tools."""
    ToolNode([saw]).invoke({"messages": [_call(state)]})
    saw.invoke({})
    return {"messages": [AIMessage("done")]}


async def hands_over(state: MessagesState) -> dict[str, Any]:
    """Blocks the event loop as well, but only when the tool waits for it already."""
    with ThreadPoolExecutor(1) as pool:
        called = pool.submit(copy_context().run, saw.invoke, {})
        await asyncio.sleep(0.01)
        called.result()
    return {"messages": [AIMessage("done")]}


async def stalls(state: MessagesState) -> dict[str, Any]:
    """Lets nothing else happen for two seconds, while its tool waits in a thread."""
    with ThreadPoolExecutor(1) as pool:
        called = pool.submit(copy_context().run, saw.invoke, {})
        threading.Event().wait(2)
        await asyncio.wrap_future(called)
    return {"messages": [AIMessage("done")]}


async def leaves(state: MessagesState) -> dict[str, Any]:
    """Ends before its tool is called."""
    LEFT.append(asyncio.create_task(_later()))
    return {"messages": [AIMessage("done")]}


async def _later() -> None:
    await asyncio.to_thread(_wait_for, "SELECT count(*) FROM event WHERE type = 'run_end'")
    try:
        await hammer.ainvoke({})
    except RuntimeError as error:
        _write(f"refused: {error}")


def _wait_for(query: str) -> None:
    for _ in range(600):
        if _count(query):
            return
        threading.Event().wait(0.05)


graph = StateGraph(MessagesState)
for node in (model, awaits, calls, blocks, hands_over, stalls, leaves):
    graph.add_node(node.__name__, node)
graph.add_node("tools", ToolNode(list(TOOLS.values())))
graph.add_conditional_edges(START, place, ["model", "awaits", "calls", "blocks", "hands_over", "stalls", "leaves"])
graph.add_edge("model", "tools")
for last in ("tools", "awaits", "calls", "blocks", "hands_over", "stalls", "leaves"):
    graph.add_edge(last, END)
