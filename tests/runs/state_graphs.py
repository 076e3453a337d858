"""Graphs with a state of their own: reducers, a dynamic breakpoint, feedback by a human, a question, large values."""

import asyncio
from operator import add
from typing import Annotated, Any, TypedDict

from langchain_core.messages import AIMessage
from langgraph.errors import NodeInterrupt
from langgraph.func import entrypoint
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import interrupt


class Given(TypedDict):
    input: str


class Notes(Given, total=False):
    notes: Annotated[list[str], add]
    language: str
    attachment: bytes
    long: str
    many: list[str]
    todos: list[dict[str, Any]]


def first(state: Notes) -> dict[str, Any]:
    return {"notes": [f"first {state['input']}"]}


def second(state: Notes) -> dict[str, Any]:
    return {"notes": [f"second in {state.get('language', 'en')}"]}


notes: Any = StateGraph(Notes, input_schema=Given).add_sequence([first, second]).add_edge(START, "first").compile()


def check(state: Notes) -> dict[str, Any]:
    if len(state["input"]) > 5:
        raise NodeInterrupt(f"Received input that is longer than 5 characters: {state['input']}")
    return {"notes": [f"checked {state['input']}"]}


dynamic: Any = (
    StateGraph(Notes, input_schema=Given)
    .add_sequence([first, check, second])
    .add_edge(START, "first")
    .compile(name="dynamic_breakpoint")
)


def feedback(state: Notes) -> None:
    """Never runs: a human acts in its place."""


reviewed: Any = (
    StateGraph(Notes, input_schema=Given)
    .add_sequence([first, feedback, second])
    .add_edge(START, "first")
    .compile(interrupt_before=["feedback"])
)


def ask(state: Notes) -> dict[str, Any]:
    return {"notes": [f"{state.get('language', 'en')}: {interrupt('Which one?')}"]}


asking: Any = (
    StateGraph(Notes, input_schema=Given).add_sequence([first, ask, second]).add_edge(START, "first").compile()
)


def odd(state: Notes) -> dict[str, Any]:
    return {"attachment": b"\x89PNG\r\n\x1a\n\x00", "long": "x" * 300_000, "many": ["y" * 1000] * 400}


large: Any = StateGraph(Notes, input_schema=Given).add_sequence([odd]).add_edge(START, "odd").compile()


async def wait(state: Notes) -> dict[str, Any]:
    await asyncio.Event().wait()
    return {}


endless: Any = StateGraph(Notes, input_schema=Given).add_sequence([wait]).add_edge(START, "wait").compile()


class Chat(MessagesState, total=False):
    tone: str


def reply(state: Chat) -> dict[str, Any]:
    heard = ", ".join(message.text for message in state["messages"] if message.type == "human")
    return {"messages": [AIMessage(f"I heard {heard}{state.get('tone', '.')}")]}


chat: Any = StateGraph(Chat).add_sequence([reply]).add_edge(START, "reply").compile()


@entrypoint()
async def functional(messages: list[Any]) -> str:
    return f"heard {len(messages)}"
