"""A chatbot that remembers each user: notes in the store under the user of the run, written after the answer."""

from typing import Any

from langchain_core.messages import SystemMessage
from langchain_core.runnables import RunnableConfig
from langchain_openai import ChatOpenAI
from langgraph.graph import MessagesState, StateGraph
from langgraph.store.base import BaseStore


def namespace(config: RunnableConfig) -> tuple[str, str]:
    return ("notes", config["configurable"].get("user_id", "default"))


def answer(state: MessagesState, config: RunnableConfig, store: BaseStore) -> dict[str, Any]:
    known = [item.value["note"] for item in store.search(namespace(config))]
    prompt = SystemMessage(f"You know of this user: {known}")
    return {"messages": [ChatOpenAI(model="small").invoke([prompt, *state["messages"]])]}


def remember(state: MessagesState, config: RunnableConfig, store: BaseStore) -> None:
    note = ChatOpenAI(model="small").invoke([*state["messages"], ("user", "What is worth a note?")])
    store.put(namespace(config), "note", {"note": f"{state['messages'][0].text} / {note.text}"})


graph = (
    StateGraph(MessagesState)
    .add_node(answer)
    .add_node(remember)
    .set_entry_point("answer")
    .add_edge("answer", "remember")
    .set_finish_point("remember")
    .compile()
)
