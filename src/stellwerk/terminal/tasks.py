"""Tasks: a to-do list of an agent, and what of it has changed."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from stellwerk.envelope.model import State
from stellwerk.terminal.marks import Part
from stellwerk.terminal.plain import one_line
from stellwerk.views.checklist import NAME, Checklist, Notice, fold

_SIGNS: dict[str, Part] = {
    "pending": ("☐", "plain"),
    "in_progress": ("▸", "bold"),
    "completed": ("☑", "good"),
    "blocked": ("⚠", "warn"),
    "skipped": ("☒", "dim"),
}


@dataclass
class Tasks:
    """Of the whole conversation: the checklist, and the to-do lists of deep agents."""

    _checklist: Checklist = field(default_factory=Checklist)
    _shown: dict[tuple[str, str], tuple[str, str]] = field(default_factory=dict)

    def feed(self, state: State) -> Iterator[tuple[Part, ...]]:
        """A line for every task that is new, or has a new status; and for what blocks, is asked, or is settled."""
        changed = state.payload
        if changed.name == NAME:
            self._checklist = fold(self._checklist, state)
            for task in self._checklist.tasks:
                yield from self._news((NAME, task.id), f"{task.id} {task.title}", task.status)
            for notice in self._checklist.notices:
                yield from self._news((notice.kind, notice.text), notice.text, _of_notice(notice))
        elif changed.name == "todos" and isinstance(changed.snapshot, list):
            for number, todo in enumerate(changed.snapshot):
                yield from self._todo((changed.owner or "", str(number)), todo)

    def _todo(self, key: tuple[str, str], todo: Any) -> Iterator[tuple[Part, ...]]:
        if isinstance(todo, dict) and isinstance(todo.get("content"), str):
            yield from self._news(key, todo["content"], str(todo.get("status")))

    def _news(self, key: tuple[str, str], title: str, status: str) -> Iterator[tuple[Part, ...]]:
        if self._shown.get(key) != (title, status):
            self._shown[key] = (title, status)
            sign, style = _SIGNS.get(status, ("·", "plain"))
            yield (f"{sign} ", style), (one_line(title), "dim" if status in ("completed", "skipped") else "plain")


def _of_notice(notice: Notice) -> str:
    return "blocked" if notice.is_open else "completed"
