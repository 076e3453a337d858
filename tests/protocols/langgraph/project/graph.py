"""A graph that answers, asks and fails, for LangGraph's own server and for this one."""

from langchain_core.messages import AIMessage
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import interrupt


def answer(state: MessagesState) -> dict[str, list[AIMessage]]:
    said = str(state["messages"][-1].content)
    if said == "ask":
        return {"messages": [AIMessage(f"hello {interrupt({'question': 'Name?'})}")]}
    if said == "fail":
        raise ValueError("broken")
    return {"messages": [AIMessage(f"you said {said}")]}


graph = StateGraph(MessagesState).add_node("answer", answer).add_edge(START, "answer").compile()
