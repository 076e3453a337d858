"""The stream of events: finished steps only, tools apart from text, and every line a whole event."""

from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stellwerk.dialects.base import Chunk, translate
from stellwerk.dialects.events import DIALECT, PREVIEW, Events
from stellwerk.envelope import model as m
from stellwerk.envelope import payloads as p
from stellwerk.envelope.ndjson import LineBuffer
from stellwerk.envelope.results import Json, ToolResult, table
from tests.dialects.sample_logs import STORIES, Story, positions
from tests.golden.files import BY_NAME, stored

TYPES = {"text_message", "toolcall_request", "toolcall_result", "error"}


def told(story: Story) -> list[Chunk]:
    return [event for _, event in translate(Events(), positions(story.checked()))]


def brief(story: Story) -> list[tuple[str, Any]]:
    return [(event["type"], event["payload"]) for event in told(story)]


@pytest.mark.requirement(
    "001.backend.type-and-payload",
    "001.backend.optional-fields",
    "001.backend.finished-steps-only",
)
@pytest.mark.parametrize("name", STORIES)
def test_every_event_has_a_type_and_a_payload_and_says_where_it_comes_from(name: str) -> None:
    found = told(STORIES[name]())
    assert {event["type"] for event in found} <= TYPES
    assert all(event.keys() == {"type", "payload", "id", "ts", "agent_name"} for event in found)
    ids = [tuple(map(int, event["id"].split("."))) for event in found]
    assert ids == sorted(set(ids))
    silent = [(n, e) for n, e in positions(STORIES[name]().log) if not isinstance(e, m.LlmToken)]
    assert [event for _, event in translate(Events(), silent)] == found


@pytest.mark.requirement("001.backend.three-types")
def test_events_are_of_three_types_and_error_in_all_golden_runs() -> None:
    found = {event["type"] for name in BY_NAME for _, event in translate(Events(), positions(stored(name)))}
    assert found == {"text_message", "toolcall_request", "toolcall_result", "error"}


@pytest.mark.requirement(
    "001.backend.request-per-tool-call",
    "001.backend.result-per-tool-message",
    "001.backend.ends-after-answer",
)
def test_a_run_is_its_tool_calls_and_then_the_answer() -> None:
    assert brief(STORIES["simple"]()) == [
        ("toolcall_request", {"toolName": "look", "toolCallId": "c1", "argsPreview": '{"at":"sky"}'}),
        ("toolcall_result", {"toolName": "look", "toolCallId": "c1", "text": "blue"}),
        ("text_message", {"text": "it is blue "}),
    ]


@pytest.mark.requirement("001.backend.answer-in-text-messages")
def test_the_answer_is_a_sequence_of_fragments() -> None:
    text = "a long answer of many words, more than one line of it"
    found = brief(Story().begin().speak("a", text).says("assistant", text, "a").end())
    assert len(found) > 1
    assert {kind for kind, _ in found} == {"text_message"}
    assert "".join(payload["text"] for _, payload in found) == text


def test_text_comes_from_the_outer_agent_only_and_tool_calls_from_all_of_them() -> None:
    found = told(STORIES["parallel"]())
    assert [e["payload"]["text"] for e in found if e["type"] == "text_message"] == ["both "]
    requests = [e["payload"]["toolCallId"] for e in found if e["type"] == "toolcall_request"]
    results = [e["payload"]["toolCallId"] for e in found if e["type"] == "toolcall_result"]
    assert requests == ["c1", "c2", "c3", "c4"]
    assert sorted(results) == sorted(requests)


@pytest.mark.requirement("001.backend.request-args-preview")
def test_of_long_arguments_the_beginning_is_shown() -> None:
    story = Story().begin().use("write", "c1", {"text": "x" * 500, "at": 1}).used("write", "c1", "ok").end()
    preview = told(story)[0]["payload"]["argsPreview"]
    assert len(preview) == PREVIEW
    assert preview.startswith('{"at":1,"text":"xxx')


@pytest.mark.requirement("001.backend.result-per-tool-message")
@pytest.mark.parametrize(
    ("result", "ended", "expected"),
    [
        (None, {}, {"text": ""}),
        (Json(data={"a": 1}), {}, {"data": {"kind": "json", "data": {"a": 1}}}),
        (table(["a"], [(1,)])[0], {}, {"data": {"kind": "table", "columns": ("a",), "rows": ((1,),)}}),
        (
            None,
            {"status": "error", "error": p.Failure(message="no such place")},
            {"text": "no such place", "failed": True},
        ),
        (None, {"status": "abandoned", "synthesized": True}, {"text": "look was cut off", "failed": True}),
    ],
)
def test_a_result_is_text_or_data_and_says_if_it_failed(
    result: ToolResult | None, ended: dict[str, Any], expected: dict[str, object]
) -> None:
    found = told(Story().begin().use("look", "c1", {}).used("look", "c1", result, **ended).end())
    assert found[1]["payload"] == {"toolName": "look", "toolCallId": "c1", **expected}


def test_a_question_is_one_event_with_its_id() -> None:
    asked = [payload for kind, payload in brief(STORIES["questions"]()) if kind == "text_message"]
    assert asked[0] == {
        "text": "Window?",
        "ask_id": "q1",
        "question": {"kind": "question", "options": ["yes", "no"]},
    }


def test_errors_and_stops_are_events() -> None:
    errors = [payload for kind, payload in brief(STORIES["troubled"]()) if kind == "error"]
    assert errors == [
        {"code": "call_failed", "message": "scripted raised TimeoutError", "fatal": False},
        {"code": "failed", "message": "the model is gone", "fatal": True},
    ]
    crashed = Story().begin().end("failed", code="crashed", reason="cut off")
    assert brief(crashed) == [("error", {"code": "crashed", "message": "cut off", "fatal": True})]
    stopped = Story().begin().end("stopped")
    assert brief(stopped) == [("error", {"code": "stopped", "message": "the run was stopped", "fatal": True})]


def test_a_graph_inside_the_graph_is_no_tool_call() -> None:
    story = Story().begin().use("review", "0f3c", {}, kind="graph").used("review", "0f3c").end()
    assert told(story) == []


def test_an_envelope_of_an_unlisted_type_raises() -> None:
    with pytest.raises(AssertionError, match="unreachable"):
        list(Events().feed(1, SimpleNamespace(agent=None)))  # type: ignore[arg-type]


@pytest.mark.requirement("001.backend.no-mixed-protocol")
@given(st.text(max_size=80), st.lists(st.integers(0, 3000), max_size=12))
def test_every_line_is_a_whole_event_wherever_the_bytes_are_cut(text: str, cuts: list[int]) -> None:
    story = Story().begin(text).use("look", "c1", {"at": text}).used("look", "c1", text)
    story.says("assistant", text, "b").end()
    found = list(translate(DIALECT.translator("s"), positions(story.log)))
    data = b"".join(DIALECT.frame(cursor, event) for cursor, event in found)
    places = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    buffer = LineBuffer()
    pieces = [data[a:b] for a, b in zip(places, places[1:], strict=False)]
    read = [msgspec.json.decode(line) for piece in pieces for line in buffer.feed(piece)]
    assert read == [event for _, event in found]
