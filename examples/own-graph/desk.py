"""A help desk as a plain LangGraph graph that does not import Stellwerk.

It has its own state keys and a nested graph, and needs no API key.
"""

import operator
from dataclasses import dataclass
from typing import Annotated, Any, TypedDict

from langchain_core.messages import AIMessage, AnyMessage
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import interrupt

PRICES = {"lamp": 20, "chair": 80, "desk": 300}


@dataclass
class Item:
    """An item of the customer's request; stored state restores it as this type."""

    name: str
    price: int


class Pricing(TypedDict):
    messages: list[AnyMessage]
    items: list[Item]
    total: int


class Priced(TypedDict):
    items: list[Item]
    total: int


class Desk(MessagesState):
    items: list[Item]
    total: int
    quoted: Annotated[list[str], operator.add]


def look_up(state: Pricing) -> dict[str, Any]:
    text = str(state["messages"][-1].text).lower()
    return {"items": [Item(name, price) for name, price in PRICES.items() if name in text]}


def add_up(state: Pricing) -> dict[str, Any]:
    return {"total": sum(item.price for item in state["items"])}


pricing = StateGraph(Pricing, output_schema=Priced)
pricing.add_sequence([look_up, add_up])
pricing.add_edge(START, "look_up")


def quote(state: Desk) -> dict[str, Any]:
    """Ask the user to confirm an expensive quote."""
    if state["total"] > 100 and interrupt(f"That would be {state['total']} euros. Is it all right?") != "yes":
        return {"messages": [AIMessage("Then we leave it.")]}
    names = [item.name for item in state["items"]]
    return {"quoted": names, "messages": [AIMessage(f"Noted: {', '.join(names)}, {state['total']} euros.")]}


desk = StateGraph(Desk)
desk.add_node("pricing", pricing.compile())
desk.add_node(quote)
desk.add_edge(START, "pricing")
desk.add_edge("pricing", "quote")
desk.add_edge("quote", END)

graph = desk.compile()
