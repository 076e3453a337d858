"""The state that AG-UI clients share: whole at first, then patches, and never out of step."""

from functools import reduce
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stellwerk.dialects.agui.dialect import DIALECT
from stellwerk.dialects.base import translate
from stellwerk.dialects.langgraph import runs
from stellwerk.views.checklist import Checklist, fold, to_json
from tests.dialects.agui_rules import Chunk, Client, problems
from tests.dialects.langgraph_clients import Hook, received
from tests.dialects.sample_logs import Story, inner_graphs, positions
from tests.golden.files import stored

TODOS = [{"content": "write", "status": "pending"}]


def chunks(story: Story) -> list[Chunk]:
    told = [chunk for _, chunk in translate(DIALECT.translator("s1"), positions(story.checked()))]
    assert problems(told) == []
    return told


def kinds(told: list[Chunk]) -> list[str]:
    return [chunk["type"] for chunk in told if chunk["type"].startswith("STATE_")]


def test_the_first_state_of_a_run_is_the_whole_and_the_next_ones_are_patches() -> None:
    told = chunks(inner_graphs())
    assert kinds(told) == ["STATE_SNAPSHOT", *["STATE_DELTA"] * 3]
    assert Client().read(told).state == {
        "agents": {"#0f3c": {"todos": [{"content": "inner", "status": "pending"}]}},
        "todos": [{"content": "write", "status": "in_progress"}],
        "files": {"c": "C"},
    }


def test_a_run_begins_with_the_state_that_the_one_before_it_left() -> None:
    story = Story().begin().state("todos", 1, snapshot=TODOS).end().begin("more")
    story.state("files", 1, patch=[{"op": "add", "path": "/a", "value": "A"}])
    told = chunks(story.end())
    assert kinds(told) == ["STATE_SNAPSHOT", "STATE_SNAPSHOT", "STATE_DELTA"]
    second = told[[chunk["type"] for chunk in told].index("RUN_FINISHED") + 1 :]
    assert Client().read(second).state == {"todos": TODOS, "files": {"a": "A"}}, "a client that comes later has it too"


def test_a_to_do_list_is_also_an_activity_one_for_each_agent() -> None:
    assert Client().read(chunks(inner_graphs())).activities("TODO") == [
        {"name": "todos", "tasks": [{"content": "inner", "status": "pending"}]},
        {"name": "todos", "tasks": [{"content": "write", "status": "in_progress"}]},
    ]


def test_a_checklist_that_changes_is_the_same_activity() -> None:
    story = Story().begin()
    for version, status in enumerate(("pending", "completed"), 1):
        story.state("checklist", version, snapshot={"version": version, "tasks": [{"id": "t1", "status": status}]})
    (shown,) = Client().read(chunks(story.end())).activities("TODO")
    assert shown == {"name": "checklist", "version": 2, "tasks": [{"id": "t1", "status": "completed"}]}


@pytest.mark.parametrize(
    "patch, left",
    [
        ([{"op": "remove", "path": "/gone"}, {"op": "add", "path": "/b", "value": 1}], {"a": [1, 2], "b": 1}),
        ([{"op": "add", "path": "/a", "value": 5}, {"op": "remove", "path": "/b"}], {"a": 5}),
        ([{"op": "remove", "path": "/a"}], {}),
    ],
)
def test_a_key_that_is_not_there_is_not_removed_and_the_rest_is_applied(patch: list[Any], left: Any) -> None:
    story = (
        Story().begin().state("plan", 1, snapshot={"a": [1, 2]}).state("plan", 2, patch=patch).end().begin("x").end()
    )
    told = chunks(story)
    live = Client().read(told[: [chunk["type"] for chunk in told].index("RUN_FINISHED")])
    assert live.state == Client().read(told).state == {"plan": left}, "as it was patched, and as the next run tells it"


NAMES = st.sampled_from(["todos", "files", "plan", "a/b", "m~n"])
VALUES = st.recursive(st.none() | st.integers() | st.text(max_size=3), lambda v: st.dictionaries(NAMES, v, max_size=3))
SNAPSHOTS = st.fixed_dictionaries({"snapshot": VALUES})
POINTERS = NAMES.map(lambda name: "/" + name.replace("~", "~0").replace("/", "~1"))
OPERATIONS = st.fixed_dictionaries({"op": st.sampled_from(["add", "remove"]), "path": POINTERS, "value": VALUES})
CHANGES = SNAPSHOTS | st.fixed_dictionaries({"patch": st.lists(OPERATIONS, max_size=3)})


@given(st.lists(st.tuples(NAMES, CHANGES, st.booleans(), st.booleans()), max_size=8))
def test_whatever_changes_live_clients_and_late_ones_have_the_same_state(changes: list[Any]) -> None:
    story = Story().begin().use("task", "c1", {}, kind="agent")
    for version, (name, change, inside, again) in enumerate(changes):
        story.state(name, version, "#c1" if inside else None, **change)
        if again:
            story.ask(f"q{version}", "?", "#c1").end("awaiting_user").begin(None, ask_ids=[f"q{version}"])
            story.answer(f"q{version}", "!")
    told = chunks(story.used("task", "c1").end().begin("late").end())
    cut = max(number for number, chunk in enumerate(told) if chunk["type"] == "RUN_STARTED")
    assert Client().read(told[:cut]).state == Client().read(told[cut:]).state


@pytest.mark.parametrize("name", ["checklist", "parallel-checklist"])
def test_a_checklist_that_tools_changed_side_by_side_is_whole_in_every_dialect(name: str) -> None:
    log = stored(name)
    told = [chunk for _, chunk in translate(DIALECT.translator("s1"), positions(log))]
    whole = to_json(reduce(fold, log, Checklist()))
    assert Client().read(told).state["checklist"] == whole
    assert Hook().read(received(runs.DIALECT, log)).values["checklist"] == whole
    assert {task["title"] for task in whole["tasks"]} >= {"Look"} | ({"Leap"} if "parallel" in name else set())
