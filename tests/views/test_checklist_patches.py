"""Patches: what each may do, and how it is refused; the sentences are what a model reads."""

from typing import Any

import msgspec
import pytest
from hypothesis import given

from stellwerk.errors import PatchRefused
from stellwerk.views.checklist import MAX_NOTICES, MAX_TASKS, TRANSITIONS, Checklist, Task, markdown, next_ids
from tests.views.checklists import (
    AGENTS,
    BOSS,
    DOCS,
    GIT,
    PATCH,
    WORK,
    attempted,
    change,
    patched,
    status_of,
    two_tasks,
    worked,
)


def refused(checklist: Checklist, *, by: str = BOSS, **patch: Any) -> PatchRefused:
    before = markdown(checklist)
    with pytest.raises(PatchRefused) as caught:
        patched(checklist, by=by, **patch)
    assert markdown(checklist) == before
    return caught.value


# What a patch does


def test_a_patch_raises_the_version_by_one_and_that_of_each_task_it_touches() -> None:
    before = two_tasks()
    after = patched(before, version=1, changes=change("t1", status="in_progress", title="Find a name"))
    assert (before.version, after.version, after.tasks[0].title) == (1, 2, "Find a name")
    assert [(task.id, task.version) for task in after.tasks] == [("t1", 2), ("t2", 1)]


def test_a_task_belongs_to_its_creator_unless_another_owner_is_named() -> None:
    assert [(task.owner, task.creator) for task in two_tasks().tasks] == [(BOSS, BOSS), (GIT, BOSS)]


@pytest.mark.parametrize("by", [GIT, BOSS], ids=["its owner", "its creator"])
def test_a_task_can_be_changed_by(by: str) -> None:
    assert patched(two_tasks(), by=by, version=1, changes=change("t2", status="skipped")).version == 2


def test_a_task_is_handed_over_by_naming_its_new_owner() -> None:
    after = patched(two_tasks(), by=GIT, version=1, changes=change("t2", owner=DOCS))
    assert refused(after, by=GIT, version=2, changes=change("t2", note="still mine?")).code == "not_owner"
    assert patched(after, by=DOCS, version=2, changes=change("t2", note="mine")).version == 3


def test_the_version_of_a_task_does_in_place_of_that_of_the_checklist() -> None:
    later = patched(two_tasks(), version=1, changes=change("t1", note="x"))
    assert patched(later, by=GIT, changes=change("t2", version=1, note="unchanged since")).version == 3


def test_changes_are_made_in_order_so_one_patch_can_finish_a_task_and_begin_the_next() -> None:
    done = [*change("t1", status="completed"), *change("t2", status="in_progress")]
    assert status_of(patched(two_tasks(), version=1, changes=done)) == {"t1": "completed", "t2": "in_progress"}


def test_what_a_model_leaves_open_as_null_is_left_as_it_is() -> None:
    after = patched(two_tasks(), version=1, blocker=None, changes=change("t1", status="in_progress", title=None))
    assert after.tasks[0].title == "Name the project"


def test_ids_go_on_where_they_stopped_and_those_of_a_branch_have_its_name() -> None:
    checklist = two_tasks()
    assert next_ids(checklist, 2) == ["t3", "t4"]
    assert next_ids(checklist, 1, branch="s1.s2") == ["s1.s2.t1"]


def test_blockers_and_questions_are_open_until_they_are_settled_and_can_come_back() -> None:
    asked = patched(Checklist(), blocker="no access", questions=["Which licence?", "Public?"])
    assert (asked.blocker, asked.open_questions) == ("no access", ("Public?", "Which licence?"))
    settled = patched(asked, by=GIT, settled=["no access", "Public?"])
    assert (settled.blocker, settled.open_questions) == (None, ("Which licence?",))
    assert patched(settled, questions=["Public?"]).open_questions == ("Public?", "Which licence?")


def test_a_plan_that_takes_the_place_of_another_skips_what_is_open_of_it_and_settles_its_obstacles() -> None:
    before = patched(patched(two_tasks(), changes=change("t1", status="completed", version=1)), blocker="no access")
    after = patched(before, tasks=[{"id": "t3", "title": "Begin anew"}], instead=True)
    assert [task.status for task in after.tasks] == ["completed", "skipped", "pending"]
    assert (after.blocker, after.version) == (None, before.version + 1)
    beside = patched(before, by=DOCS, branch="s1", tasks=[{"id": "s1.t1", "title": "Look"}], instead=True)
    assert [task.status for task in beside.tasks] == ["completed", "pending", "pending"]
    assert beside.blocker == "no access"


# What is refused, and how it is explained


@pytest.mark.requirement("004.patches.version")
def test_an_old_version_is_refused_and_the_newest_is_named() -> None:
    later = patched(two_tasks(), version=1, changes=change("t1", note="x"))
    whole = refused(later, version=1, changes=change("t1", status="completed"))
    assert (whole.code, "is at version 2, and you named version 1" in whole.message) == ("stale_version", True)
    single = refused(later, changes=change("t1", version=1, status="completed"))
    assert (single.code, "t1 is at version 2, and you changed version 1" in single.message) == ("stale_version", True)
    assert refused(later, changes=change("t1", status="completed")).code == "stale_version"


@pytest.mark.requirement("004.patches.owner")
def test_a_change_of_another_agents_task_is_rejected_with_its_owner() -> None:
    error = refused(two_tasks(), by=GIT, version=1, changes=change("t1", status="completed"))
    assert (error.code, "t1 belongs to boss, and you are git" in error.message) == ("not_owner", True)


@pytest.mark.requirement("004.patches.fields")
@pytest.mark.parametrize("field", ["creator", "depends_on", "created_at", "__class__"])
def test_a_field_that_cannot_be_set_is_rejected_with_those_that_can(field: str) -> None:
    error = refused(two_tasks(), version=1, changes=change("t1", **{field: "x"}))
    assert (error.code, "you can set: title, note, status, owner" in error.message) == ("forbidden_field", True)


@pytest.mark.parametrize("before", TRANSITIONS)
@pytest.mark.parametrize("after", TRANSITIONS)
def test_a_status_changes_only_as_the_table_says(before: Any, after: Any) -> None:
    task = Task(id="t1", title="x", owner=BOSS, creator=BOSS, status=before)
    checklist = Checklist(tasks=(task,))
    if after in (before, *TRANSITIONS[before]):
        assert patched(checklist, version=0, changes=change("t1", status=after)).tasks[0].status == after
    else:
        assert refused(checklist, version=0, changes=change("t1", status=after)).code == "bad_transition"


def test_a_status_that_does_not_exist_is_refused_with_those_that_do() -> None:
    error = refused(two_tasks(), version=1, changes=change("t1", status="done"))
    assert error.message == (
        "t1 is pending and cannot become 'done'; it can become in_progress or completed or blocked or skipped"
    )


def test_a_task_cannot_begin_before_those_it_depends_on_have_ended() -> None:
    error = refused(two_tasks(), by=GIT, version=1, changes=change("t2", status="in_progress"))
    assert (error.code, "t2 waits for t1 (pending)" in error.message) == ("dependency_open", True)


def test_a_patch_is_applied_whole_or_not_at_all() -> None:
    good_and_bad = [*change("t1", status="completed"), *change("t9", status="completed")]
    error = refused(two_tasks(), version=1, changes=good_and_bad)
    assert (error.code, error.message) == ("unknown_task", "there is no task 't9'; there are: t1, t2")


@pytest.mark.parametrize(
    ("patch", "code"),
    [
        ({}, "invalid_patch"),
        ({"changes": "t1 is done"}, "invalid_patch"),
        ({"changes": ["t1"]}, "invalid_patch"),
        ({"version": "1", "changes": change("t1")}, "invalid_patch"),
        ({"tasks": [{"id": "first", "title": "x"}]}, "invalid_patch"),
        ({"tasks": [{"id": "t3"}]}, "invalid_patch"),
        ({"tasks": [{"id": "t3", "title": " \n\t\x07"}]}, "invalid_patch"),
        ({"tasks": [{"id": "t3", "title": "x", "owner": "no such name"}]}, "invalid_patch"),
        ({"tasks": [{"id": "t3", "title": "x" * 201}]}, "text_too_long"),
        ({"tasks": [{"id": "t3", "title": "x", "status": "completed"}]}, "forbidden_field"),
        ({"tasks": [{"id": "t1", "title": "again"}]}, "duplicate_task"),
        ({"version": 1, "changes": change("t1", note="a") + change("t1", note="b")}, "duplicate_task"),
        ({"tasks": [{"id": "t3", "title": "x", "depends_on": ["t9"]}]}, "bad_dependency"),
        ({"tasks": [{"id": "t3", "title": "x", "depends_on": ["t3"]}]}, "bad_dependency"),
        ({"tasks": [{"id": f"t{n}", "title": "x"} for n in range(3, MAX_TASKS + 2)]}, "too_many_tasks"),
        ({"settled": ["never asked"]}, "unknown_notice"),
        ({"questions": [f"{n}?" for n in range(MAX_NOTICES + 1)]}, "too_many_notices"),
        ({"questions": ["?" * 2001]}, "text_too_long"),
    ],
    ids=lambda value: value if isinstance(value, str) else str(value)[:50],
)
def test_what_cannot_be_is_refused(patch: dict[str, Any], code: str) -> None:
    assert refused(two_tasks(), **patch).code == code


def test_a_circle_of_dependencies_is_shown() -> None:
    circle = [{"id": f"t{n}", "title": "x", "depends_on": [f"t{n % 3 + 1}"]} for n in (1, 2, 3)]
    error = refused(Checklist(), tasks=circle)
    assert error.code == "bad_dependency"
    assert any(f"{way}" in error.message for way in ("t1 → t2 → t3 → t1", "t2 → t3 → t1 → t2", "t3 → t1 → t2 → t3"))


@given(WORK, AGENTS, PATCH)
def test_a_patch_is_counted_once_or_changes_nothing(work: Any, by: str, patch: dict[str, Any]) -> None:
    before = worked(two_tasks(), work)
    stored = msgspec.json.encode(before)
    try:
        after = attempted(before, patch, by=by)
        assert after.version == before.version + 1
    except PatchRefused as error:
        assert error.code
        assert error.message
    assert msgspec.json.encode(before) == stored
