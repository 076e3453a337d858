"""Patches: the only way to change a checklist. Each is applied whole, or refused with a sentence that helps.

A patch names the version it was made for, changes only what its author may
change, and only in the ways of the table. The sentences of refusals are read
by models: each says what is the case and what to do now.
"""

import re
import unicodedata
from collections.abc import Collection, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from stellwerk.envelope.canonical import clean_text
from stellwerk.errors import PatchRefused
from stellwerk.views.checklist import TRANSITIONS, Checklist, Notice, Task, TaskId, order_of, task_line

MAX_TASKS = 200
MAX_NOTICES = 100
MAX_TITLE = 200
MAX_NOTE = 2000

_AGENT = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_SETTLED = ("completed", "skipped")


class NewTask(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    id: TaskId
    title: str
    owner: str | None = None
    """Its creator, if nobody is named."""
    note: str = ""
    depends_on: tuple[str, ...] = ()


class TaskChange(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is to change in one task; ``None`` leaves a field as it is."""

    id: str
    version: int | None = None
    """Of the task; then the version of the checklist does not matter."""
    title: str | None = None
    note: str | None = None
    status: str | None = None
    owner: str | None = None


class Patch(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    version: int | None = None
    """Of the checklist that the changes were made for."""
    tasks: tuple[NewTask, ...] = ()
    instead: bool = False
    """The new tasks take the place of what their author planned before."""
    changes: tuple[TaskChange, ...] = ()
    blocker: str | None = None
    questions: tuple[str, ...] = ()
    settled: tuple[str, ...] = ()
    """Blockers and questions that are none any more, word for word."""


def patch_of(raw: Mapping[str, Any]) -> Patch:
    """A patch from plain data, such as a model gives.

    Raises:
        PatchRefused: a field that nobody may set, or a value of the wrong kind.
    """
    given = {name: value for name, value in raw.items() if value is not None}
    for name, kind in (("tasks", NewTask), ("changes", TaskChange)):
        if isinstance(given.get(name), list):
            given[name] = [_allowed(item, kind.__struct_fields__) for item in given[name]]
    try:
        return msgspec.convert(given, type=Patch)
    except msgspec.ValidationError as error:
        raise PatchRefused(f"this cannot be read: {error}; correct it and call again", code="invalid_patch") from error


def apply(checklist: Checklist, patch: Patch, *, by: str, branch: str = "") -> Checklist:
    """The checklist with the whole patch applied; its version goes up by one, and that of every task in it.

    Raises:
        PatchRefused: something in the patch does not fit, so nothing of it was applied.
    """
    if not (patch.tasks or patch.changes or patch.blocker or patch.questions or patch.settled):
        raise PatchRefused("there is nothing in it to be done; say what is to change", code="invalid_patch")
    before = _set_aside(checklist, by, branch) if patch.instead else checklist
    tasks = {task.id: task for task in before.tasks}
    _add(tasks, patch.tasks, by)
    _change(tasks, patch, checklist, by)
    made = {**checklist.patches, branch: checklist.patches.get(branch, 0) + 1}
    changed = {change.id for change in patch.changes}
    return Checklist(
        version=checklist.version + 1,
        tasks=tuple(sorted(tasks.values(), key=lambda task: order_of(task.id))),
        notices=_noticed(before.notices, patch),
        lost=tuple(task for task in before.lost if task.id not in changed),
        patches=dict(sorted(made.items())),
    )


def next_ids(checklist: Checklist, count: int, *, branch: str = "") -> list[TaskId]:
    """The ids that come next in a branch: they follow from the checklist alone."""
    prefix = f"{branch}.t" if branch else "t"
    own = [task.id.removeprefix(prefix) for task in checklist.tasks if task.id.startswith(prefix)]
    last = max((int(number) for number in own if number.isdigit()), default=0)
    return [f"{prefix}{last + n}" for n in range(1, count + 1)]


def _set_aside(checklist: Checklist, by: str, branch: str) -> Checklist:
    """A plan that another takes the place of: what is open of it is skipped, and its obstacles are none any more."""
    dropped = {t.id: t for t in checklist.tasks if by in (t.owner, t.creator) and t.status not in _SETTLED}
    skipped = {name: replace(task, status="skipped", version=task.version + 1) for name, task in dropped.items()}
    settled = tuple(replace(notice, version=notice.version + notice.is_open) for notice in checklist.notices)
    return replace(
        checklist,
        tasks=tuple(skipped.get(task.id, task) for task in checklist.tasks),
        notices=checklist.notices if branch else settled,  # nobody knows whose they are; a sub-agent may not settle all
        lost=tuple(task for task in checklist.lost if task.id not in dropped),
    )


def _add(tasks: dict[str, Task], new: Sequence[NewTask], by: str) -> None:
    if new and len(tasks) + len(new) > MAX_TASKS:
        raise PatchRefused(
            f"there would be {len(tasks) + len(new)} tasks, and {MAX_TASKS} are allowed; plan fewer and larger ones",
            code="too_many_tasks",
        )
    for task in new:
        if task.id in tasks:
            raise PatchRefused(f"there is a task {task.id} already; take another id", code="duplicate_task")
        tasks[task.id] = Task(
            id=task.id,
            title=_text(task.title, f"the title of {task.id}", MAX_TITLE),
            owner=by if task.owner is None else _agent(task.owner),
            creator=by,
            note=_text(task.note, f"the note of {task.id}", MAX_NOTE, may_be_empty=True),
            depends_on=tuple(dict.fromkeys(task.depends_on)),
        )
    _check_dependencies(tasks, new)


def _check_dependencies(tasks: Mapping[str, Task], new: Sequence[NewTask]) -> None:
    for task in new:
        for needed in task.depends_on:
            if needed not in tasks:
                raise PatchRefused(
                    f"{task.id} is to depend on {needed[:40]!r}, which is no task; {_known(tasks)}",
                    code="bad_dependency",
                )
    try:
        # Tasks that were there before cannot depend on new ones, so a circle can only be among these.
        TopologicalSorter({task.id: task.depends_on for task in new}).prepare()
    except CycleError as error:
        circle = " → ".join(reversed(error.args[1]))
        raise PatchRefused(
            f"these tasks would wait for each other for ever: {circle}; leave one of the dependencies out",
            code="bad_dependency",
        ) from error


def _change(tasks: dict[str, Task], patch: Patch, checklist: Checklist, by: str) -> None:
    seen: set[str] = set()
    for change in patch.changes:
        if change.id in seen:
            raise PatchRefused(
                f"{change.id} stands in the patch twice; put all of its fields into one change", code="duplicate_task"
            )
        seen.add(change.id)
        task = tasks.get(change.id)
        if task is None:
            raise PatchRefused(f"there is no task {change.id[:40]!r}; {_known(tasks)}", code="unknown_task")
        _check_version(task, change, patch, checklist)
        if by not in (task.owner, task.creator):
            raise PatchRefused(
                f"{task.id} belongs to {task.owner}, and you are {by}; leave it to {task.owner}, or plan a task of "
                "your own",
                code="not_owner",
            )
        tasks[task.id] = _changed(task, change, tasks)


def _check_version(task: Task, change: TaskChange, patch: Patch, checklist: Checklist) -> None:
    if change.version is not None:
        if change.version != task.version:
            raise PatchRefused(
                f"{task.id} is at version {task.version}, and you changed version {change.version}; it now reads: "
                f"{task_line(task)}",
                code="stale_version",
            )
    elif patch.version != checklist.version:
        named = "no version" if patch.version is None else f"version {patch.version}"
        raise PatchRefused(
            f"the checklist is at version {checklist.version}, and you named {named}; look at it as it is now, "
            "then send what still holds",
            code="stale_version",
        )


def _changed(task: Task, change: TaskChange, tasks: Mapping[str, Task]) -> Task:
    news: dict[str, object] = {"version": task.version + 1}
    if change.title is not None:
        news["title"] = _text(change.title, f"the title of {task.id}", MAX_TITLE)
    if change.note is not None:
        news["note"] = _text(change.note, f"the note of {task.id}", MAX_NOTE, may_be_empty=True)
    if change.owner is not None:
        news["owner"] = _agent(change.owner)
    if change.status is not None and change.status != task.status:
        _check_transition(task, change.status, tasks)
        news["status"] = change.status
    return replace(task, **news)


def _check_transition(task: Task, status: str, tasks: Mapping[str, Task]) -> None:
    if status not in TRANSITIONS[task.status]:
        can = " or ".join(TRANSITIONS[task.status]) or "nothing else any more; plan a new task for what is left"
        raise PatchRefused(
            f"{task.id} is {task.status} and cannot become {status[:40]!r}; it can become {can}", code="bad_transition"
        )
    waits = [tasks[needed] for needed in task.depends_on if needed in tasks and tasks[needed].status not in _SETTLED]
    if waits and status in ("in_progress", "completed"):
        raise PatchRefused(
            f"{task.id} waits for {', '.join(f'{needed.id} ({needed.status})' for needed in waits)}; complete or skip "
            "that first",
            code="dependency_open",
        )


def _noticed(notices: Sequence[Notice], patch: Patch) -> tuple[Notice, ...]:
    found = {(notice.kind, notice.text): notice for notice in notices}
    for given in patch.settled:
        text = _text(given, "what is settled", MAX_NOTE)
        settled = [notice for notice in found.values() if notice.text == text and notice.is_open]
        if not settled:
            known = "; ".join(repr(notice.text) for notice in found.values() if notice.is_open) or "none"
            raise PatchRefused(
                f"no blocker or question {text[:80]!r} is open; repeat it word for word. Open are: {known}",
                code="unknown_notice",
            )
        found |= {(notice.kind, text): replace(notice, version=notice.version + 1) for notice in settled}
    raised = [Notice(kind="question", text=_text(text, "a question", MAX_NOTE)) for text in patch.questions]
    if patch.blocker:
        raised.append(Notice(kind="blocker", text=_text(patch.blocker, "the blocker", MAX_NOTE)))
    for notice in raised:
        before = found.get((notice.kind, notice.text))
        if before is None or not before.is_open:
            version = before.version + 1 if before else 1
            found[notice.kind, notice.text] = replace(notice, version=version)
    if len(found) > max(MAX_NOTICES, len(notices)):
        raise PatchRefused(
            f"a checklist has room for {MAX_NOTICES} blockers and questions; put several into one",
            code="too_many_notices",
        )
    return tuple(sorted(found.values(), key=lambda notice: (notice.kind, notice.text)))


def _allowed(item: object, fields: Collection[str]) -> object:
    """What a model gave for a task, without the fields that it left open as null."""
    if not isinstance(item, Mapping):
        return item
    if unknown := [str(name) for name in item if name not in fields]:
        can = ", ".join(name for name in fields if name not in ("id", "version"))
        raise PatchRefused(
            f"{unknown[0][:40]!r} is nothing that you can set in a task; you can set: {can}", code="forbidden_field"
        )
    return {name: value for name, value in item.items() if value is not None}


def _text(text: str, what: str, limit: int, *, may_be_empty: bool = False) -> str:
    """Text on one line, without control characters."""
    printable = "".join(" " if unicodedata.category(c) == "Cc" else c for c in clean_text(text))
    visible = " ".join(printable.split())
    if len(visible) > limit:
        raise PatchRefused(
            f"{what} has {len(visible)} characters, and {limit} are allowed; make it shorter", code="text_too_long"
        )
    if not visible and not may_be_empty:
        raise PatchRefused(f"{what} is empty; write at least a word", code="invalid_patch")
    return visible


def _agent(name: str) -> str:
    if not _AGENT.fullmatch(name):
        raise PatchRefused(
            f"{name[:80]!r} is no name of an agent; take letters, digits, - and _, at most 64", code="invalid_patch"
        )
    return name


def _known(tasks: Collection[str]) -> str:
    return f"there are: {', '.join(tasks)}" if tasks else "there are none yet; plan_tasks makes some"
