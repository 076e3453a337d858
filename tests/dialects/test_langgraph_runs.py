"""LangGraph's runs/stream, as its clients see it: the SDK's parser, and LangChain's own messages and chunks."""

from typing import Any

import pytest

from stellwerk.dialects.langgraph.runs import DIALECT
from stellwerk.envelope import model as m
from stellwerk.envelope import payloads as p
from stellwerk.envelope.results import FileRef, table
from tests.dialects.langgraph_clients import Hook, chunks_of, received
from tests.dialects.sample_logs import STORIES, Story, inner_graphs, parallel, questions, reasoning, simple, troubled


def events(log: list[m.Envelope]) -> list[str]:
    return [part.event for part in received(DIALECT, log)]


def test_a_run_with_a_tool_is_streamed_in_the_order_that_clients_know() -> None:
    assert events(simple().checked()) == [
        "metadata",
        "updates",
        "values",
        *["messages"] * 4,
        "updates",
        "values",
        *["messages", "updates", "values"],
        *["messages"] * 4,
        "updates",
        "values",
    ]


@pytest.mark.parametrize("name", STORIES)
def test_joined_chunks_are_the_message_that_values_hold(name: str) -> None:
    hook = Hook().read(received(DIALECT, STORIES[name]().checked()))
    compared = list(chunks_of(hook))
    assert compared
    for spoken, held in compared:
        assert spoken.text == held.text
        assert held.content in (spoken.content, spoken.text)  # a new trace keeps no reasoning
        assert (spoken.tool_calls, spoken.usage_metadata) == (held.tool_calls, held.usage_metadata)


def test_the_conversation_is_human_ai_and_tool_messages_with_ids_that_stay() -> None:
    values = Hook().read(received(DIALECT, simple().checked())).values
    human, asking, tool, answer = values["messages"]
    assert human == {"type": "human", "id": "m1", "content": "what is up?"}
    assert asking == {
        "type": "ai",
        "id": "a",
        "name": "desk",
        "content": "let me see ",
        "tool_calls": [{"type": "tool_call", "id": "c1", "name": "look", "args": {"at": "sky"}}],
        "response_metadata": {"model_name": "scripted"},
        "usage_metadata": {"input_tokens": 3, "output_tokens": 5, "total_tokens": 8},
    }
    assert tool == {
        "type": "tool",
        "id": "#c1",
        "name": "look",
        "tool_call_id": "c1",
        "content": "blue",
        "status": "success",
    }
    assert (answer["id"], answer["content"], answer["tool_calls"]) == ("b", "it is blue ", [])


def test_what_happens_inside_an_agent_has_the_tool_call_in_its_name() -> None:
    parts = received(DIALECT, parallel().checked())
    outer = Hook().read(parts)
    assert [message.type for message in outer.messages.values()] == ["human", "ai", "tool", "tool", "ai"]
    left, right = Hook().read(parts, "tools:c1"), Hook().read(parts, "tools:c2")
    assert [message.text for message in left.messages.values()] == ["left", "left", "deep down", "left it is "]
    assert [message.text for message in right.messages.values()] == ["right", "right"]
    mole = Hook().read(parts, "tools:c1|tools:c3")
    assert [message.text for message in mole.messages.values()] == ["dig", "3 hits", "deep down "]
    about = next(part.data[1] for part in parts if part.event == "messages|tools:c1|tools:c3")
    assert about == {
        "thread_id": "s1",
        "run_id": "r1",
        "langgraph_node": "tools",
        "langgraph_checkpoint_ns": "tools:c1|tools:c3",
        "tags": [],
        "lc_agent_name": "desk",
    }


def test_questions_end_the_run_as_interrupts_all_at_once_and_are_gone_when_it_goes_on() -> None:
    parts = received(DIALECT, questions().checked())
    starts = [i for i, part in enumerate(parts) if part.event == "metadata"]
    updates, values = parts[starts[1] - 2 : starts[1]]
    asked = [
        {"id": "q1", "value": {"question": "Window?", "options": ["yes", "no"]}},
        {"id": "q2", "value": {"form": "own"}},
    ]
    assert (updates.event, updates.data) == ("updates", {"__interrupt__": asked})
    assert (values.event, values.data["__interrupt__"]) == ("values", asked)
    later = [part.data for part in parts[starts[1] :] if part.event == "values"]
    assert later
    assert not [data for data in later if "__interrupt__" in data]
    answered = {m["tool_call_id"]: m["content"] for m in later[-1]["messages"] if m["type"] == "tool"}
    assert answered == {"c1": "booked in Ulm", "c2": "yes"}


def test_words_of_an_abandoned_model_call_are_taken_back_by_the_next_values() -> None:
    parts = received(DIALECT, troubled().checked())
    words = next(i for i, part in enumerate(parts) if part.event == "messages")
    assert (parts[words].data[0]["id"], parts[words].data[0]["content"]) == ("a", "half a sen")
    assert [message["id"] for message in parts[words + 1].data["messages"]] == ["m1"]
    assert not {"a", "e"} & Hook().read(parts).messages.keys()


def test_a_removed_message_is_gone_from_the_next_values() -> None:
    story = Story().begin().says("user", "hello", "m1", "first", action="removed").end()
    parts = received(DIALECT, story.checked())
    assert [part.event for part in parts[-2:]] == ["updates", "values"]
    assert parts[-1].data["messages"] == []


def test_a_tool_that_is_tried_again_has_one_answer_and_failures_say_so() -> None:
    hook = Hook().read(received(DIALECT, troubled().checked()))
    tools = {m["tool_call_id"]: (m["status"], m["content"]) for m in hook.values["messages"] if m["type"] == "tool"}
    assert tools == {"c1": ("success", "seen"), "c2": ("error", "no such place")}
    assert hook.error == {"error": "failed", "message": "the model is gone"}


def test_todos_files_and_own_keys_are_in_values_and_inner_ones_are_not() -> None:
    values = Hook().read(received(DIALECT, inner_graphs().checked())).values
    assert values["todos"] == [{"content": "write", "status": "in_progress"}]
    assert values["files"] == {"c": "C"}
    assert (values["plan"], values["tries"]) == (["one"], 1)


def test_a_graph_in_a_node_has_the_name_of_that_node_and_answers_no_tool_call() -> None:
    parts = received(DIALECT, inner_graphs().checked())
    said = [part.data[0]["content"] for part in parts if part.event == "messages|review:0f3c"]
    assert said == ["inside ", ""], "and what was said there is not said again outside"
    final = Hook().read(parts).values["messages"]
    assert [(m["type"], m["content"]) for m in final] == [
        ("human", "go"),
        ("ai", "inside "),
        ("ai", ""),
        ("tool", "short"),
        ("ai", "done "),
    ]


def test_what_tools_and_nodes_write_is_custom_as_they_wrote_it() -> None:
    custom = [part.data for part in received(DIALECT, inner_graphs().checked()) if part.event == "custom"]
    text = {"type": "tool_output", "tool_call_id": "c1", "text": "nearly"}
    assert custom == [{"progress": 40}, text, {"progress": 40}]


def test_reasoning_makes_blocks_of_the_message_and_arguments_come_in_pieces() -> None:
    parts = received(DIALECT, reasoning().checked())
    chunks = [part.data[0] for part in parts if part.event == "messages" and part.data[0]["id"] == "a"]
    assert chunks[0]["content"] == [{"type": "reasoning", "reasoning": "hm", "index": 0}]
    pieces = [piece for chunk in chunks for piece in chunk["tool_call_chunks"]]
    assert [(p["id"], p["name"], p["args"], p["index"]) for p in pieces] == [
        ("c1", "look", '{"at": ', 0),
        (None, None, '"sky"}', 0),
    ]
    spoken = Hook().read(parts).spoken["a"]
    assert spoken.content_blocks[:2] == [
        {"type": "reasoning", "reasoning": "hm…", "index": 0},
        {"type": "text", "text": "I see", "index": 1},
    ]


def test_typed_results_are_text_for_readers_and_the_artifact_for_programs() -> None:
    rows, _ = table(["city", "people"], [["Ulm", 128_000]])
    file = FileRef(document_id="d1", filename="map.pdf", mime="application/pdf", size=9)
    story = Story().begin().speak("a", "", ("look", "c1", {}), ("draw", "c2", {}))
    story.use("look", "c1", {}).used("look", "c1", rows).use("draw", "c2", {}).used("draw", "c2", file).end()
    found = [m for m in Hook().read(received(DIALECT, story.checked())).values["messages"] if m["type"] == "tool"]
    assert "| Ulm | 128000 |" in found[0]["content"]
    assert found[0]["artifact"]["rows"] == [["Ulm", 128_000]]
    assert "map.pdf" in found[1]["content"]
    assert found[1]["artifact"]["document_id"] == "d1"


def test_other_envelopes_are_on_the_custom_stream_by_type() -> None:
    story = Story().begin().other(m.Log, p.Logged(message="halfway"))
    story.other(m.Log, p.Logged(message="slow", level="warning", progress=50))
    story.other(m.Warning, p.Problem(code="unknown_event", message="what was that?"))
    filed = p.Filed(document_id="d1", name="a.txt", mime="text/plain", size=3, digest="d1")
    story.other(m.Document, filed).other(m.SubgraphResume, p.Resumed(checkpoint_id="k", node="model", attempt=2))
    parts = received(DIALECT, story.other(m.StopRequest, p.StopAsked(by="ada")).end("stopped").checked())
    custom: list[Any] = [part.data for part in parts if part.event == "custom"]
    assert custom[:2] == ["halfway", {"message": "slow", "level": "warning", "progress": 50}]
    assert custom[2] == {"type": "warning", "code": "unknown_event", "message": "what was that?"}
    assert (custom[3]["type"], custom[3]["document_id"]) == ("document", "d1")
    assert parts[-1].data == {"run_id": "r1", "attempt": 2}, (
        "a second attempt is announced; a stop just ends the stream"
    )


@pytest.mark.requirement("fault-58")
def test_an_id_from_a_stranger_cannot_break_the_name_of_an_event() -> None:
    evil = "c1|x\nevent: error\ndata: {}\n\n"
    story = Story().begin().speak("a", "", ("task", evil, {})).use("task", evil, {}, kind="agent", title="t")
    story.speak("b", "inside", parent=f"#{evil}").used("task", evil, "done").end()
    names = {part.event for part in received(DIALECT, story.checked())}
    assert "error" not in names
    assert len([name for name in names if name.startswith("messages|tools:c1_x_event:")]) == 1
