"""Research in three levels: a node calls researchers side by side, each a graph of its own, made by a factory.

Their messages stay with them; the outer state has only what they found, and the report as a message.
"""

import asyncio
import operator
from typing import Annotated, Any, TypedDict

from langchain_core.runnables import RunnableConfig
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.graph import MessagesState, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from pydantic import BaseModel


class Plan(BaseModel):
    topics: list[str]


class State(MessagesState):
    plan: list[str]
    findings: Annotated[list[str], operator.add]


class Finding(TypedDict):
    finding: str


@tool
async def look_up(topic: str) -> str:
    """Look a topic up."""
    return f"What is known about {topic}."


look_up.metadata = {"stellwerk": {"idempotent": True}}


async def read(state: MessagesState) -> dict[str, Any]:
    return {"messages": [await ChatOpenAI(model="small").bind_tools([look_up]).ainvoke(state["messages"])]}


def conclude(state: MessagesState) -> dict[str, Any]:
    return {"finding": state["messages"][-1].text}


class Reading(MessagesState):
    finding: str


def researcher() -> CompiledStateGraph[Any, Any, Any, Any]:
    return (
        StateGraph(Reading, output_schema=Finding)
        .add_node(read)
        .add_node(conclude)
        .add_node("tools", ToolNode([look_up]))
        .set_entry_point("read")
        .add_conditional_edges("read", tools_condition, {"tools": "tools", "__end__": "conclude"})
        .add_edge("tools", "read")
        .compile()
    )


async def plan(state: State) -> dict[str, Any]:
    model = ChatOpenAI(model="small").with_structured_output(Plan)
    found = await model.ainvoke(f"Plan this: {state['messages'][-1].text}")
    return {"plan": found.topics}  # type: ignore[union-attr]


async def gather(state: State) -> dict[str, Any]:
    inner = researcher()
    asked = [inner.ainvoke({"messages": [("user", f"Find out about {topic}")]}) for topic in state["plan"]]
    return {"findings": [found["finding"] for found in await asyncio.gather(*asked)]}


async def report(state: State) -> dict[str, Any]:
    return {"messages": [await ChatOpenAI(model="large").ainvoke("Report on: " + "; ".join(state["findings"]))]}


async def make_graph(config: RunnableConfig) -> CompiledStateGraph[Any, Any, Any, Any]:
    return (
        StateGraph(State)
        .add_node(plan)
        .add_node(gather)
        .add_node(report)
        .set_entry_point("plan")
        .add_edge("plan", "gather")
        .add_edge("gather", "report")
        .compile()
    )
