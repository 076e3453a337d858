"""Graphs that remember what a user said, each under the user id that it finds in its own way."""

from dataclasses import dataclass
from typing import Any, TypedDict

from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableConfig
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.runtime import Runtime
from langgraph.store.base import BaseStore
from langgraph.types import interrupt
from pydantic import BaseModel


def remembered(store: BaseStore | None, user_id: str, state: MessagesState) -> dict[str, Any]:
    """Put away what was said last, and answer with all that is known of this user."""
    assert store is not None
    said = str(state["messages"][-1].text)
    place = ("memories", user_id)
    store.put(place, said, {"said": said})
    known = sorted(str(item.value["said"]) for item in store.search(place))
    return {"messages": [AIMessage(f"{user_id}: {', '.join(known)}")]}


def one_node(node: Any, **schema: Any) -> Any:
    builder: StateGraph[Any, Any, Any, Any] = StateGraph(MessagesState, **schema)
    return builder.add_node("node", node).add_edge(START, "node").compile()


@dataclass(kw_only=True)
class Context:
    user_id: str = "default"
    model: str = "small"


class PydanticContext(BaseModel):
    user_id: str = "default"


class DictContext(TypedDict, total=False):
    user_id: str


def by_context(state: MessagesState, runtime: Runtime[Context]) -> dict[str, Any]:
    return remembered(runtime.store, runtime.context.user_id, state)


def by_dict(state: MessagesState, runtime: Runtime[DictContext]) -> dict[str, Any]:
    return remembered(runtime.store, runtime.context.get("user_id", "default"), state)


def by_config(state: MessagesState, config: RunnableConfig, *, store: BaseStore) -> dict[str, Any]:
    return remembered(store, config["configurable"].get("user_id", "default"), state)


inner = one_node(by_config)


def by_inner(state: MessagesState) -> dict[str, Any]:
    return {"messages": [inner.invoke({"messages": state["messages"]})["messages"][-1]]}


def asks_first(state: MessagesState, config: RunnableConfig) -> dict[str, Any]:
    answer = interrupt("Shall I?")
    return {"messages": [AIMessage(f"{config['configurable'].get('user_id', 'default')} said {answer}")]}


context = one_node(by_context, context_schema=Context)
pydantic = one_node(by_context, context_schema=PydanticContext)
typed_dict = one_node(by_dict, context_schema=DictContext)
config = one_node(by_config)
nested = one_node(by_inner)
asking = one_node(asks_first)
