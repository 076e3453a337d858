"""A graph without a model: two nodes that speak, and one that says nothing behind them."""

from typing import Any

from langchain_core.messages import AIMessage
from langgraph.graph import START, MessagesState, StateGraph


def first(state: MessagesState) -> dict[str, Any]:
    return {"messages": [AIMessage("One moment.")]}


def second(state: MessagesState) -> dict[str, Any]:
    heard = [str(message.content) for message in state["messages"]]
    return {"messages": [AIMessage(f"I know {len(heard)} messages.")]}


def silent(state: MessagesState) -> dict[str, Any]:
    return {}


graph = StateGraph(MessagesState).add_sequence([first, second, silent]).add_edge(START, "first")
