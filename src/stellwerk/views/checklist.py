"""The checklist: the tasks of a session, who has them, and how far they are.

The structured state leads. It is changed only by patches (``checklist_patches``);
Markdown is rendered from it and never read back. Copies that were changed at the
same time, by agents that work side by side, are merged: in any order, in any
grouping and as often as one likes, the result is the same.
"""

import re
from collections.abc import Iterable
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from stellwerk.envelope.markup import escaped
from stellwerk.envelope.model import Envelope, State

NAME = "checklist"
"""Of the state key in a graph, and of the ``state`` envelopes."""

Status = Literal["pending", "blocked", "in_progress", "skipped", "completed"]
TaskId = Annotated[str, Meta(pattern=r"^(s[1-9][0-9]*\.)*t[1-9][0-9]*$", max_length=100)]
"""``t1``, ``t2`` …; of a sub-agent, with its branch before it: ``s1.t1``."""

TRANSITIONS: dict[Status, tuple[Status, ...]] = {
    "pending": ("in_progress", "completed", "blocked", "skipped"),
    "blocked": ("pending", "in_progress", "skipped"),
    "in_progress": ("pending", "completed", "blocked", "skipped"),
    "skipped": ("pending",),
    "completed": (),
}
"""What a task can become. Done is done: what is left to do is a new task."""

_PROGRESS: list[Status] = list(TRANSITIONS)


class Task(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    id: TaskId
    title: str
    owner: str
    """The agent that works on it."""
    creator: str
    """The agent that planned it, and may change it too."""
    status: Status = "pending"
    note: str = ""
    depends_on: tuple[TaskId, ...] = ()
    version: int = 1


class Notice(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A blocker or a question. It is open while its version is odd, so two copies can never contradict each other."""

    kind: Literal["blocker", "question"]
    text: str
    version: int = 1

    @property
    def is_open(self) -> bool:
        return self.version % 2 == 1


class Checklist(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    version: int = 0
    """How many patches made it what it is, in all branches together."""
    tasks: tuple[Task, ...] = ()
    notices: tuple[Notice, ...] = ()
    lost: tuple[Task, ...] = ()
    """Changes that lost against another one made at the same time; kept until their task is changed again."""
    patches: dict[str, int] = {}
    """How many patches each branch made: side by side, each counts for itself."""

    @property
    def blocker(self) -> str | None:
        return "; ".join(self._open("blocker")) or None

    @property
    def open_questions(self) -> tuple[str, ...]:
        return self._open("question")

    def task(self, task_id: str) -> Task | None:
        return next((task for task in self.tasks if task.id == task_id), None)

    def _open(self, kind: str) -> tuple[str, ...]:
        return tuple(notice.text for notice in self.notices if notice.kind == kind and notice.is_open)


def from_json(value: object) -> Checklist:
    """The checklist that ``to_json`` gave; raises ``msgspec.ValidationError`` for anything else."""
    return msgspec.convert(value, type=Checklist)


def to_json(checklist: Checklist) -> dict[str, Any]:
    # By way of bytes: builtins would keep tuples, which stored state gives back as something else.
    plain: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(checklist))
    return plain


def merged(left: Checklist, right: Checklist) -> Checklist:
    """Both copies in one: of every task the newest form, of every question and blocker the newest word."""
    tasks, lost = _newest((*left.tasks, *left.lost, *right.tasks, *right.lost))
    patches = {
        branch: max(left.patches.get(branch, 0), right.patches.get(branch, 0))
        for branch in sorted(left.patches | right.patches)
    }
    notices = {(n.kind, n.text): n for n in sorted((*left.notices, *right.notices), key=_notice_order)}
    return Checklist(
        version=sum(patches.values()), tasks=tasks, notices=tuple(notices.values()), lost=lost, patches=patches
    )


def fold(checklist: Checklist | None, envelope: Envelope) -> Checklist:
    """The checklist after an envelope.

    Snapshots are merged, not taken in turn: tools that ran side by side each tell only their own change.
    """
    before = checklist or Checklist()
    if not isinstance(envelope, State) or envelope.payload.name != NAME:
        return before
    try:
        return merged(before, from_json(envelope.payload.snapshot))
    except msgspec.ValidationError:  # a graph of the operator's may mean something else by this name
        return before


def markdown(checklist: Checklist) -> str:
    """The checklist to read. The same state always gives the same bytes; no text in it can become markup."""
    done = sum(task.status == "completed" for task in checklist.tasks)
    count = f"{done} of {len(checklist.tasks)} tasks completed" if checklist.tasks else "no tasks"
    parts = [f"# Checklist\n\nVersion {checklist.version}, {count}."]
    parts += ["\n".join(map(task_line, checklist.tasks))] * bool(checklist.tasks)
    for title, kind in (("Blocker", "blocker"), ("Open questions", "question")):
        texts = checklist._open(kind)
        parts += [f"## {title}\n\n" + "\n".join(f"- {escaped(text)}" for text in texts)] * bool(texts)
    if checklist.lost:
        parts.append("## Lost to a change made at the same time\n\n" + "\n".join(map(task_line, checklist.lost)))
    return "\n\n".join(parts) + "\n"


def task_line(task: Task) -> str:
    """One task as an item of a Markdown list, its note below it."""
    facts = [task.status.replace("_", " "), escaped(task.owner), f"v{task.version}"]
    facts += [f"after {' '.join(task.depends_on)}"] * bool(task.depends_on)
    line = f"- [{'x' if task.status == 'completed' else ' '}] **{task.id}** {escaped(task.title)} ({', '.join(facts)})"
    return f"{line}\n  - {escaped(task.note)}" if task.note else line


def order_of(task_id: str) -> tuple[int, list[int]]:
    """Tasks of the outermost agent first; within a branch as they were planned."""
    numbers = [int(number) for number in re.findall(r"[0-9]+", task_id)]
    return len(numbers), numbers


def _newest(tasks: Iterable[Task]) -> tuple[tuple[Task, ...], tuple[Task, ...]]:
    """For each id the form with the highest version, and what else claims to be that version."""
    forms: dict[str, list[Task]] = {}
    for task in sorted(tasks, key=lambda task: order_of(task.id)):
        forms.setdefault(task.id, []).append(task)
    newest, lost = [], []
    for same in forms.values():
        top = max(task.version for task in same)
        distinct = {_rank(task): task for task in same if task.version == top}
        *others, best = (distinct[rank] for rank in sorted(distinct))
        newest.append(best)
        lost += others
    return tuple(newest), tuple(lost)


def _rank(task: Task) -> tuple[int, bytes]:
    """Between forms of one version: the one that is further on, then any order that is always the same."""
    return _PROGRESS.index(task.status), msgspec.json.encode(task)


def _notice_order(notice: Notice) -> tuple[str, str, int]:
    return notice.kind, notice.text, notice.version
