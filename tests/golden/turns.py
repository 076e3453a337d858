"""What happens in a scenario: what the user says and answers, and where a run is cut off."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from langgraph.checkpoint.base import BaseCheckpointSaver

from stellwerk.agents.runtime.runnable import RunnableAgent
from stellwerk.envelope.payloads import Answered

Form = Literal["live", "parts", "events"]
FORMS: tuple[Form, ...] = ("live", "parts", "events")
Build = Callable[[BaseCheckpointSaver[Any]], Awaitable[RunnableAgent]]


@dataclass(frozen=True)
class Cut:
    """The run is cut off once a model has said this: by its user, or because the server died."""

    after: str
    how: Literal["stopped", "crashed"]


@dataclass(frozen=True)
class Say:
    text: str
    cut: Cut | None = None


@dataclass(frozen=True)
class Answer:
    """By a word of the question."""

    answers: Mapping[str, Mapping[str, Any]]
    cut: Cut | None = None

    def to(self, question: str, ask_id: str) -> Answered:
        (found,) = [given for word, given in self.answers.items() if word in question]
        return Answered(ask_id=ask_id, **found)


@dataclass(frozen=True)
class Scenario:
    name: str
    build: Build
    turns: list[Say | Answer]
    agents: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """The tools that stand for agents, as their metadata says it; recorded parts have no metadata of tools."""
    forms: tuple[Form, ...] = FORMS
    """In which it is recorded. A tool that a node calls itself is fully heard by our own source only."""
