"""Functions of the functional API whose annotations are strings, as after a `from __future__` import."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from langchain_core.messages import AnyMessage
from langgraph.func import entrypoint
from pydantic import BaseModel
from typing_extensions import TypedDict


class Talk(TypedDict):
    messages: list[AnyMessage]
    depth: int


class Question(BaseModel):
    question: str
    depth: int = 1


@dataclass
class Plain:
    question: str
    depth: int = 1


@entrypoint()
def typed(given: Talk) -> str:
    return f"{given['messages'][-1].text} {given.get('depth', 0)}"


@entrypoint()
async def modelled(given: Question) -> str:
    return f"{given.question} {given.depth}"


@entrypoint()
def plain(given: Plain) -> str:
    return f"{given.question} {given.depth}"


@entrypoint()
def free(given: dict[str, Any]) -> str:
    return ", ".join(sorted(given))


@entrypoint()
def number(given: int) -> str:
    return str(given + 1)
