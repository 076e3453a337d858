"""Graphs as an operator writes them: with notes behind the answer, without messages, with a breakpoint."""

import asyncio
from typing import Any, TypedDict

from langchain_core.messages import AIMessage
from langgraph.errors import NodeInterrupt
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import interrupt

from stellwerk.agents.scripted.model import ScriptedModel
from stellwerk.spec.script import ScriptRule, ScriptStep


def model(say: str) -> ScriptedModel:
    return ScriptedModel(script=[ScriptRule(steps=[ScriptStep(say=say)])])


async def reply(state: MessagesState) -> dict[str, Any]:
    return {"messages": [await model("It is sunny.").ainvoke(state["messages"])]}


async def note(state: MessagesState) -> dict[str, Any]:
    await model("Asks about weather.").ainvoke("note it")
    if "endless" in state["messages"][-2].text:
        await asyncio.Event().wait()
    return {}


memory: Any = StateGraph(MessagesState).add_sequence([reply, note]).add_edge(START, "reply").compile()


class Topic(TypedDict):
    topic: str


class Report(Topic, total=False):
    report: str


class Written(TypedDict):
    report: str


async def research(state: Report) -> dict[str, Any]:
    await model("raw notes").ainvoke(state["topic"])
    return {"report": f"All about {state['topic']}."}


async def reflect(state: Report) -> dict[str, Any]:
    await model("There is more.").ainvoke("reflect")
    return {}


schemas: Any = {"input_schema": Topic, "output_schema": Written}
report: Any = StateGraph(Report, **schemas).add_sequence([research, reflect]).add_edge(START, "research").compile()


def insist(state: MessagesState) -> dict[str, Any]:
    raise NodeInterrupt("Not like this.")


insists: Any = StateGraph(MessagesState).add_sequence([insist]).add_edge(START, "insist").compile()


def ask_twice(state: MessagesState) -> dict[str, Any]:
    return {"messages": [AIMessage(f"{interrupt('First?')} {interrupt('Second?')}")]}


asks_twice: Any = StateGraph(MessagesState).add_sequence([ask_twice]).add_edge(START, "ask_twice").compile()


def draft(state: MessagesState) -> dict[str, Any]:
    return {"messages": [AIMessage("A draft.")]}


def post(state: MessagesState) -> dict[str, Any]:
    return {"messages": [AIMessage("Posted.")]}


gate: Any = (
    StateGraph(MessagesState).add_sequence([draft, post]).add_edge(START, "draft").compile(interrupt_before=["post"])
)
