"""The checklist: tasks of a session with owner and status, patches, and the merge of copies.

The structured state is the source of truth. It changes only by patches; Markdown is
rendered from it and never read back. A patch names the version it was made for, changes
only the tasks of its author, and only by allowed transitions; it is applied whole or
rejected with a remedy. Models read the messages of rejections: each has the facts and
what to do now. Copies that parallel agents changed are merged; the merge is commutative,
associative and idempotent.
"""

import re
import unicodedata
from collections.abc import Collection, Iterable, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from stellwerk.envelope.model import Envelope, State
from stellwerk.envelope.results import escaped
from stellwerk.envelope.to_json import clean_text
from stellwerk.errors import PatchRefused

MAX_TASKS = 200
MAX_NOTICES = 100
MAX_TITLE = 200
MAX_NOTE = 2000
NAME = "checklist"
"""The state key in a graph, and the name in ``state`` envelopes."""

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
"""Allowed transitions. A completed task stays completed; remaining work is a new task."""

_PROGRESS: list[Status] = list(TRANSITIONS)
_SETTLED = ("completed", "skipped")
_Agent = Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}\Z")]


class Task(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    id: TaskId
    title: str
    owner: str
    """The agent that works on it."""
    creator: str
    """The agent that planned it, which may change it, too."""
    status: Status = "pending"
    note: str = ""
    depends_on: tuple[TaskId, ...] = ()
    version: int = 1


class Notice(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A blocker or a question; open while its version is odd, so two copies never contradict."""

    kind: Literal["blocker", "question"]
    text: str
    version: int = 1

    @property
    def is_open(self) -> bool:
        return self.version % 2 == 1


class Checklist(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    version: int = 0
    """The number of patches so far, in all branches together."""
    tasks: tuple[Task, ...] = ()
    notices: tuple[Notice, ...] = ()
    lost: tuple[Task, ...] = ()
    """Changes that lost against a parallel one; kept until their task changes again."""
    patches: dict[str, int] = {}
    """Patches per branch; parallel branches count separately."""

    @property
    def blocker(self) -> str | None:
        return "; ".join(self._open("blocker")) or None

    @property
    def open_questions(self) -> tuple[str, ...]:
        return self._open("question")

    def task(self, task_id: str) -> Task | None:
        return next((task for task in self.tasks if task.id == task_id), None)

    def _open(self, kind: str) -> tuple[str, ...]:
        return tuple(each.text for each in self.notices if each.kind == kind and each.is_open)


class NewTask(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    id: TaskId
    title: str
    owner: _Agent | None = None
    """Its creator by default."""
    note: str = ""
    depends_on: tuple[str, ...] = ()


class TaskChange(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The changes of one task; ``None`` leaves a field as it is."""

    id: str
    version: int | None = None
    """The version of the task; then that of the checklist does not matter."""
    title: str | None = None
    note: str | None = None
    status: str | None = None
    owner: _Agent | None = None


class Patch(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    version: int | None = None
    """The version of the checklist that the changes were made for."""
    tasks: tuple[NewTask, ...] = ()
    instead: bool = False
    """The new tasks replace the earlier plan of their author."""
    changes: tuple[TaskChange, ...] = ()
    blocker: str | None = None
    questions: tuple[str, ...] = ()
    settled: tuple[str, ...] = ()
    """Blockers and questions that are settled, word for word."""


def from_json(value: object) -> Checklist:
    """Read the result of ``to_json``; raises ``msgspec.ValidationError`` for anything else."""
    return msgspec.convert(value, type=Checklist)


def to_json(checklist: Checklist) -> dict[str, Any]:
    # By way of bytes: builtins would keep tuples, which stored state gives back as something else.
    plain: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(checklist))
    return plain


def merged(left: Checklist, right: Checklist) -> Checklist:
    """Merge two copies: the newest version of every task, question and blocker."""
    tasks, lost = _newest((*left.tasks, *left.lost, *right.tasks, *right.lost))
    patches = {
        branch: max(left.patches.get(branch, 0), right.patches.get(branch, 0))
        for branch in sorted(left.patches | right.patches)
    }
    newest: dict[tuple[str, str], Notice] = {}
    for notice in sorted((*left.notices, *right.notices), key=_notice_order):
        newest[notice.kind, notice.text] = notice
    return Checklist(
        version=sum(patches.values()),
        tasks=tasks,
        notices=tuple(newest.values()),
        lost=lost,
        patches=patches,
    )


def fold(checklist: Checklist | None, envelope: Envelope) -> Checklist:
    """Return the checklist after an envelope.

    Snapshots are merged, not replaced: each of several parallel tools has only its own change.
    """
    before = checklist or Checklist()
    if not isinstance(envelope, State) or envelope.payload.name != NAME:
        return before
    try:
        return merged(before, from_json(envelope.payload.snapshot))
    except msgspec.ValidationError:  # a graph of the operator may use this name for something else
        return before


def markdown(checklist: Checklist) -> str:
    """Render Markdown: the same state gives the same bytes, and no text becomes markup."""
    done = sum(task.status == "completed" for task in checklist.tasks)
    count = f"{done} of {len(checklist.tasks)} tasks completed" if checklist.tasks else "no tasks"
    parts = [f"# Checklist\n\nVersion {checklist.version}, {count}."]
    sections = {
        "": [task_line(task) for task in checklist.tasks],
        "## Blocker\n\n": [f"- {escaped(text)}" for text in checklist._open("blocker")],
        "## Open questions\n\n": [f"- {escaped(text)}" for text in checklist.open_questions],
        "## Lost to a change made at the same time\n\n": [task_line(task) for task in checklist.lost],
    }
    parts += [title + "\n".join(lines) for title, lines in sections.items() if lines]
    return "\n\n".join(parts) + "\n"


def task_line(task: Task) -> str:
    """Return a task as an item of a Markdown list, with its note below."""
    facts = [task.status.replace("_", " "), escaped(task.owner), f"v{task.version}"]
    if task.depends_on:
        facts.append(f"after {' '.join(task.depends_on)}")
    mark = "x" if task.status == "completed" else " "
    line = f"- [{mark}] **{task.id}** {escaped(task.title)} ({', '.join(facts)})"
    return f"{line}\n  - {escaped(task.note)}" if task.note else line


def _order(task: Task) -> tuple[int, list[int]]:
    """Return the sort key: tasks of the outermost agent first; within a branch as planned."""
    numbers = [int(number) for number in re.findall(r"[0-9]+", task.id)]
    return len(numbers), numbers


def _newest(tasks: Iterable[Task]) -> tuple[tuple[Task, ...], tuple[Task, ...]]:
    """For each id the form with the highest version, and what else claims to be that version."""
    forms: dict[str, list[Task]] = {}
    for task in sorted(tasks, key=_order):
        forms.setdefault(task.id, []).append(task)
    newest, lost = [], []
    for same in forms.values():
        top = max(task.version for task in same)
        *others, best = sorted({task for task in same if task.version == top}, key=_rank)
        newest.append(best)
        lost += others
    return tuple(newest), tuple(lost)


def _rank(task: Task) -> tuple[int, bytes]:
    """Rank versions of a task with the same number: by status, then by a fixed order."""
    return _PROGRESS.index(task.status), msgspec.json.encode(task)


def _notice_order(notice: Notice) -> tuple[str, str, int]:
    return notice.kind, notice.text, notice.version


def patch_of(raw: Mapping[str, Any]) -> Patch:
    """Read a patch from plain data of a model.

    Raises:
        PatchRefused: a field that cannot be set, or a value of the wrong type.
    """
    given = {name: value for name, value in raw.items() if value is not None}
    for name, kind in (("tasks", NewTask), ("changes", TaskChange)):
        if isinstance(given.get(name), list):
            given[name] = [_allowed(item, kind.__struct_fields__) for item in given[name]]
    try:
        return msgspec.convert(given, type=Patch)
    except msgspec.ValidationError as error:
        message = f"this cannot be read: {error}; correct it and call again"
        raise PatchRefused(message, code="invalid_patch") from error


def apply(checklist: Checklist, patch: Patch, *, by: str, branch: str = "") -> Checklist:
    """Return the checklist with the patch applied; its version and changed tasks' go up by one.

    Raises:
        PatchRefused: something in the patch does not fit, so nothing of it was applied.
    """
    if not (patch.tasks or patch.changes or patch.blocker or patch.questions or patch.settled):
        message = "there is nothing in it to be done; say what is to change"
        raise PatchRefused(message, code="invalid_patch")
    before = _set_aside(checklist, by, branch) if patch.instead else checklist
    tasks = {task.id: task for task in before.tasks}
    _add(tasks, patch.tasks, by)
    _change(tasks, patch, checklist, by)
    made = {**checklist.patches, branch: checklist.patches.get(branch, 0) + 1}
    changed = {change.id for change in patch.changes}
    return Checklist(
        version=checklist.version + 1,
        tasks=tuple(sorted(tasks.values(), key=_order)),
        notices=_noticed(before.notices, patch),
        lost=tuple(task for task in before.lost if task.id not in changed),
        patches=dict(sorted(made.items())),
    )


def next_ids(checklist: Checklist, count: int, *, branch: str = "") -> list[TaskId]:
    """Return the next ids of a branch, which follow from the checklist alone."""
    prefix = f"{branch}.t" if branch else "t"
    own = [task.id.removeprefix(prefix) for task in checklist.tasks if task.id.startswith(prefix)]
    last = max((int(number) for number in own if number.isdigit()), default=0)
    return [f"{prefix}{last + n}" for n in range(1, count + 1)]


def _set_aside(checklist: Checklist, by: str, branch: str) -> Checklist:
    """Replace a plan: its open tasks are skipped, and its blockers and questions are settled."""
    skipped = {
        task.id: replace(task, status="skipped", version=task.version + 1)
        for task in checklist.tasks
        if by in (task.owner, task.creator) and task.status not in _SETTLED
    }
    notices = checklist.notices
    if not branch:  # notices have no owner, so sub-agents leave them alone
        notices = tuple(replace(each, version=each.version + each.is_open) for each in notices)
    return replace(
        checklist,
        tasks=tuple(skipped.get(task.id, task) for task in checklist.tasks),
        notices=notices,
        lost=tuple(task for task in checklist.lost if task.id not in skipped),
    )


def _add(tasks: dict[str, Task], new: Sequence[NewTask], by: str) -> None:
    count = len(tasks) + len(new)
    if new and count > MAX_TASKS:
        message = f"there would be {count} tasks, and {MAX_TASKS} are allowed; plan fewer and larger ones"
        raise PatchRefused(message, code="too_many_tasks")
    for task in new:
        if task.id in tasks:
            message = f"there is a task {task.id} already; take another id"
            raise PatchRefused(message, code="duplicate_task")
        tasks[task.id] = Task(
            id=task.id,
            title=_text(task.title, f"the title of {task.id}", MAX_TITLE),
            owner=task.owner or by,
            creator=by,
            note=_text(task.note, f"the note of {task.id}", MAX_NOTE, may_be_empty=True),
            depends_on=tuple(dict.fromkeys(task.depends_on)),
        )
    _check_dependencies(tasks, new)


def _check_dependencies(tasks: Mapping[str, Task], new: Sequence[NewTask]) -> None:
    for task in new:
        for needed in task.depends_on:
            if needed not in tasks:
                message = f"{task.id} is to depend on {needed[:40]!r}, which is no task; {_known(tasks)}"
                raise PatchRefused(message, code="bad_dependency")
    try:
        # Earlier tasks cannot depend on new ones, so a circle is always among the new ones.
        TopologicalSorter({task.id: task.depends_on for task in new}).prepare()
    except CycleError as error:
        circle = " → ".join(reversed(error.args[1]))
        message = f"these tasks would wait for each other for ever: {circle}; leave one of the dependencies out"
        raise PatchRefused(message, code="bad_dependency") from error


def _change(tasks: dict[str, Task], patch: Patch, checklist: Checklist, by: str) -> None:
    seen: set[str] = set()
    for change in patch.changes:
        if change.id in seen:
            message = f"{change.id} is in the patch twice; put all of its fields into one change"
            raise PatchRefused(message, code="duplicate_task")
        seen.add(change.id)
        task = tasks.get(change.id)
        if task is None:
            message = f"there is no task {change.id[:40]!r}; {_known(tasks)}"
            raise PatchRefused(message, code="unknown_task")
        _check_version(task, change, patch, checklist)
        if by not in (task.owner, task.creator):
            remedy = f"leave it to {task.owner}, or plan a task of your own"
            message = f"{task.id} belongs to {task.owner}, and you are {by}; {remedy}"
            raise PatchRefused(message, code="not_owner")
        tasks[task.id] = _changed(task, change, tasks)


def _check_version(task: Task, change: TaskChange, patch: Patch, checklist: Checklist) -> None:
    if change.version is not None:
        if change.version != task.version:
            versions = f"{task.id} is at version {task.version}, and you changed version {change.version}"
            raise PatchRefused(f"{versions}; it now reads: {task_line(task)}", code="stale_version")
    elif patch.version != checklist.version:
        named = "no version" if patch.version is None else f"version {patch.version}"
        versions = f"the checklist is at version {checklist.version}, and you named {named}"
        remedy = "look at it as it is now, then send what still holds"
        raise PatchRefused(f"{versions}; {remedy}", code="stale_version")


def _changed(task: Task, change: TaskChange, tasks: Mapping[str, Task]) -> Task:
    news: dict[str, object] = {"version": task.version + 1}
    if change.title is not None:
        news["title"] = _text(change.title, f"the title of {task.id}", MAX_TITLE)
    if change.note is not None:
        news["note"] = _text(change.note, f"the note of {task.id}", MAX_NOTE, may_be_empty=True)
    if change.owner is not None:
        news["owner"] = change.owner
    if change.status is not None and change.status != task.status:
        _check_transition(task, change.status, tasks)
        news["status"] = change.status
    return replace(task, **news)


def _check_transition(task: Task, status: str, tasks: Mapping[str, Task]) -> None:
    if status not in TRANSITIONS[task.status]:
        nothing = "nothing else any more; plan a new task for what is left"
        can = " or ".join(TRANSITIONS[task.status]) or nothing
        message = f"{task.id} is {task.status} and cannot become {status[:40]!r}; it can become {can}"
        raise PatchRefused(message, code="bad_transition")
    needed = [tasks[task_id] for task_id in task.depends_on if task_id in tasks]
    waits = [f"{each.id} ({each.status})" for each in needed if each.status not in _SETTLED]
    if waits and status in ("in_progress", "completed"):
        message = f"{task.id} waits for {', '.join(waits)}; complete or skip that first"
        raise PatchRefused(message, code="dependency_open")


def _noticed(notices: Sequence[Notice], patch: Patch) -> tuple[Notice, ...]:
    found = {(notice.kind, notice.text): notice for notice in notices}
    for given in patch.settled:
        text = _text(given, "what is settled", MAX_NOTE)
        settled = [notice for notice in found.values() if notice.text == text and notice.is_open]
        if not settled:
            known = "; ".join(repr(notice.text) for notice in found.values() if notice.is_open) or "none"
            remedy = f"repeat it word for word. Open are: {known}"
            message = f"no blocker or question {text[:80]!r} is open; {remedy}"
            raise PatchRefused(message, code="unknown_notice")
        found |= {(notice.kind, text): replace(notice, version=notice.version + 1) for notice in settled}
    raised = [Notice(kind="question", text=_text(text, "a question", MAX_NOTE)) for text in patch.questions]
    if patch.blocker:
        raised.append(Notice(kind="blocker", text=_text(patch.blocker, "the blocker", MAX_NOTE)))
    for notice in raised:
        before = found.setdefault((notice.kind, notice.text), notice)
        if not before.is_open:
            found[notice.kind, notice.text] = replace(notice, version=before.version + 1)
    if len(found) > max(MAX_NOTICES, len(notices)):
        message = f"a checklist has room for {MAX_NOTICES} blockers and questions; put several into one"
        raise PatchRefused(message, code="too_many_notices")
    return tuple(sorted(found.values(), key=lambda notice: (notice.kind, notice.text)))


def _allowed(item: object, fields: Collection[str]) -> object:
    """Return the fields of a task that a model set, without those that are null."""
    if not isinstance(item, Mapping):
        return item
    if unknown := [str(name) for name in item if name not in fields]:
        can = ", ".join(name for name in fields if name not in ("id", "version"))
        message = f"{unknown[0][:40]!r} is nothing that you can set in a task; you can set: {can}"
        raise PatchRefused(message, code="forbidden_field")
    return {name: value for name, value in item.items() if value is not None}


def _text(text: str, what: str, limit: int, *, may_be_empty: bool = False) -> str:
    """Return the text on one line, without control characters."""
    printable = "".join(" " if unicodedata.category(c) == "Cc" else c for c in clean_text(text))
    visible = " ".join(printable.split())
    if len(visible) > limit:
        message = f"{what} has {len(visible)} characters, and {limit} are allowed; make it shorter"
        raise PatchRefused(message, code="text_too_long")
    if not visible and not may_be_empty:
        raise PatchRefused(f"{what} is empty; write at least a word", code="invalid_patch")
    return visible


def _known(tasks: Collection[str]) -> str:
    return f"there are: {', '.join(tasks)}" if tasks else "there are none yet; plan_tasks makes some"
