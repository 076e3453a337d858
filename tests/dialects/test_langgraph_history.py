"""The history of a thread, folded from the log: checkpoints, what they hold, and what comes next."""

from typing import Any

import pytest

from stellwerk.dialects.langgraph.history import HISTORY_RECALLS, ThreadHistory
from stellwerk.envelope import model as m
from stellwerk.envelope import payloads as p
from tests.dialects.sample_logs import Story
from tests.dialects.test_langgraph_all_logs import LOGS


def saved(checkpoint_id: str, node: str) -> p.Checkpointed:
    return p.Checkpointed(checkpoint_id=checkpoint_id, node=node, state_digest="0")


def history_of(story: Story) -> ThreadHistory:
    history = ThreadHistory()
    for envelope in story.log:
        history.feed(envelope)
    return history


def one_round(story: Story, number: int) -> Story:
    """Input, the start of the graph, and an answer of its model."""
    story.begin(f"question {number}", message_id=f"m{number}")
    story.other(m.SubgraphCheckpoint, saved(f"k{number}0", "__start__"))
    story.other(m.SubgraphCheckpoint, saved(f"k{number}1", "__start__"))
    story.speak(f"a{number}", "fine").other(m.SubgraphCheckpoint, saved(f"k{number}2", "model"))
    return story.says("assistant", "fine ", f"a{number}").end()


def test_checkpoints_have_their_values_parents_and_next_nodes() -> None:
    found = history_of(one_round(one_round(Story(), 1), 2)).checkpoints
    assert [(each.checkpoint_id, each.parent_id, each.next) for each in found] == [
        ("k10", None, ("__start__",)),
        ("k11", "k10", ("model",)),
        ("k12", "k11", ()),
        ("k20", "k12", ("__start__",)),
        ("k21", "k20", ("model",)),
        ("k22", "k21", ()),
    ]
    assert [len(each.values["messages"]) for each in found] == [0, 1, 2, 2, 3, 4]
    assert [(each.source, each.step) for each in found[:3]] == [("input", -1), ("loop", 0), ("loop", 1)]


@pytest.mark.parametrize(("trigger", "parent"), [("regenerate", "k21"), ("message", "k20")])
def test_a_round_branches_off_where_clients_ask_for_another_answer_or_message(trigger: Any, parent: str) -> None:
    story = one_round(one_round(Story(), 1), 2)
    story.begin(None, message_id="m2", replaces="r2")
    start = story.log[-1]
    assert isinstance(start, m.RunStart)
    payload = p.RunStarted(round=3, trigger=trigger, system="desk", system_version=1, message_id="m2", replaces="r2")
    story.log[-1] = m.RunStart(
        ts=start.ts, trace_id="t3", run_id="r3", parent_id=None, call_id="r3", seq=1, payload=payload
    )
    story.other(m.SubgraphCheckpoint, saved("k30", "__start__"))
    found = history_of(story).checkpoints[-1]
    assert (found.parent_id, found.source) == (parent, "input")
    assert [message["content"] for message in found.values["messages"]] == ["question 1", "fine "]


def test_a_question_and_a_failure_are_tasks_of_the_last_checkpoint() -> None:
    story = Story().begin("go", message_id="m1").other(m.SubgraphCheckpoint, saved("k1", "__start__"))
    story.use("ask_user", "c1", {}).ask("q1", "Name?", "#c1", tool_call_id="c1").end("awaiting_user")
    history = history_of(story)
    assert history.latest is not None
    assert (history.latest.next, [asked["id"] for _, asked in history.latest.interrupts]) == (("tools",), ["q1"])
    story.begin(None).answer("q1", "Ada").used("ask_user", "c1", "Ada").think("b").thought("b", status="error")
    failed = history_of(story.end("failed", reason="the model is gone", code="failed")).latest
    assert failed is not None
    assert (failed.error, failed.next) == ("the model is gone", ("model",))


def test_a_history_that_recalls_what_was_before_has_the_same_checkpoints() -> None:
    for name, log in LOGS.items():
        whole = ThreadHistory()
        for envelope in log:
            whole.feed(envelope)
        starts = [n for n, e in enumerate(log) if isinstance(e, m.RunStart) and e.payload.trigger == "message"]
        recalled = ThreadHistory()
        recalled.recall([e for e in log[: starts[-1]] if m.type_of(e) in HISTORY_RECALLS])
        for envelope in log[starts[-1] :]:
            recalled.feed(envelope)
        count = len(recalled.checkpoints)
        assert recalled.checkpoints == whole.checkpoints[len(whole.checkpoints) - count :], name
        assert recalled.values == whole.values
