"""A graph that says how many messages it has seen, and how often it was asked."""

from operator import add
from typing import Annotated

from langchain_core.messages import AIMessage
from langgraph.graph import END, START, MessagesState, StateGraph


class State(MessagesState):
    asked: Annotated[int, add]


def answer(state: State) -> dict[str, object]:
    heard = [str(message.content) for message in state["messages"] if message.type == "human"]
    return {"messages": [AIMessage(f"I heard {', '.join(heard)}.")], "asked": 1}


graph = StateGraph(State).add_node("answer", answer).add_edge(START, "answer").add_edge("answer", END)
