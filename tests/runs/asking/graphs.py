"""Graphs that ask: by an interrupt, at a breakpoint, inside another graph, in two branches at once, beside another."""

import time
from pathlib import Path
from typing import Any

from langchain_core.messages import AIMessage
from langgraph.config import get_stream_writer
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import interrupt


def _asks(question: str) -> Any:
    def node(state: MessagesState) -> dict[str, Any]:
        return {"messages": [AIMessage(f"{question} {interrupt(question)}")]}

    return node


def _says(text: str) -> Any:
    def node(state: MessagesState) -> dict[str, Any]:
        return {"messages": [AIMessage(text)]}

    return node


def _waits(state: MessagesState) -> dict[str, Any]:
    """Work until the file exists that the message names, and say so meanwhile; or fail, if its text says that."""
    gate = Path(str(state["messages"][-1].content))
    write = get_stream_writer()
    write("I work")
    while not gate.exists():
        time.sleep(0.01)
    if gate.read_text() == "fail":
        raise RuntimeError("as it was asked to")
    return {"messages": [AIMessage("Worked.")]}


_asking = StateGraph(MessagesState)
_asking.add_node("first", _says("One moment."))
_asking.add_node("asking", _asks("Which way?"))
_asking.add_edge(START, "first")
_asking.add_edge("first", "asking")
asks = _asking.compile()

_breaking = StateGraph(MessagesState)
_breaking.add_node("first", _says("One moment."))
_breaking.add_node("second", _says("Done."))
_breaking.add_edge(START, "first")
_breaking.add_edge("first", "second")
breaks = _breaking.compile(interrupt_before=["second"])

_nesting = StateGraph(MessagesState)
_nesting.add_node("inner", asks)
_nesting.add_edge(START, "inner")
nests = _nesting.compile()

_splitting = StateGraph(MessagesState)
for _name in ("left", "right"):
    _splitting.add_node(_name, _asks(f"What is {_name}?"))
    _splitting.add_edge(START, _name)
splits = _splitting.compile()

_side_by_side = StateGraph(MessagesState)
_side_by_side.add_node("asking", _asks("Which way?"))
_side_by_side.add_node("working", _waits)
_side_by_side.add_edge(START, "asking")
_side_by_side.add_edge(START, "working")
beside = _side_by_side.compile()
