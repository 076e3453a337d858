"""The values of a thread: what a LangGraph client would find in the state, folded from the log."""

from collections.abc import Sequence
from typing import Any

import msgspec

from stellwerk.envelope import model as m
from stellwerk.envelope import payloads as p
from stellwerk.views.values import Values
from tests.dialects.sample_logs import Story, simple


def folded(log: Sequence[m.Envelope]) -> Values:
    values = Values()
    for envelope in log:
        values.feed(envelope)
    return values


def messages(story: Story) -> list[tuple[str, Any]]:
    return [(message["type"], message["content"]) for message in folded(story.checked()).snapshot()["messages"]]


def test_the_conversation_is_folded_to_messages() -> None:
    assert messages(simple()) == [
        ("human", "what is up?"),
        ("ai", "let me see "),
        ("tool", "blue"),
        ("ai", "it is blue "),
    ]


def test_feeding_says_what_a_node_would_have_returned() -> None:
    values, log = Values(), simple().checked()
    changes = [change for envelope in log if (change := values.feed(envelope)) is not None]
    assert [[message["id"] for message in change["messages"]] for change in changes] == [["m1"], ["a"], ["#c1"], ["b"]]


def test_what_was_given_out_does_not_change_any_more() -> None:
    values, log = Values(), Story().begin().checked()
    for envelope in log:
        values.feed(envelope)
    values.feed(Story().begin().state("files", 1, patch=[{"op": "add", "path": "/a", "value": "A"}]).log[-1])
    before = values.snapshot()
    kept = msgspec.json.encode(before)
    story = Story().begin("again").state("files", 2, patch=[{"op": "add", "path": "/b", "value": "B"}])
    for envelope in story.speak("x", "hi").log:
        values.feed(envelope)
    assert msgspec.json.encode(before) == kept
    assert values.snapshot()["files"] == {"a": "A", "b": "B"}


def test_a_message_keeps_the_id_of_its_first_tokens() -> None:
    story = Story().begin().think("lc_run--1").token("lc_run--1", "hi").thought("lc_run--1", message_id="msg_123")
    story.says("assistant", "hi", "msg_123").end()
    assert [m["id"] for m in folded(story.checked()).snapshot()["messages"]] == ["m1", "lc_run--1"]


def test_a_message_that_ends_with_another_text_has_that_text() -> None:
    story = Story().begin().speak("a", "draft").says("assistant", "final", "a").end()
    assert messages(story)[-1] == ("ai", "final")


def test_nothing_is_left_of_an_abandoned_or_silent_call() -> None:
    story = Story().begin().think("a").token("a", "half").thought("a", status="abandoned")
    story.think("silent").thought("silent").end()
    assert messages(story) == [("human", "hello")]


def test_a_regenerated_answer_replaces_the_old_one() -> None:
    story = simple().begin("what is up?", replaces="r1").speak("c", "rain").end()
    assert messages(story) == [("human", "what is up?"), ("human", "what is up?"), ("ai", "rain ")]


def test_a_removed_message_is_gone_and_the_change_says_so() -> None:
    story = Story().begin().says("user", "hello", "m1", "first", action="removed")
    values = folded(story.log[:-1])
    assert values.feed(story.log[-1]) == {"messages": [{"type": "remove", "id": "m1", "content": ""}]}
    assert values.snapshot() == {"messages": []}


def test_a_file_in_a_message_is_a_block_that_names_the_document() -> None:
    part = p.FilePart(document_id="d1", filename="a.pdf", mime="application/pdf")
    said = p.Said(message_id="m9", role="user", content=[p.TextPart(text="read"), part], status="first")
    story = Story().begin()
    story._tell(m.Message, "say-m9", story.run, said)
    assert messages(story)[-1][1] == [
        {"type": "text", "text": "read"},
        {"type": "file", "file_id": "d1", "mime_type": "application/pdf", "extras": {"filename": "a.pdf"}},
    ]


def test_system_and_tool_messages_have_their_own_types() -> None:
    story = Story().begin().says("system", "be kind", "s1").says("tool", "42", "s2", parent_message_id="c9").end()
    system, tool = folded(story.checked()).snapshot()["messages"][1:]
    assert (system["type"], tool["type"], tool["tool_call_id"]) == ("system", "tool", "c9")


def test_states_are_whole_or_patched_and_own_keys_are_as_the_nodes_left_them() -> None:
    story = Story().begin().other(m.Update, p.Updated(node="n", delta={"score": 1, "tags": ["a"]}))
    story.other(m.Update, p.Updated(node="n", delta={"score": 2})).other(m.Update, p.Updated(node="n", delta="odd"))
    story.state("plan", 1, snapshot={"a/b": 1})
    story.state("plan", 2, patch=[{"op": "add", "path": "/steps", "value": ["y"]}])
    story.state("plan", 3, patch=[{"op": "remove", "path": "/a~1b"}, {"op": "add", "path": "/m~0n", "value": 2}])
    found = folded(story.end().checked()).snapshot()
    assert (found["score"], found["tags"]) == (2, ["a"])
    assert found["plan"] == {"steps": ["y"], "m~n": 2}


def test_a_checklist_is_shown_as_todos_too_unless_the_graph_has_its_own() -> None:
    tasks = [
        {"title": "a", "status": "completed"},
        {"title": "b", "status": "in_progress"},
        {"title": "c", "status": "blocked"},
    ]
    story = Story().begin().state("checklist", 1, snapshot={"tasks": tasks})
    found = folded(story.checked()).snapshot()
    assert found["checklist"] == {"tasks": tasks}
    assert found["todos"] == [
        {"content": "a", "status": "completed"},
        {"content": "b", "status": "in_progress"},
        {"content": "c", "status": "pending"},
    ]
    story.state("todos", 1, snapshot=[])
    assert folded(story.checked()).snapshot()["todos"] == []
    assert "todos" not in folded(Story().begin().state("checklist", 1, snapshot=None).checked()).snapshot()


def test_open_questions_are_interrupts_until_they_are_answered_or_the_run_is_over() -> None:
    story = Story().begin().ask("q1", "Name?", default="Ada").ask("q2", "Go?", data={"x": 1}, schema={"type": "object"})
    values = folded(story.end("awaiting_user").checked())
    assert values.interrupts == [
        {"id": "q1", "value": {"question": "Name?", "default": "Ada"}},
        {"id": "q2", "value": {"x": 1}, "response_schema": {"type": "object"}},
    ]
    story.begin(None).answer("q1", "Bob")
    assert [asked["id"] for asked in folded(story.checked()).interrupts] == ["q2"]
    assert folded(story.end("stopped").log).interrupts == []


def test_a_tool_that_left_no_result_is_empty_if_it_went_well_and_else_says_that_it_was_cut_off() -> None:
    story = Story().begin().use("a", "c1", {}).used("a", "c1").use("b", "c2", {})
    story.used("b", "c2", status="abandoned", synthesized=True).end("failed")
    assert messages(story)[1:] == [("tool", ""), ("tool", "The call was cut off before it ended.")]
