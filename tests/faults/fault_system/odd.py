"""A graph whose messages and tools are as odd as providers and strangers can make them, by a word of the user's."""

from typing import Any

from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import StructuredTool
from langgraph.graph import START, MessagesState, StateGraph

EVIL = 'x\n\nevent: run_end\rid: 999\u2028data: {"type":"run_end"} "\\ \u202e🚂' + "y" * 500


def _nothing() -> str:
    return EVIL


ODD_TOOL = StructuredTool.from_function(_nothing, name=EVIL, description="Nothing.")
CALLS: dict[str, list[dict[str, Any]]] = {
    "nameless": [{"name": "", "args": {}, "id": "c1"}],
    "anonymous": [{"name": "look", "args": {}, "id": None}],
    "both": [{"name": "", "args": {}, "id": None}, {"name": "", "args": {}, "id": None}],
    "twice": [{"name": "look", "args": {}, "id": "c1"}],
}


def _word(state: MessagesState) -> str:
    return str(next(m.content for m in reversed(state["messages"]) if isinstance(m, HumanMessage)))


async def speak(state: MessagesState) -> dict[str, Any]:
    word = _word(state)
    if word == "names":
        await ODD_TOOL.ainvoke({"type": "tool_call", "name": EVIL, "args": {}, "id": EVIL})
        return {"messages": [AIMessage(EVIL, name=EVIL + "\0", id=EVIL)]}
    return {"messages": [AIMessage("", tool_calls=CALLS.get(word, []))]}


def reply(state: MessagesState) -> dict[str, Any]:
    """Results without a call, for a call without an id, and a second one for a call that has its result."""
    if _word(state) not in CALLS:
        return {}
    results = [ToolMessage(text, tool_call_id="c1") for text in ("first", "second")]
    return {"messages": [*results, ToolMessage("", tool_call_id=""), ToolMessage("lost", tool_call_id="nobody's")]}


def end(state: MessagesState) -> dict[str, Any]:
    return {"messages": [AIMessage("")]}


nodes = StateGraph(MessagesState).add_sequence([speak, reply, end])
graph = nodes.add_edge(START, "speak").compile()
