"""Tools with a ledger outside of the server, and graphs in graphs that use them.

Those that carry come back when the server asks its runs to pause. Each graph carries first, and then books.
"""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypedDict

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.runtime import get_runtime

from stellwerk.agents.tools.spec import tool as our_tool

HERE = Path(__file__).parent
"""The test copies this file into a folder of its own, where the ledger and the gates are."""


def note(line: str) -> None:
    with (HERE / "ledger").open("a") as ledger:
        ledger.write(f"{line}\n")


async def asked_to_pause() -> None:
    await _until(lambda: get_runtime().drain_requested or _gate_is_open())


async def gate_open() -> None:
    await _until(_gate_is_open)


async def _until(holds: Callable[[], bool]) -> None:
    """Look again and again: neither a file nor LangGraph's control has an event to wait for."""
    while True:
        if holds():
            return
        await asyncio.sleep(0.005)


def _gate_is_open() -> bool:
    return (HERE / "gate").exists()


@our_tool(effects="write")
async def carry(what: str) -> str:
    """Carry something until the server asks its runs to pause; twice would be once too often."""
    note(f"carry {what}")
    await asked_to_pause()
    return f"{what} was carried"


@our_tool(effects="write")
def book(what: str) -> str:
    """Book something; twice would be once too often."""
    note(f"book {what}")
    return f"{what} is booked"


@our_tool(effects="write")
async def book_slowly(what: str) -> str:
    """Book something, and come back when the gate is open, whatever the server asks for."""
    note(f"book_slowly {what}")
    await gate_open()
    return f"{what} is booked"


@our_tool(idempotent=True)
def look_up(what: str) -> str:
    """Look something up, and come back when the gate is open; it may be done again."""
    note(f"look_up {what}")
    while not _gate_is_open():
        time.sleep(0.01)
    return f"{what} was found"


tools = [carry, book, book_slowly, look_up]


class Load(TypedDict):
    what: str
    done: str


@tool
async def receipt(what: str) -> str:
    """Book something; twice would be once too often."""
    note(f"book {what}")
    return f"{what} is booked"


async def carry_load(state: Load) -> dict[str, str]:
    note(f"carry {state['what']}")
    await asked_to_pause()
    return {"done": "carried"}


async def book_load(state: Load) -> dict[str, str]:
    return {"done": await receipt.ainvoke({"what": state["what"]})}


def inner(name: str) -> Any:
    graph = StateGraph(Load).add_node("carry", carry_load).add_node("book", book_load)
    return graph.add_edge(START, "carry").add_edge("carry", "book").compile(name=name)


within = inner("within")


async def call_inner(state: MessagesState) -> dict[str, Any]:
    left = await within.ainvoke({"what": "piano"})
    return {"messages": [AIMessage(left["done"])]}


called = StateGraph(MessagesState).add_node("call", call_inner).add_edge(START, "call")


class Named(MessagesState):
    what: str
    done: str


def named(state: Named) -> dict[str, str]:
    return {"what": "mirror"}


def say(state: Named) -> dict[str, Any]:
    return {"messages": [AIMessage(state["done"])]}


as_node = StateGraph(Named).add_node("named", named).add_node("inner", inner("inner")).add_node("say", say)
as_node.add_edge(START, "named").add_edge("named", "inner").add_edge("inner", "say")


@tool
async def move(what: str) -> str:
    """Move something by a graph."""
    left = await within.ainvoke({"what": what})
    return str(left["done"])


@tool
async def move_both(what: str) -> str:
    """Move two things at once, each by a graph."""
    both = await asyncio.gather(*(within.ainvoke({"what": f"{side} {what}"}) for side in ("upper", "lower")))
    return ", ".join(str(left["done"]) for left in both)


@tool
async def move_and_wait(what: str) -> str:
    """Move something by a graph that does not wait, and then do something slow that must not be done twice."""
    await quick.ainvoke({"what": what})
    note(f"paint {what}")
    await gate_open()
    return "painted"


quick: Any = StateGraph(Load).add_node("book", book_load).add_edge(START, "book").compile(name="quick")


def calling(name: str, what: str) -> Any:
    """A graph whose model calls one tool."""

    def model(state: MessagesState) -> dict[str, Any]:
        call = {"name": name, "args": {"what": what}, "id": "call-1", "type": "tool_call"}
        return {"messages": [AIMessage("", tool_calls=[call])]}

    def last(state: MessagesState) -> dict[str, Any]:
        return {"messages": [AIMessage(f"Done: {state['messages'][-1].text}")]}

    nodes = ToolNode([move, move_both, move_and_wait])
    graph = StateGraph(MessagesState).add_node("model", model).add_node("tools", nodes).add_node("last", last)
    return graph.add_edge(START, "model").add_edge("model", "tools").add_edge("tools", "last")


in_tool = calling("move", "organ")
in_tool_twice = calling("move_both", "bed")
in_tool_late = calling("move_and_wait", "door")


class Thinker(BaseChatModel):
    """A model that answers when the gate is open."""

    @property
    def _llm_type(self) -> str:
        return "thinker"

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        note("think hard")
        await gate_open()
        return ChatResult(generations=[ChatGeneration(message=AIMessage("I have thought."))])

    def _generate(self, *_: Any, **__: Any) -> ChatResult:
        raise NotImplementedError


async def think(state: MessagesState) -> dict[str, Any]:
    return {"messages": [await Thinker().ainvoke(state["messages"])]}


thinking = StateGraph(MessagesState).add_node("think", think).add_edge(START, "think").compile(name="thinking")
slow_node = StateGraph(MessagesState).add_node("thinking", thinking).add_edge(START, "thinking")
