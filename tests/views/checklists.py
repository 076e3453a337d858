"""Checklists for tests: small ones made by hand, and whatever agents could make of them."""

from typing import Any

from hypothesis import strategies as st

from stellwerk.errors import PatchRefused
from stellwerk.views.checklist import TRANSITIONS, Checklist, Notice, Task, apply, merged, patch_of

BOSS, GIT, DOCS = "boss", "git", "docs"


def patched(checklist: Checklist, *, by: str = BOSS, branch: str = "", **patch: Any) -> Checklist:
    return apply(checklist, patch_of(patch), by=by, branch=branch)


def two_tasks() -> Checklist:
    """t1 is the boss's own; t2 was planned by the boss for git, and waits for t1."""
    return patched(
        Checklist(),
        tasks=[
            {"id": "t1", "title": "Name the project"},
            {"id": "t2", "title": "Create the repository", "owner": GIT, "depends_on": ["t1"]},
        ],
    )


def change(task_id: str, **fields: Any) -> list[dict[str, Any]]:
    return [{"id": task_id, **fields}]


def status_of(checklist: Checklist) -> dict[str, str]:
    return {task.id: task.status for task in checklist.tasks}


# Checklists that agents have made: everybody patches as he likes, and what is refused is refused

NEWEST = -1
"""Stands for the version that the checklist has when the patch is made."""
AGENTS = st.sampled_from([BOSS, GIT, DOCS])
IDS = st.sampled_from(["t1", "t2", "t3", "s1.t1"])
TASK = st.fixed_dictionaries(
    {"id": st.sampled_from(["t1", "t3", "s1.t1"]), "title": st.sampled_from(["a", "b"])},
    optional={"owner": AGENTS, "depends_on": st.lists(IDS, max_size=1)},
)
CHANGE = st.fixed_dictionaries(
    {"id": IDS},
    optional={
        "version": st.integers(1, 3),
        "status": st.sampled_from(list(TRANSITIONS)),
        "note": st.sampled_from(["", "c"]),
        "creator": st.just(GIT),
    },
)
TALK = st.lists(st.sampled_from(["x?", "y?"]), max_size=2)
PATCH = st.fixed_dictionaries(
    {},
    optional={
        "version": st.sampled_from([NEWEST, NEWEST, 0, 1]),
        "tasks": st.lists(TASK, max_size=2),
        "instead": st.booleans(),
        "changes": st.lists(CHANGE, max_size=2),
        "blocker": st.sampled_from(["x?", "z"]),
        "questions": TALK,
        "settled": TALK,
    },
)
WORK = st.lists(st.tuples(AGENTS, PATCH), max_size=5)


def attempted(checklist: Checklist, patch: dict[str, Any], *, by: str, branch: str = "") -> Checklist:
    if patch.get("version") == NEWEST:
        patch = {**patch, "version": checklist.version}
    return patched(checklist, by=by, branch=branch, **patch)


def worked(checklist: Checklist, work: list[tuple[str, dict[str, Any]]], branch: str = "") -> Checklist:
    for by, patch in work:
        try:
            checklist = attempted(checklist, patch, by=by, branch=branch)
        except PatchRefused:
            continue
    return checklist


@st.composite
def copies(draw: st.DrawFn) -> list[Checklist]:
    """Three copies of one checklist, changed side by side; in branches of their own, or carelessly in the same one."""
    shared = worked(two_tasks(), draw(WORK))
    return [worked(shared, draw(WORK), draw(st.sampled_from(["", "s1", "s2"]))) for _ in range(3)]


FORM = st.builds(
    Task,
    id=IDS,
    title=st.just("a"),
    owner=st.just(BOSS),
    creator=st.just(BOSS),
    status=st.sampled_from(list(TRANSITIONS)),
    version=st.integers(1, 2),
)
SAID = st.builds(Notice, kind=st.sampled_from(["blocker", "question"]), text=st.just("x?"), version=st.integers(1, 3))
STRANGERS = st.builds(
    lambda tasks, notices, patches: merged(Checklist(), Checklist(tasks=tasks, notices=notices, patches=patches)),
    tasks=st.lists(FORM, max_size=3).map(tuple),
    notices=st.lists(SAID, max_size=2).map(tuple),
    patches=st.dictionaries(st.sampled_from(["", "s1"]), st.integers(1, 3)),
)
"""Checklists that have nothing to do with each other, and so contradict each other as often as possible."""
