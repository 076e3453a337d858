"""Tool calls in AG-UI: written bit by bit or told whole, their results, and ids that tell them apart."""

import pytest

from stellwerk.envelope import model as m
from stellwerk.envelope import payloads as p
from stellwerk.envelope.results import FileRef, Json, Table, Text, ToolResult
from tests.dialects.agui_rules import Client
from tests.dialects.agui_streams import chunks, kinds, of
from tests.dialects.sample_logs import Story, reasoning, troubled


def test_arguments_that_the_model_writes_bit_by_bit_are_passed_on_as_they_come() -> None:
    told = chunks(reasoning())
    assert [chunk["delta"] for chunk in of(told, "TOOL_CALL_ARGS")] == ['{"at": ', '"sky"}']
    assert [chunk["parentMessageId"] for chunk in of(told, "TOOL_CALL_START")] == ["a"], "and once only"
    assert kinds(told).index("TOOL_CALL_END") < kinds(told).index("TOOL_CALL_RESULT")
    assert Client().read(told).call("c1") == {"name": "look", "arguments": '{"at": "sky"}'}


def test_a_call_whose_model_was_given_up_while_writing_it_is_taken_back_and_written_again_as_another() -> None:
    story = Story().begin().think("a").write("a", "look", "c1", '{"at": "s').thought("a", status="abandoned")
    story.think("b").write("b", "look", "c1", '{"at": "sky"}').thought("b", ("look", "c1", {"at": "sky"}))
    told = chunks(story.use("look", "c1", {"at": "sky"}).used("look", "c1", "blue").end())
    assert [chunk["toolCallId"] for chunk in of(told, "TOOL_CALL_END")] == ["c1", "b.c1"]
    assert [message["role"] for message in of(told, "MESSAGES_SNAPSHOT")[0]["messages"]] == ["user"]
    screen = Client().read(told)
    assert "a" not in screen.messages
    assert screen.call("b.c1") == {"name": "look", "arguments": '{"at": "sky"}'}
    assert [chunk["toolCallId"] for chunk in of(told, "TOOL_CALL_RESULT")] == ["c1", "b.c1"], "nobody has to make it"


def test_a_call_that_a_model_wrote_but_did_not_ask_for_is_not_taken_for_a_later_one_of_its_id() -> None:
    story = Story().begin().think("a").write("a", "look", "c1", "{not JSON").thought("a")
    story.speak("b", "", ("look", "c1", {"at": "sky"})).use("look", "c1", {"at": "sky"}).used("look", "c1", "blue")
    told = chunks(story.end())
    assert [chunk["toolCallId"] for chunk in of(told, "TOOL_CALL_START")] == ["c1", "#c1"]


def test_a_written_call_that_wants_approval_is_the_one_that_the_question_is_about() -> None:
    story = (
        Story().begin().think("a").write("a", "pay", "c1", '{"to": "Ann"}').thought("a", ("pay", "c1", {"to": "Ann"}))
    )
    story.ask("q1", "Pay?", kind="approval", tool_name="pay", tool_call_id="c1", args={"to": "Ann"})
    told = chunks(story.end("awaiting_user").begin(None, ask_ids=["q1"]).answer("q1", "yes").use("pay", "c1", {}))
    assert len(of(told, "TOOL_CALL_START")) == 1
    assert of(told, "RUN_FINISHED")[0]["outcome"]["interrupts"][0]["toolCallId"] == "c1"


@pytest.mark.parametrize(
    "result, content",
    [
        (Text(text="blue"), "blue"),
        (Json(data={"a": [1, None]}), '{"a":[1,null]}'),
        (Table(columns=("a",), rows=((1,),)), '{"kind":"table","columns":["a"],"rows":[[1]]}'),
        (None, ""),
    ],
    ids=["text", "json", "table", "nothing"],
)
def test_a_result_is_text_and_data_is_json_as_text(result: ToolResult | None, content: str) -> None:
    story = Story().begin().use("look", "c1", {}).used("look", "c1", result).end()
    assert [chunk["content"] for chunk in of(chunks(story), "TOOL_CALL_RESULT")] == [content]


@pytest.mark.parametrize("mime, kind", [("application/pdf", "document"), ("image/png", "image")])
def test_a_file_is_a_part_that_names_its_address(mime: str, kind: str) -> None:
    file = FileRef(document_id="d1", filename="a.x", mime=mime, size=3)
    story = Story().begin().use("look", "c1", {}).used("look", "c1", file).end()
    ((part,),) = [chunk["content"] for chunk in of(chunks(story), "TOOL_CALL_RESULT")]
    assert part["source"] == {"type": "url", "value": "/files/d1", "mimeType": mime}
    assert (part["type"], part["metadata"]) == (kind, {"filename": "a.x"})


def test_a_failed_call_has_a_result_too_and_one_that_is_made_again_is_another_call() -> None:
    told = chunks(troubled())
    results = [(chunk["toolCallId"], chunk["content"], chunk.get("metadata")) for chunk in of(told, "TOOL_CALL_RESULT")]
    assert results == [
        ("c1", "busy", {"status": "error"}),
        ("#c1-2", "seen", None),
        ("c2", "no such place", {"status": "error"}),
    ]
    assert {chunk["parentMessageId"] for chunk in of(told, "TOOL_CALL_START")} == {"b"}


def test_the_same_id_from_two_models_does_not_make_one_call_of_two() -> None:
    story = Story().begin().speak("a", "", ("look", "c1", {})).use("look", "c1", {}).used("look", "c1", "one")
    twin = p.ToolCalled(tool_name="look", tool_call_id="c1", args={"n": 2})
    story._tell(m.ToolStart, "other", story.run, twin)
    story._tell(m.ToolEnd, "other", story.run, p.ToolEnded(tool_name="look", tool_call_id="c1", status="ok"))
    screen = Client().read(chunks(story.end()))
    assert [screen.call(id_)["arguments"] for id_ in ("c1", "other")] == ["{}", '{"n":2}']
