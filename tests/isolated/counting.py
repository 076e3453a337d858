"""Graphs with a store that users may share or not, and graphs whose calls of a model count."""

import asyncio
from pathlib import Path
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langgraph.config import get_store
from langgraph.graph import START, MessagesState, StateGraph

HERE = Path(__file__).parent


async def remember(state: MessagesState) -> dict[str, Any]:
    """Keeps what is said in one place for all."""
    store, said = get_store(), str(state["messages"][-1].text)
    known = [item.value["text"] for item in await store.asearch(("notes",))]
    await store.aput(("notes",), said, {"text": said})
    return {"messages": [AIMessage(", ".join(sorted(known)) or "nothing")]}


def remember_in_thread(state: MessagesState) -> dict[str, Any]:
    store, said = get_store(), str(state["messages"][-1].text)
    known = [item.value["text"] for item in store.search(("notes",))]
    store.put(("notes",), said, {"text": said})
    return {"messages": [AIMessage(", ".join(sorted(known)) or "nothing")]}


class Counted(BaseChatModel):
    """Notes each call that is made, and uses ten tokens for it."""

    @property
    def _llm_type(self) -> str:
        return "counted"

    def _generate(self, messages: list[BaseMessage], *_given: Any, **_more: Any) -> ChatResult:
        with (HERE / "calls").open("a") as file:
            file.write(f"{messages[-1].text}\n")
        usage: Any = {"input_tokens": 6, "output_tokens": 4, "total_tokens": 10}
        return ChatResult(generations=[ChatGeneration(message=AIMessage("Yes.", usage_metadata=usage))])

    async def _agenerate(self, messages: list[BaseMessage], *given: Any, **more: Any) -> ChatResult:
        return self._generate(messages)


async def ask_once(state: MessagesState) -> dict[str, Any]:
    return {"messages": [await Counted().ainvoke(state["messages"])]}


async def ask_at_once(state: MessagesState) -> dict[str, Any]:
    """Makes five calls at the same time."""
    return {"messages": await asyncio.gather(*(Counted().ainvoke(state["messages"]) for _ in range(5)))}


async def ask_in_a_row(state: MessagesState) -> dict[str, Any]:
    return {"messages": [await Counted().ainvoke(state["messages"]) for _ in range(5)]}


def _graph(node: Any) -> Any:
    return StateGraph(MessagesState).add_node("node", node).add_edge(START, "node").compile()


private, shared, threaded = _graph(remember), _graph(remember), _graph(remember_in_thread)
once, at_once, in_a_row = _graph(ask_once), _graph(ask_at_once), _graph(ask_in_a_row)
