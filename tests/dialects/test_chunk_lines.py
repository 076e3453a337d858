"""StreamChunk, and the one place that decides how a chunk looks as a line."""

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

import stellwerk
from stellwerk.dialects.base import FRAGMENT, fragments
from stellwerk.dialects.chunks import Chunks, lines
from stellwerk.envelope.chunk import StreamChunk, StreamEvent, StreamLevel
from stellwerk.envelope.results import FileRef, Json, Text, ToolResult, table


def chunk(event: StreamEvent, level: StreamLevel = StreamLevel.OUTER, **fields: object) -> StreamChunk:
    return StreamChunk.model_validate({"level": level, "event": event, "agent_name": "desk", **fields})


@pytest.mark.requirement("000.chunk.levels", "000.chunk.events", "000.chunk.required-fields")
@pytest.mark.parametrize("missing", ["level", "event", "agent_name"])
def test_a_chunk_names_its_level_its_event_and_its_agent(missing: str) -> None:
    whole = {"level": "inner_agent", "event": "start", "agent_name": "scout"}
    made = stellwerk.StreamChunk(**whole)
    assert (made.level, made.event) == (StreamLevel.INNER, StreamEvent.START)
    assert {level.value for level in StreamLevel} == {"outer_agent", "inner_agent"}
    assert {"start", "tool_request", "tool_result", "final", "aborted"} <= {event.value for event in StreamEvent}
    with pytest.raises(ValidationError):
        StreamChunk.model_validate({name: value for name, value in whole.items() if name != missing})


@pytest.mark.requirement("000.chunk.is-a-validated-model", "000.chunk.optional-fields")
@pytest.mark.parametrize(
    "wrong",
    [
        {"event": "applause"},
        {"event": "start", "level": "middle_agent"},
        {"event": "start", "surprise": 1},
        {"event": "tool_request"},
        {"event": "tool_result"},
        {"event": "final"},
        {"event": "aborted", "aborted": True},
        {"event": "step", "data": {"no": "text"}},
        {"event": "question", "data": "Town?"},
        {"event": "tool_result", "data": {"kind": "file_ref", "filename": "a", "mime": "a/b", "bytes_b64": "QQ=="}},
    ],
)
def test_a_chunk_refuses_what_does_not_fit_it(wrong: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        StreamChunk.model_validate({"level": "outer_agent", "agent_name": "desk", **wrong})
    full: dict[str, Any] = {
        "tool_name": "look",
        "toolcall_id": "c1",
        "data": "blue",
        "aborted": True,
        "abortion_reason": "no",
    }
    assert chunk(StreamEvent.ABORTED, final_answer="none", **full).toolcall_id == "c1"


@pytest.mark.requirement("000.result.told-apart-by-kind")
@pytest.mark.parametrize(
    ("given_", "kind"),
    [
        (table(["a"], [(1,)])[0], "table"),
        (Text(text="blue"), "text"),
        (FileRef(document_id="d", filename="f", mime="a/b", size=1), "file_ref"),
        (Json(data=None), "json"),
        ("plain", "text"),
        ([{"a": 1}, {"a": 2}], "table"),
        ({"b": 1}, "json"),
    ],
)
def test_the_data_of_a_tool_result_is_an_object_with_a_kind_whatever_was_given(given_: ToolResult, kind: str) -> None:
    (line,) = lines(chunk(StreamEvent.TOOL_RESULT, data=given_))
    assert (line["type"], line["data"]["kind"]) == ("tool_results", kind)


@pytest.mark.requirement("000.emit.one-place", "000.emit.final-told-apart-by-level")
@pytest.mark.parametrize("level", StreamLevel)
@pytest.mark.parametrize(
    ("event", "fields", "expected"),
    [
        pytest.param(
            "start",
            {},
            [("text_step", "[{level}] START: desk")],
            marks=pytest.mark.requirement("000.emit.rule-c-start"),
        ),
        pytest.param(
            "tool_request",
            {"tool_name": "look"},
            [("text_step", "[{level}] CALLING TOOL: look")],
            marks=pytest.mark.requirement("000.emit.rule-c-tool-request"),
        ),
        pytest.param(
            "tool_result",
            {"data": "blue"},
            [("tool_results", {"kind": "text", "text": "blue"})],
            marks=pytest.mark.requirement("000.emit.rule-a-tool-result"),
        ),
        pytest.param(
            "aborted",
            {"aborted": True, "abortion_reason": "enough"},
            [("text_step", "[{level}] ABORTED: enough"), ("aborted", {"reason": "enough"})],
            marks=pytest.mark.requirement("000.emit.rule-c-aborted"),
        ),
        ("step", {"data": "let me see"}, [("text_step", "let me see")]),
        ("question", {"data": "Town?", "ask_id": "q1"}, [("text_step", "Town?")]),
        pytest.param(
            "error",
            {"data": {"code": "gone"}},
            [("error", {"code": "gone"})],
            marks=pytest.mark.requirement("000.emit.typed-errors"),
        ),
        ("final", {"final_answer": "it is blue"}, [("text_final", "it is blue")]),
    ],
)
def test_each_event_has_its_line(level: StreamLevel, event: str, fields: dict[str, Any], expected: Any) -> None:
    found = list(lines(chunk(StreamEvent(event), level, seq=7, **fields)))
    said = [(line["type"], line["data"]) for line in found]
    assert said == [(kind, data.format(level=level) if isinstance(data, str) else data) for kind, data in expected]
    assert {line["level"] for line in found} == {level.value}
    assert [line["seq"] for line in found] == list(range(7, 7 + len(found)))


@pytest.mark.requirement("000.emit.rule-b-outer-final-in-fragments", "000.emit.rule-b-inner-final-whole")
def test_the_outer_answer_comes_in_fragments_and_an_inner_one_whole() -> None:
    text = "a long answer of many words, more than one line of it"
    outer = list(lines(chunk(StreamEvent.FINAL, final_answer=text)))
    assert len(outer) > 1
    assert "".join(line["data"] for line in outer) == text
    (inner,) = lines(chunk(StreamEvent.FINAL, StreamLevel.INNER, final_answer=text))
    assert inner["data"] == text


@given(st.text(max_size=300))
def test_fragments_put_together_are_the_text_and_none_is_long(text: str) -> None:
    found = list(fragments(text))
    assert "".join(found) == text
    assert all(0 < len(fragment) <= FRAGMENT for fragment in found)


@pytest.mark.requirement("000.emit.rule-d-uncovered-raises")
def test_an_event_without_a_rule_raises() -> None:
    with pytest.raises(ValueError, match="no rule says how delta of the inner_agent looks"):
        list(lines(chunk(StreamEvent.DELTA, StreamLevel.INNER, data="to")))
    with pytest.raises(AssertionError, match="unreachable"):
        list(Chunks().feed(1, SimpleNamespace(agent=None)))  # type: ignore[arg-type]
