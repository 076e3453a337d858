"""The graph of echo.py, with a conversation that LangGraph rebuilds from what was written to it."""

from typing import Annotated, Any, TypedDict

from langchain_core.messages import AIMessage
from langgraph.channels.delta import DeltaChannel
from langgraph.graph import END, START, StateGraph


def joined(before: list[Any], writes: list[list[Any]]) -> list[Any]:
    return sum(writes, before)


class State(TypedDict):
    messages: Annotated[list[Any], DeltaChannel(joined, snapshot_frequency=5)]


def answer(state: State) -> dict[str, object]:
    heard = [str(message.content) for message in state["messages"] if message.type == "human"]
    return {"messages": [AIMessage(f"I heard {', '.join(heard)}.")]}


graph = StateGraph(State).add_node("answer", answer).add_edge(START, "answer").add_edge("answer", END)
