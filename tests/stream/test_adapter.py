from collections.abc import Iterable
from typing import Any

import pytest

from stellwerk.envelope.model import Envelope, Message, ToolStart, encode, type_of
from stellwerk.envelope.payloads import Usage
from stellwerk.stream.adapter import StreamAdapter
from stellwerk.stream.calls import OpenCalls
from stellwerk.stream.facts import (
    CallFailed,
    CheckpointSaved,
    Fact,
    MessageReturned,
    ModelFinished,
    ModelStarted,
    ModelToken,
    StepStarted,
    ToolFinished,
    ToolStarted,
)
from stellwerk.testing.order import order_problems
from tests.samples import run_end, run_start


def began(run: str = "m1", parent: str | None = None, agent: str = "boss") -> ModelStarted:
    return ModelStarted(1.0, run, parent, "gpt", agent, "model")


def done(run: str = "m1", text: str = "hi", calls: list[tuple[str, str, Any]] | None = None) -> ModelFinished:
    return ModelFinished(2.0, run, f"lc_run--{run}", text, "stop", 3, 4, calls or [])


def tool(run: str = "t1", parent: str | None = None, namespace: str = "tools:1") -> ToolStarted:
    return ToolStarted(3.0, run, parent, "look", "call_1", namespace, {"q": 1}, "boss", "tools")


def told(facts: Iterable[Fact], *, finish: bool = True) -> list[Envelope]:
    adapter, calls = StreamAdapter(trace_id="trace", run_id="run", agent="boss"), OpenCalls()
    calls.feed(run_start())
    envelopes = [calls.stamp(e) for fact in facts for e in adapter.feed(fact)]
    return envelopes + ([calls.stamp(e) for e in adapter.finish()] if finish else [])


def types(envelopes: list[Envelope]) -> list[str]:
    return [type_of(e) for e in envelopes]


def statuses(envelopes: list[Envelope]) -> list[str]:
    return [e.payload.status for e in envelopes if isinstance(e, Message)]


def test_a_model_call_is_start_tokens_end_and_the_message_when_it_is_final() -> None:
    story = told([began(), ModelToken(1.1, "m1", "h"), ModelToken(1.2, "m1", "i"), done()])
    assert types(story) == ["llm_start", "llm_token", "llm_token", "llm_end", "message"]
    assert statuses(story) == ["last"]
    assert {e.call_id for e in story[:4]} == {"lc_run--m1"}
    assert [e.seq for e in story[:4]] == [1, 2, 3, 4]


def test_text_before_a_tool_call_is_a_step() -> None:
    story = told(
        [began(), done(calls=[("look", "call_1", {})]), tool(), ToolFinished(3.5, "t1", "ok"), began("m2"), done("m2")]
    )
    assert statuses(story) == ["step", "last"]
    assert [t for t in types(story) if t != "llm_token"][2:5] == ["message", "tool_start", "tool_end"]


def test_an_answer_that_another_model_call_follows_was_a_step_after_all() -> None:
    assert statuses(told([began(), done(), began("m2"), done("m2")])) == ["step", "last"]


@pytest.mark.requirement(
    "002.envelope.parent-id", "002.ids.nested-tools-inherit-parent", "002.ids.nested-tools-count-alone"
)
def test_what_happens_inside_a_tool_belongs_to_it_however_deep_the_steps_between() -> None:
    inner: list[Fact] = [
        StepStarted("node", "t1"),
        StepStarted("deeper", "node"),
        began("m1", "deeper", agent="researcher"),
    ]
    story = told([tool(), *inner, tool("t2", "deeper", "tools:1|tools:2"), done("m1")])
    outer = story[0].call_id
    assert [e.parent_id for e in story] == ["run", outer, outer, outer, outer]
    assert (story[1].agent, story[1].seq, story[2].seq) == ("researcher", 1, 1)
    assert "message" not in types(story), "what a sub-agent says is no message of the conversation"


def test_two_calls_with_the_same_id_of_the_provider_differ_by_their_namespace() -> None:
    one, other = told([tool("t1", None, "tools:1"), tool("t2", None, "tools:2")])
    assert one.call_id != other.call_id


@pytest.mark.requirement("002.envelope.call-id-unique", "002.ids.stable-across-retries")
def test_a_repeated_call_keeps_the_id_of_its_model_and_has_a_call_id_of_its_own() -> None:
    tries = [("t1", "busy", True), ("t2", "busy", True), ("t3", "blue", False)]
    facts = [[tool(run), ToolFinished(3.5, run, text, failed=failed)] for run, text, failed in tries]
    one, two, three = [e for e in told([*facts[0], *facts[1], *facts[2]]) if isinstance(e, ToolStart)]
    assert {e.payload.tool_call_id for e in (one, two, three)} == {"call_1"}
    assert len({e.call_id for e in (one, two, three)}) == 3
    assert [e.payload.retry_of for e in (one, two, three)] == [None, one.call_id, two.call_id]


def test_the_same_facts_give_the_same_bytes() -> None:
    facts: list[Fact] = [began(), ModelToken(1.1, "m1", "x"), done(), tool(), ToolFinished(3.5, "t1", [{"a": 1}])]
    assert [encode(e) for e in told(facts)] == [encode(e) for e in told(facts)]


def test_a_tool_result_is_typed_and_timed() -> None:
    end = told([tool(), ToolFinished(3.25, "t1", [{"city": "Ulm"}])])[1]
    assert b'"result":{"kind":"table","columns":["city"],"rows":[["Ulm"]]}' in encode(end)
    assert b'"duration":0.25' in encode(end)


def test_a_result_that_reports_an_error_is_an_error() -> None:
    end = told([tool(), ToolFinished(3.25, "t1", "no such city", failed=True)])[1]
    assert b'"status":"error"' in encode(end)
    assert b'"error":{"message":"no such city","code":"tool_error"}' in encode(end)


@pytest.mark.requirement("002.mapping.tool-error")
@pytest.mark.parametrize("start, end", [(began("x"), "llm_end"), (tool("x"), "tool_end")], ids=["model", "tool"])
def test_a_call_that_raised_is_closed_and_recorded_as_an_error(start: Fact, end: str) -> None:
    story = told([start, CallFailed(4.0, "x", "ValueError", "boom")])
    assert types(story)[1:] == [end, "error"]
    assert b'"class":"ValueError"' in encode(story[2])
    assert b"stack" not in encode(story[2])


def test_a_message_without_a_model_call_is_recorded_and_a_streamed_one_is_not_repeated() -> None:
    returned = MessageReturned(5.0, "own-1", "from a node", "boss", asks_for_tools=False)
    spoken = MessageReturned(5.0, "lc_run--m1", "hi", "boss", asks_for_tools=False)
    assert statuses(told([began(), done(), spoken, returned])) == ["step", "last"]


def test_a_model_that_does_not_stream_says_all_at_its_end() -> None:
    story = told([began(), done(text="all at once")])
    assert types(story) == ["llm_start", "llm_token", "llm_end", "message"]


def test_what_is_open_inside_a_call_is_closed_before_it() -> None:
    inner: list[Fact] = [tool(), StepStarted("n", "t1"), began("m1", "n"), tool("t2", "n", "tools:1|tools:2")]
    story = [run_start(), *told([*inner, ToolFinished(9.0, "t1", "timed out", failed=True)]), run_end()]
    assert types(story)[-4:-1] == ["tool_end", "llm_end", "tool_end"]
    assert order_problems(story) == []


def test_usage_is_summed_per_model() -> None:
    adapter = StreamAdapter(trace_id="trace", run_id="run", agent="boss")
    for fact in (began(), done(), began("m2"), done("m2")):
        list(adapter.feed(fact))
    assert list(adapter.usage.values()) == [Usage(model="gpt", input_tokens=6, output_tokens=8)]


@pytest.mark.requirement("002.mapping.checkpoint-persisted")
def test_a_checkpoint_is_recorded_with_its_digest() -> None:
    node = StepStarted("n1", None, "model", "model:1")
    (saved,) = told([node, CheckpointSaved(6.0, "cp1", "", "d1g357")])
    assert b'"payload":{"checkpoint_id":"cp1","node":"model","state_digest":"d1g357"}' in encode(saved)


def test_facts_of_calls_that_never_began_are_ignored() -> None:
    assert (
        told(
            [
                ModelToken(1.0, "ghost", "x"),
                done("ghost"),
                ToolFinished(1.0, "ghost", 1),
                CallFailed(1.0, "g", "E", "m"),
            ]
        )
        == []
    )


def test_whatever_is_left_open_can_be_closed_and_the_story_is_legal() -> None:
    facts: list[Fact] = [
        began(),
        done(calls=[("look", "call_1", {})]),
        tool(),
        StepStarted("n", "t1"),
        began("m2", "n"),
        ModelToken(4.0, "m2", "x"),
    ]
    calls, story = OpenCalls(), [run_start()]
    for envelope in [run_start(), *told(facts, finish=False)]:
        calls.feed(envelope)
    whole: list[Envelope] = [*story, *told(facts, finish=False)]
    whole += [calls.stamp(e) for e in calls.closing(ts=9.0, run_id="run")]
    whole.append(calls.stamp(run_end(status="failed")))
    assert order_problems(whole) == []
    assert types(whole)[-3:] == ["llm_end", "tool_end", "run_end"]
