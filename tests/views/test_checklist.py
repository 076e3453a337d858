"""The checklist as a view: its Markdown, the merging of copies, the fold over a log."""

from functools import reduce
from itertools import chain
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from stellwerk.envelope.model import State
from stellwerk.envelope.payloads import StateChanged
from stellwerk.errors import PatchRefused
from stellwerk.views.checklist import Checklist, fold, from_json, markdown, merged, to_json
from tests.samples import place, whole_run
from tests.views.checklists import BOSS, GIT, STRANGERS, WORK, change, copies, patched, status_of, two_tasks, worked

# The Markdown


@pytest.mark.requirement("004.markdown.deterministic")
def test_the_markdown_shows_everything_and_always_the_same() -> None:
    checklist = patched(two_tasks(), version=1, changes=change("t1", status="completed", note="It is *billing*."))
    checklist = patched(checklist, blocker="No access to the host", questions=["Public or private?"])
    assert markdown(checklist) == (
        "# Checklist\n"
        "\n"
        "Version 3, 1 of 2 tasks completed.\n"
        "\n"
        "- [x] **t1** Name the project (completed, boss, v2)\n"
        "  - It is \\*billing\\*.\n"
        "- [ ] **t2** Create the repository (pending, git, v1, after t1)\n"
        "\n"
        "## Blocker\n"
        "\n"
        "- No access to the host\n"
        "\n"
        "## Open questions\n"
        "\n"
        "- Public or private?\n"
    )


def test_an_empty_checklist_can_be_shown_too() -> None:
    assert markdown(Checklist()) == "# Checklist\n\nVersion 0, no tasks.\n"


NASTY = (
    "# x",
    "- x",
    "1. x",
    "10) x",
    "> x",
    "---",
    "===",
    "```x",
    "[x](javascript:1)",
    "![x](y)",
    "<b>",
    "&lt;",
    "\\",
)
TEXT = st.one_of(
    st.sampled_from(NASTY), st.text(min_size=1, max_size=60), st.text("\\`*_[]()<>#-+=.!|~&\n 1a", min_size=1)
)


@given(TEXT)
@example("0 \x08\r0")
def test_no_title_note_or_question_can_become_markup(text: str) -> None:
    try:
        written = patched(Checklist(), tasks=[{"id": "t1", "title": text, "note": text}], questions=[text])
    except PatchRefused:  # nothing in it that can be seen
        return
    (title,) = (task.title for task in written.tasks)
    parsed = MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(markdown(written))
    inner = list(chain.from_iterable(token.children or [] for token in parsed))
    allowed = {"heading", "paragraph", "bullet_list", "list_item", "inline"}
    assert {token.type.removesuffix("_open").removesuffix("_close") for token in parsed} <= allowed
    assert {token.type for token in inner} <= {"text", "strong_open", "strong_close", "text_special", "softbreak"}
    shown = ["".join(child.content for child in token.children or []) for token in parsed if token.type == "inline"]
    assert f"[ ] t1 {title} (pending, boss, v1)" in shown
    assert shown.count(title) >= 2


@given(WORK)
@pytest.mark.requirement("004.markdown.deterministic")
def test_equal_states_have_equal_markdown_however_they_were_stored(work: Any) -> None:
    checklist = worked(two_tasks(), work)
    again = from_json(msgspec.json.decode(msgspec.json.encode(to_json(checklist))))
    assert again == checklist
    assert markdown(again) == markdown(checklist)


# Copies that were changed side by side


@given(st.one_of(copies(), st.lists(STRANGERS, min_size=3, max_size=3)))
def test_a_merge_does_not_depend_on_order_grouping_or_repetition(three: list[Checklist]) -> None:
    a, b, c = three
    assert merged(a, a) == a
    assert merged(a, b) == merged(b, a)
    assert merged(merged(a, b), c) == merged(a, merged(b, c))
    assert merged(merged(a, b), b) == merged(a, b)


@given(st.one_of(copies(), st.lists(STRANGERS, min_size=3, max_size=3)))
def test_a_merge_keeps_every_newest_task_or_shows_that_it_lost(three: list[Checklist]) -> None:
    whole = reduce(merged, three)
    for task in chain.from_iterable(copy.tasks for copy in three):
        newest = whole.task(task.id)
        assert newest is not None
        assert task.version < newest.version or task in (newest, *whole.lost)
    assert whole.version >= max(copy.version for copy in three)


def test_two_branches_that_plan_and_report_at_the_same_time_lose_nothing() -> None:
    shared = two_tasks()
    left = patched(shared, by=BOSS, branch="s1", version=1, changes=change("t1", status="completed"))
    left = patched(left, by=GIT, branch="s1", tasks=[{"id": "s1.t1", "title": "left"}], questions=["left?"])
    right = patched(shared, by=GIT, branch="s2", version=1, changes=change("t2", note="right"))
    right = patched(right, by=GIT, branch="s2", tasks=[{"id": "s2.t1", "title": "right"}], questions=["right?"])
    both = merged(left, right)
    assert (both.version, both.lost, both.open_questions) == (5, (), ("left?", "right?"))
    assert status_of(both) == {"t1": "completed", "t2": "pending", "s1.t1": "pending", "s2.t1": "pending"}


def test_of_two_changes_of_one_task_at_the_same_time_the_loser_is_shown_until_the_task_changes_again() -> None:
    shared = two_tasks()
    noted = patched(shared, branch="s1", version=1, changes=change("t1", note="nearly"))
    done = patched(shared, branch="s2", version=1, changes=change("t1", status="completed"))
    both = merged(noted, done)
    assert status_of(both)["t1"] == "completed"
    assert "## Lost to a change made at the same time\n\n- [ ] **t1** Name the project" in markdown(both)
    assert patched(both, version=both.version, changes=change("t1", note="nearly, then done")).lost == ()


# The fold over a log


def told(snapshot: Any, name: str = "checklist") -> State:
    return State(**place("list", 1), payload=StateChanged(name=name, version=1, snapshot=snapshot))


@pytest.mark.requirement("004.markdown.state-leads")
def test_the_checklist_of_a_log_is_what_its_state_envelopes_say() -> None:
    checklist = two_tasks()
    log = [*whole_run(), told(to_json(checklist)), told({"t1": "gone"}, name="plan")]
    assert reduce(fold, log, None) == checklist
    # Markdown is a view: handing it in as state changes nothing.
    assert fold(checklist, told(markdown(checklist).replace("[ ]", "[x]"))) == checklist


def test_snapshots_of_tools_that_ran_side_by_side_are_merged() -> None:
    shared = two_tasks()
    left = patched(shared, branch="s1", version=1, changes=change("t1", note="left"))
    right = patched(shared, branch="s2", version=1, changes=change("t2", note="right"))
    both = reduce(fold, [told(to_json(left)), told(to_json(right))], shared)
    assert [task.note for task in both.tasks] == ["left", "right"]


@pytest.mark.parametrize("snapshot", [None, [], {"items": []}, {"tasks": [{"id": "x"}]}])
def test_a_foreign_state_of_the_same_name_is_left_alone(snapshot: Any) -> None:
    assert fold(None, told(snapshot)) == Checklist()
