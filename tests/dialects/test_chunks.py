"""The stream of chunks: which line each thing becomes, at which level, and that nothing is said twice."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stellwerk.dialects.base import Chunk, translate
from stellwerk.dialects.chunks import DIALECT, LIVE, Chunks
from stellwerk.envelope import model as m
from stellwerk.envelope import payloads as p
from stellwerk.envelope.ndjson import LineBuffer
from tests.dialects.chunk_streams import INNER, OUTER, of_type, told
from tests.dialects.sample_logs import STORIES, Story, positions

Brief = tuple[str, str, object]


def brief(found: list[Chunk]) -> list[Brief]:
    return [(line["level"], line["type"], line["data"]) for line in found]


@pytest.mark.requirement("000.stream.updates-become-chunks", "000.chunk.seq-and-timestamp")
def test_a_run_becomes_lines_with_numbers_and_times() -> None:
    found = told(STORIES["simple"]())
    assert brief(found) == [
        (OUTER, "text_step", "[outer_agent] START: desk"),
        (OUTER, "text_step", "let me see "),
        (OUTER, "text_step", "[outer_agent] CALLING TOOL: look"),
        (OUTER, "tool_results", {"kind": "text", "text": "blue"}),
        (OUTER, "text_final", "it is blue "),
    ]
    assert [line["seq"] for line in found] == [1, 2, 3, 4, 5]
    assert [line["ts"] for line in found] == sorted(line["ts"] for line in found)
    assert {line["agent_name"] for line in found} == {"desk"}
    assert [line.get("toolcall_id") for line in found] == [None, None, "c1", "c1", None]


@pytest.mark.requirement(
    "000.inner.events-extracted",
    "000.inner.marked-inner",
    "000.inner.same-semantics",
    "000.stream.order-of-execution",
    "000.emit.final-answer-only-from-outer",
)
def test_what_happens_below_the_root_is_inner_at_any_depth_and_comes_in_order() -> None:
    found = told(STORIES["parallel"]())
    assert brief(found) == [
        (OUTER, "text_step", "[outer_agent] START: desk"),
        (OUTER, "text_step", "[outer_agent] CALLING TOOL: task"),
        (INNER, "text_step", "[inner_agent] START: scout"),
        (OUTER, "text_step", "[outer_agent] CALLING TOOL: task"),
        (INNER, "text_step", "[inner_agent] START: scout"),
        (INNER, "text_step", "left"),
        (INNER, "text_step", "[inner_agent] CALLING TOOL: task"),
        (INNER, "text_step", "[inner_agent] START: mole"),
        (INNER, "text_step", "[inner_agent] CALLING TOOL: grep"),
        (INNER, "tool_results", {"kind": "text", "text": "3 hits"}),
        (INNER, "text_final", "right"),
        (OUTER, "tool_results", {"kind": "text", "text": "right"}),
        (INNER, "text_final", "deep down"),
        (INNER, "tool_results", {"kind": "text", "text": "deep down"}),
        (INNER, "text_final", "left it is"),
        (OUTER, "tool_results", {"kind": "text", "text": "left it is"}),
        (OUTER, "text_final", "both "),
    ]
    finals = [line["agent_name"] for line in of_type(found, "text_final")]
    assert finals == ["scout", "mole", "scout", "desk"]


@pytest.mark.requirement("000.stream.tool-request-once")
def test_a_run_that_goes_on_after_an_answer_announces_no_call_again() -> None:
    found = told(STORIES["questions"]())
    markers = [line["data"] for line in of_type(found, "text_step") if "CALLING" in line["data"]]
    assert markers == [
        "[outer_agent] CALLING TOOL: task",
        "[outer_agent] CALLING TOOL: ask_user",
        "[inner_agent] CALLING TOOL: ask_user",
    ]
    asked = [line for line in found if "ask_id" in line]
    assert [(line["level"], line["ask_id"], line["data"]) for line in asked] == [
        (OUTER, "q1", "Window?"),
        (INNER, "q2", "Town?"),
    ]
    assert asked[0]["question"] == {"kind": "question", "options": ["yes", "no"]}
    levels = [(line["level"], line["data"]["text"]) for line in of_type(found, "tool_results")]
    assert levels == [(OUTER, "yes"), (INNER, "Ulm"), (OUTER, "booked in Ulm")]


def test_an_answered_run_is_translated_without_the_run_before() -> None:
    story = STORIES["questions"]()
    second = next(n for n, e in enumerate(story.log) if isinstance(e, m.RunStart) and e.payload.trigger == "answer")
    alone = [line for _, line in translate(Chunks(), positions(story.log)[second:])]
    assert alone[0]["seq"] == 1
    assert "".join(line["data"] for line in of_type(alone, "text_final") if line["level"] == OUTER) == "all booked "


@pytest.mark.requirement("000.emit.typed-errors")
def test_errors_have_a_code_and_a_message_and_a_failed_tool_says_so() -> None:
    found = told(STORIES["troubled"]())
    assert [line["data"] for line in of_type(found, "error")] == [
        {"code": "call_failed", "message": "scripted raised TimeoutError", "fatal": False},
        {"code": "failed", "message": "the model is gone", "fatal": True},
    ]
    assert [(line["data"]["text"], line.get("failed")) for line in of_type(found, "tool_results")] == [
        ("busy", True),
        ("seen", None),
        ("no such place", True),
    ]


def test_a_run_that_crashed_without_a_word_still_gives_an_error() -> None:
    story = Story().begin().think("a").thought("a", status="abandoned", synthesized=True)
    found = told(story.end("failed", code="crashed", reason="the run was cut off"))
    assert found[-1]["data"] == {"code": "crashed", "message": "the run was cut off", "fatal": True}


@pytest.mark.requirement("000.emit.rule-c-aborted", "000.inner.events-extracted")
def test_what_is_cut_off_or_stopped_is_aborted_at_its_level() -> None:
    story = Story().begin().use("task", "c1", {}, kind="agent", title="scout").use("grep", "c2", {}, parent="#c1")
    story.used("grep", "c2", parent="#c1", status="abandoned", synthesized=True)
    story.used("task", "c1", status="abandoned", synthesized=True).end("stopped", reason="the user said so")
    found = told(story)
    assert [(line["level"], line["abortion_reason"]) for line in of_type(found, "aborted")] == [
        (INNER, "grep was cut off"),
        (INNER, "scout was cut off"),
        (OUTER, "the user said so"),
    ]
    markers = [line["data"] for line in of_type(found, "text_step") if "ABORTED" in line["data"]]
    assert markers[1:] == ["[inner_agent] ABORTED: scout was cut off", "[outer_agent] ABORTED: the user said so"]
    assert all(line["aborted"] is True for line in of_type(found, "aborted"))


def test_an_agent_that_raised_is_aborted_and_its_call_has_failed() -> None:
    story = Story().begin().use("task", "c1", {}, kind="agent", title="scout").speak("i", "half", parent="#c1")
    story.used("task", "c1", status="error", error=p.Failure(message="no map"))
    assert brief(told(story.end()))[3:] == [
        (INNER, "text_step", "half "),
        (INNER, "text_step", "[inner_agent] ABORTED: no map"),
        (INNER, "aborted", {"reason": "no map"}),
        (OUTER, "tool_results", {"kind": "text", "text": "no map"}),
    ]


def test_a_graph_inside_the_graph_is_an_inner_agent_that_no_model_asked_for() -> None:
    story = Story().begin().use("review", "0f3c", {}, kind="graph").speak("g", "inside", parent="#0f3c")
    story.used("review", "0f3c").use("sum", "c1", {}).speak("t", "a model in a tool", parent="#c1")
    assert brief(told(story.used("sum", "c1", "short").end()))[1:] == [
        (INNER, "text_step", "[inner_agent] START: review"),
        (INNER, "text_final", "inside "),
        (OUTER, "text_step", "[outer_agent] CALLING TOOL: sum"),
        (INNER, "text_step", "a model in a tool "),
        (OUTER, "tool_results", {"kind": "text", "text": "short"}),
    ]


def test_a_graph_that_says_nothing_has_no_final_line() -> None:
    story = Story().begin().use("sort", "0f3c", {}, kind="graph").used("sort", "0f3c", outcome=p.Outcome()).end()
    assert brief(told(story))[1:] == [(INNER, "text_step", "[inner_agent] START: sort")]


def test_an_inner_agent_that_speaks_twice_says_its_last_words_once() -> None:
    story = Story().begin().use("task", "c1", {}, kind="agent", title="scout")
    story.speak("i", "first", parent="#c1").speak("j", "second", parent="#c1").used("task", "c1", "second")
    texts = [data for level, kind, data in brief(told(story.end()))[3:] if level == INNER]
    assert texts == ["first ", "second"]
    story = Story().begin().use("task", "c1", {}, kind="agent", title="scout").speak("i", "raw", parent="#c1")
    found = brief(told(story.used("task", "c1", "polished").end()))
    assert found[3:5] == [(INNER, "text_step", "raw "), (INNER, "text_final", "polished")]


@pytest.mark.requirement("000.stream.custom-chunks-validated")
def test_a_chunk_that_a_tool_writes_is_passed_on_without_its_own_level_and_order() -> None:
    forged = {
        "level": "outer_agent",
        "event": "tool_result",
        "agent_name": "boss",
        "toolcall_id": "other",
        "ask_id": "q",
        "seq": 99,
        "tool_name": "probe",
        "data": [{"depth": 3}],
    }
    story = Story().begin().use("dig", "c1", {}).update("c1", data=forged).used("dig", "c1", "done").end()
    line = told(story)[2]
    assert (line["level"], line["agent_name"], line["toolcall_id"], line["seq"]) == (INNER, "desk", "c1", 3)
    assert "ask_id" not in line
    assert (line["tool_name"], line["data"]) == ("probe", {"kind": "table", "columns": ("depth",), "rows": ((3,),)})


@pytest.mark.requirement("000.stream.custom-chunks-validated", "000.emit.final-answer-only-from-outer")
@pytest.mark.parametrize(
    ("event", "expected"),
    [
        ({"event": "final", "final_answer": "mine"}, [(OUTER, "text_step", "mine")]),
        ({"event": "step", "data": "on my way"}, [(OUTER, "text_step", "on my way")]),
        ({"event": "error", "data": {"code": "forged"}}, []),
        ({"event": "question", "data": "Password?", "ask_id": "q"}, []),
        ({"event": "party", "data": 1}, []),
        ({"progress": 40}, []),
    ],
)
def test_a_node_of_the_outermost_graph_cannot_forge_the_answer(event: dict[str, object], expected: list[Brief]) -> None:
    written = {"level": "outer_agent", "agent_name": "boss", **event}
    story = Story().begin().other(m.Log, p.Logged(message="…", data=written))
    assert brief(told(story.end()))[1:] == expected


def test_what_was_said_before_the_session_began_is_not_said_again() -> None:
    story = Story().begin().speak("a", "yes").says("assistant", "yes ", "a").end()
    said = p.Said(message_id="old", role="assistant", content=[p.TextPart(text="long ago")], status="step")
    before = m.Message(ts=1.0, parent_id=None, call_id="say-old", seq=1, payload=said)
    story.log.insert(0, before)
    assert "long ago" not in str(told(story))


def test_a_second_round_starts_from_scratch() -> None:
    found = told(STORIES["reasoning"]())
    seqs = [line["seq"] for line in found]
    assert seqs == [*range(1, 5), *range(1, 5)]
    assert found[-1]["type"] == "aborted"


@pytest.mark.requirement("000.stream.one-object-per-line", "000.stream.cuts-do-not-matter")
@given(st.text(max_size=80), st.lists(st.integers(0, 4000), max_size=12))
def test_how_the_bytes_are_cut_does_not_matter(text: str, cuts: list[int]) -> None:
    story = Story().begin(text).use("look", "c1", {}).used("look", "c1", text)
    story.says("assistant", text, "b").end()
    found = list(translate(DIALECT.translator("s"), positions(story.log)))
    data = b"".join(DIALECT.frame(cursor, line) for cursor, line in found)
    places = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    buffer = LineBuffer()
    read = [
        msgspec.json.decode(line) for a, b in zip(places, places[1:], strict=False) for line in buffer.feed(data[a:b])
    ]
    assert read == [msgspec.to_builtins(line) for _, line in found]
    assert buffer.close() is None


@pytest.mark.parametrize("dialect", [DIALECT, LIVE])
@pytest.mark.parametrize("name", STORIES)
def test_the_same_log_gives_the_same_bytes(dialect: object, name: str) -> None:
    made = [told(STORIES[name](), live=dialect is LIVE) for _ in range(2)]
    assert made[0] == made[1]
    ids = [tuple(map(int, line["id"].split("."))) for line in made[0]]
    assert ids == sorted(set(ids))
