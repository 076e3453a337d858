"""Graphs that the tests isolate: one that uses all that a graph can, and one that misbehaves when told to."""

import asyncio
import ctypes
import os
import signal
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, TypedDict

from langchain_core.callbacks import adispatch_custom_event
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import tool
from langgraph.config import get_store, get_stream_writer
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.types import Command, interrupt
from pydantic import BaseModel


class Words(BaseChatModel):
    """Says its words one by one; asks for the tool first if it has not been called."""

    words: list[str] = ["All", " ", "is", " ", "well", "."]

    @property
    def _llm_type(self) -> str:
        return "words"

    def _generate(self, messages: list[BaseMessage], *_given: Any, **_more: Any) -> ChatResult:
        chunks = list(self._stream(messages))
        text = "".join(str(each.message.content) for each in chunks)
        calls = [call for each in chunks for call in each.message.tool_calls]  # type: ignore[attr-defined]
        return ChatResult(generations=[ChatGeneration(message=AIMessage(text, tool_calls=calls))])

    def _stream(self, messages: list[BaseMessage], *_given: Any, **_more: Any) -> Iterator[ChatGenerationChunk]:
        if not any(isinstance(message, ToolMessage) for message in messages):
            call = {"name": "weigh", "args": '{"thing": "lamp"}', "id": "call_1", "index": 0, "type": "tool_call_chunk"}
            yield ChatGenerationChunk(message=AIMessageChunk(content="", tool_call_chunks=[call]))
            return
        for word in self.words:
            yield ChatGenerationChunk(message=AIMessageChunk(content=word))

    async def _astream(
        self, messages: list[BaseMessage], *_given: Any, **_more: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        for chunk in self._stream(messages):
            await asyncio.sleep(0)
            yield chunk


@dataclass
class Parcel:
    thing: str
    when: datetime = datetime(2026, 1, 2, tzinfo=UTC)
    marks: set[str] = field(default_factory=lambda: {"fragile", "heavy"})


class Label(BaseModel):
    text: str
    parcel: dict[str, Any]


class Shipping(MessagesState):
    parcel: Parcel
    label: Label
    picture: bytes
    weight: int
    approved: str
    visits: Annotated[int, lambda before, now: (before or 0) + now]


@tool
async def weigh(thing: str, config: RunnableConfig) -> str:
    """Weigh a thing."""
    await adispatch_custom_event("scale", {"thing": thing, "kilos": 3}, config=config)
    return f"{thing}: 3 kg"


async def ask_model(state: Shipping, config: RunnableConfig) -> dict[str, Any]:
    return {"messages": [await Words().ainvoke(state["messages"], config)]}


class Packing(TypedDict):
    parcel: Parcel


def wrap(state: Packing) -> dict[str, Any]:
    get_stream_writer()({"wrapped": state["parcel"].thing, "by": object(), "marks": state["parcel"].marks})
    return {"parcel": Parcel(f"wrapped {state['parcel'].thing}")}


packing = StateGraph(Packing).add_node(wrap).add_edge(START, "wrap").compile()


async def pack(state: Shipping) -> dict[str, Any]:
    packed = await packing.ainvoke({"parcel": Parcel("lamp")})
    await get_store().aput(("parcels",), "last", {"thing": packed["parcel"].thing})
    found = await get_store().aget(("parcels",), "last")
    assert found is not None
    label = Label(text=found.value["thing"], parcel={"n": 1})
    return {"parcel": packed["parcel"], "label": label, "picture": b"\x89PNG\r\n\x1a\n", "weight": 2**60, "visits": 1}


def in_thread(state: Shipping) -> dict[str, Any]:
    """A plain function, which invokes a graph: its checkpoints are asked for from a thread."""
    return {"parcel": packing.invoke({"parcel": state["parcel"]})["parcel"]}


def approve(state: Shipping) -> Command[Any]:
    answer = interrupt({"question": f"Ship {state['parcel'].thing}?", "options": ["yes", "no"]})
    return Command(update={"approved": answer, "messages": [AIMessage(f"You said {answer}.")]}, goto=END)


def _after_model(state: Shipping) -> str:
    last = state["messages"][-1]
    return "tools" if getattr(last, "tool_calls", None) else "pack"


shipping = (
    StateGraph(Shipping)
    .add_node("model", ask_model)
    .add_node("tools", ToolNode([weigh]))
    .add_node(pack)
    .add_node(in_thread)
    .add_node("approve", approve, destinations=(END,))
    .add_edge(START, "model")
    .add_conditional_edges("model", _after_model, ["tools", "pack"])
    .add_edge("tools", "model")
    .add_edge("pack", "in_thread")
    .add_edge("in_thread", "approve")
    .compile()
)


class Trouble(MessagesState):
    steps: Annotated[list[str], lambda before, now: [*(before or []), *now]]


def first(state: Trouble) -> dict[str, Any]:
    """A step that is stored before the trouble begins."""
    return {"steps": ["first"]}


async def trouble(state: Trouble) -> dict[str, Any]:
    """Does to its process what the message says: a second word is a file, if it is there nothing is done."""
    wish, _, mark = str(state["messages"][-1].text).partition(" ")
    if wish == "wait":
        await asyncio.to_thread(Path(mark).read_bytes)
        return {"messages": [AIMessage(f"pid {os.getpid()}")]}
    if mark and _was_here(Path(mark)):
        return {"steps": ["second"], "messages": [AIMessage("gone on")]}
    _misbehave(wish)
    return {"steps": ["second"], "messages": [AIMessage(f"pid {os.getpid()}")]}


def _was_here(mark: Path) -> bool:
    found = mark.exists()
    mark.touch()
    return found


def _misbehave(wish: str) -> None:
    match wish:
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "segfault":
            ctypes.string_at(0)
        case "memory":
            bytearray(2 << 30)
        case "sleep":
            time.sleep(600)
        case "bomb":
            _multiply()


def _multiply() -> None:
    """A fork bomb of at most a thousand processes, each of which lives for ten minutes."""
    for _ in range(1000):
        if os.fork() == 0:
            time.sleep(600)
            os._exit(0)


@tool
def send_money(mark: str) -> str:
    """Send money: must never happen twice."""
    with Path(mark).open("a") as book:
        book.write("sent\n")
    os.kill(os.getpid(), signal.SIGKILL)
    return "sent"


async def pay(state: Trouble, config: RunnableConfig) -> dict[str, Any]:
    mark = str(state["messages"][-1].text)
    return {"messages": [AIMessage(await send_money.ainvoke({"mark": mark}, config))]}


def _behind_first(name: str, node: Any) -> Any:
    graph = StateGraph(Trouble).add_node(first).add_node(name, node)
    return graph.add_edge(START, "first").add_edge("first", name).add_edge(name, END).compile()


troubled = _behind_first("trouble", trouble)
paying = _behind_first("pay", pay)


async def quiet(state: MessagesState) -> dict[str, Any]:
    return {"messages": [AIMessage(f"pid {os.getpid()}")]}


other = StateGraph(MessagesState).add_node(quiet).add_edge(START, "quiet").add_edge("quiet", END).compile()
