"""A plain LangGraph graph that asks its user a question. It does not import Stellwerk and needs no key."""

from itertools import repeat
from typing import Any

from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import interrupt

model = GenericFakeChatModel(messages=(AIMessage(text) for text in repeat("Your order is on its way to you.")))


async def answer(state: MessagesState) -> dict[str, Any]:
    if "cancel" in str(state["messages"][-1].text) and interrupt("Cancel the order?") == "yes":
        return {"messages": [AIMessage("The order is cancelled.")]}
    return {"messages": [await model.ainvoke(state["messages"])]}


builder = StateGraph(MessagesState).add_node(answer).add_edge(START, "answer")
graph = builder.compile()
