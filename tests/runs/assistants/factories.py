"""Factories of graphs, as LangGraph's own server calls them: with the config and the runtime of each run."""

import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableConfig
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.runtime import Runtime
from langgraph_sdk.runtime import ServerRuntime
from pydantic import BaseModel, Field

HERE = Path(__file__).parent


def note(line: str) -> None:
    with (HERE / "notes").open("a") as file:
        file.write(f"{line}\n")


def graph_saying(words: str, **schemas: Any) -> Any:
    """A graph that answers with words that it was made with."""

    def prepare(state: MessagesState) -> dict[str, Any]:
        return {}

    def reply(state: MessagesState) -> dict[str, Any]:
        said = str(state["messages"][-1].text)
        if said == "wait":
            (HERE / "reached").touch()
            while not (HERE / "gate").exists():
                time.sleep(0.01)
        if said == "boom":
            raise ValueError(words)
        return {"messages": [AIMessage(f"{words}: {said}")]}

    builder: StateGraph[Any, Any, Any, Any] = StateGraph(MessagesState, **schemas)
    nodes: list[Any] = [prepare, reply]
    return builder.add_sequence(nodes).add_edge(START, "prepare").compile()


def styled(config: RunnableConfig) -> Any:
    configurable = config["configurable"]
    note(f"styled {configurable.get('style')} {configurable.get('__is_for_execution__', False)}")
    if configurable.get("style") == "bad":
        raise LookupError("no such style")
    return graph_saying(f"{configurable.get('style')} {configurable.get('user_id')}")


@dataclass
class Tone:
    tone: str = "plain"


@asynccontextmanager
async def managed(config: RunnableConfig, runtime: ServerRuntime[Tone]) -> AsyncIterator[Any]:
    running = runtime.execution_runtime
    if running is None:
        yield graph_saying("never run", context_schema=Tone)
        return
    user = runtime.user.identity if runtime.user else "nobody"
    note(f"open {running.context.tone}")
    try:
        yield graph_saying(f"{running.context.tone} for {user}", context_schema=Tone)
    finally:
        note("closed")


@contextmanager
def strict(config: RunnableConfig) -> Iterator[Any]:
    """Needs a key of its config, also where its graph is only looked at."""
    yield graph_saying(config["configurable"]["style"])


def once() -> Any:
    note("once")
    return graph_saying("once")


class Locked(BaseModel):
    key: str = Field("", pattern="^sk-")


def unlock(state: MessagesState, runtime: Runtime[Locked]) -> dict[str, Any]:
    return {"messages": [AIMessage(f"a key of {len(runtime.context.key)} characters")]}


builder: StateGraph[Any, Any, Any, Any] = StateGraph(MessagesState, context_schema=Locked)
locked: Any = builder.add_node("unlock", unlock).add_edge(START, "unlock").compile()


@dataclass
class Asking:
    langgraph_auth_user: Any = None
    langgraph_auth_user_id: str = "nobody"


def who(state: MessagesState, config: RunnableConfig, runtime: Runtime[Asking]) -> dict[str, Any]:
    """All the places in which a graph may look for its user."""
    configurable = config["configurable"]
    user = configurable.get("langgraph_auth_user")
    server = runtime.server_info
    found = [
        configurable.get("user_id"),
        user and user["identity"],
        user and user.identity,
        configurable.get("langgraph_auth_user_id"),
        runtime.context.langgraph_auth_user and runtime.context.langgraph_auth_user["identity"],
        runtime.context.langgraph_auth_user_id,
        server and server.user and server.user.identity,
        server and server.assistant_id,
    ]
    return {"messages": [AIMessage(" ".join(map(str, found)))]}


node: Any = who
asking: Any = StateGraph(MessagesState, context_schema=Asking).add_node("who", node).add_edge(START, "who").compile()
