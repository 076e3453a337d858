"""LangGraph's thread protocol: every event fits the protocol's types, and the SDK's decoders make sense of them."""

import pytest

from stellwerk.dialects.langgraph.threads import DIALECT
from stellwerk.envelope import model as m
from stellwerk.envelope import payloads as p
from tests.dialects.langgraph_clients import Json, Thread, faults, thread_events
from tests.dialects.sample_logs import STORIES, Story, inner_graphs, parallel, questions, reasoning, simple, troubled


def thread(story: Story, *namespace: str) -> Thread:
    return Thread(thread_events(DIALECT, story.checked()), list(namespace))


def brief(events: list[Json]) -> list[str]:
    """Method and event, without the states."""
    named = [(e["method"], e["params"]["data"]) for e in events if e["method"] not in ("values", "updates")]
    return [data.get("event", method) for method, data in named]


@pytest.mark.parametrize("name", STORIES)
def test_everything_that_begins_ends_and_the_root_has_the_last_word(name: str) -> None:
    events = thread_events(DIALECT, STORIES[name]().checked())
    assert faults(events) == []
    last = events[-1]
    assert (last["method"], last["params"]["namespace"]) == ("lifecycle", [])


def test_a_run_with_a_tool_in_the_order_of_the_protocol() -> None:
    words = ["content-block-delta"] * 2
    assert brief(thread(simple()).events) == [
        "running",
        *["message-start", "content-block-start", "content-block-delta", *words],
        *["content-block-start", "content-block-delta", "content-block-finish", "content-block-finish"],
        *["message-finish", "tool-started", "tool-finished"],
        *["message-start", "content-block-start", "content-block-delta", *words],
        *["content-block-finish", "message-finish", "completed"],
    ]


def test_seq_and_id_follow_from_the_place_in_the_log() -> None:
    first, second = thread(simple()).events[:2]
    assert (first["seq"], first["event_id"]) == (100_000, "1.0")
    assert (second["seq"], second["event_id"]) == (200_000, "2.0")
    assert first["params"] == {
        "namespace": [],
        "timestamp": 1_000_000,
        "data": {"event": "running", "graph_name": "desk"},
    }


@pytest.mark.parametrize("name", ["simple", "reasoning", "questions"])
def test_the_sdk_assembles_the_messages_that_values_hold(name: str) -> None:
    found = thread(STORIES[name]())
    held = {message["id"]: message for message in found.data("values")[-1]["messages"] if message["type"] == "ai"}
    assert {stream.message_id for stream in found.messages} == held.keys()
    for stream in found.messages:
        message = held[stream.message_id or ""]
        assert stream.output.tool_calls == message["tool_calls"]
        assert stream.output.text == "".join(
            part.get("text", "") if isinstance(part, dict) else part for part in message["content"]
        )
        if "usage_metadata" in message:
            assert stream.output.usage_metadata == message["usage_metadata"]


def test_reasoning_is_a_block_of_its_own_and_arguments_come_as_they_are_written() -> None:
    first = thread(reasoning()).messages[0]
    assert first.output.content_blocks[:2] == [
        {"type": "reasoning", "reasoning": "hm…", "index": 0},
        {"type": "text", "text": "I see", "index": 1},
    ]
    assert [piece["args"] for piece in first.tool_calls] == ['{"at": ', '"sky"}']
    assert first.tool_calls.get()[0]["args"] == {"at": "sky"}


def test_sub_agents_are_found_by_their_tool_calls_three_levels_deep() -> None:
    root = thread(parallel())
    assert [child.path for child in root.children] == [("tools:c1",), ("tools:c2",)]
    assert [tool.tool_call_id for tool in root.tools] == ["c1", "c2"]
    assert [child.trigger_call_id for child in root.children] == ["c1", "c2"]
    left = thread(parallel(), "tools:c1")
    assert [stream.output.text for stream in left.messages] == ["left", "left it is "]
    assert [child.path for child in left.children] == [("tools:c1", "tools:c3")]
    mole = thread(parallel(), "tools:c1", "tools:c3")
    assert mole.data("lifecycle") == [
        {"event": "started", "graph_name": "mole", "cause": {"type": "toolCall", "tool_call_id": "c3"}},
        {"event": "completed"},
    ]
    assert [(tool.name, tool.output["content"]) for tool in mole.tools] == [("grep", "3 hits")]
    assert mole.data("values")[-1]["messages"][0]["content"] == "dig"


def test_questions_are_requested_together_and_waiting_calls_start_again_on_resume() -> None:
    events = thread(questions()).events
    asked = [e["params"] for e in events if e["method"] == "input.requested"]
    assert [(a["namespace"], a["data"]["interrupt_id"], a["data"]["payload"]) for a in asked] == [
        ([], "q1", {"question": "Window?", "options": ["yes", "no"]}),
        (["tools:c1"], "q2", {"form": "own"}),
    ]
    pause = next(i for i, e in enumerate(events) if e["params"]["data"].get("event") == "interrupted")
    assert brief(events)[-1] == "completed"
    assert brief(events[pause : pause + 6]) == [
        *["interrupted", "interrupted"],
        *["running", "tool-started", "started", "tool-started"],
    ]
    after = Thread(events[pause + 2 :], [])
    assert [(t.tool_call_id, t.output["content"]) for t in after.tools] == [("c1", "booked in Ulm"), ("c2", "yes")]
    assert "__interrupt__" not in after.data("values")[-1]


def test_an_abandoned_message_ends_in_an_error_and_is_seen_to_be_removed() -> None:
    found = thread(troubled())
    assert [stream.message_id for stream in found.messages if stream.output_message is None] == ["a", "e"]
    shown = [["a" in [m["id"] for m in values["messages"]]] for values in found.data("values")]
    assert [True] in shown, "a client drops only what it has seen in values"
    assert shown[-1] == [False]
    error = next(data for data in found.data("messages") if data["event"] == "error")
    assert (error["message"], error["code"]) == ("the model call was abandoned", "abandoned")


def test_a_tool_tried_again_fails_once_and_then_succeeds() -> None:
    found = thread(troubled())
    assert [(t.tool_call_id, str(t.error or ""), t.output and t.output["content"]) for t in found.tools] == [
        ("c1", "busy", None),
        ("c1", "", "seen"),
        ("c2", "no such place", None),
    ]
    assert found.data("lifecycle")[-1] == {"event": "failed", "graph_name": "desk", "error": "the model is gone"}


def test_a_tool_that_calls_a_model_has_an_inside_too() -> None:
    events = thread(inner_graphs()).events
    inside = Thread(events, ["tools:c1"])
    assert [stream.output.text for stream in inside.messages] == ["a model in a tool "]
    assert [data["event"] for data in inside.data("lifecycle")] == ["started", "completed"]
    (tool,) = Thread(events, []).tools
    assert tool.pieces == ['{"progress":40}', "nearly"]


def test_a_graph_in_a_node_is_no_tool_call() -> None:
    found = thread(inner_graphs())
    assert ("review:0f3c",) in [child.path for child in found.children]
    assert thread(inner_graphs(), "review:0f3c").data("lifecycle")[0] == {"event": "started", "graph_name": "Reviewer"}
    assert [tool.name for tool in found.tools] == ["sum"]


def test_a_checkpoint_comes_right_before_the_values_it_holds() -> None:
    events = thread(inner_graphs()).events
    saved = [i for i, e in enumerate(events) if e["method"] == "checkpoints"]
    assert [events[i]["params"]["data"] for i in saved] == [
        {"id": "k1", "step": -1, "source": "input"},
        {"id": "k2", "parent_id": "k1", "step": 0, "source": "loop"},
    ]
    assert [events[i + 1]["method"] for i in saved] == ["values", "values"]


def test_changes_of_an_inner_graph_are_in_its_own_values_and_its_checkpoints_are_left_out() -> None:
    story = Story().begin().use("task", "c1", {}, kind="agent", title="scout")
    story.inside("c1", m.Update, p.Updated(node="n", delta={"found": 1}, namespace=["tools:9"]))
    story.inside("c1", m.SubgraphCheckpoint, p.Checkpointed(checkpoint_id="k", node="n", state_digest="0"))
    story.used("task", "c1", "ok").end()
    assert thread(story, "tools:c1").data("values")[-1] == {"messages": [], "found": 1}
    assert "found" not in thread(story).data("values")[-1]
    assert not [e for e in thread(story).events if e["method"] == "checkpoints"], "forks start at the outermost graph"


def test_each_node_streams_one_message_at_a_time() -> None:
    """A node that runs many times at once: the JavaScript client knows messages by graph and node alone."""
    story = Story().begin().think("a").think("b").think("c")
    story.token("a", "one").token("b", "two ").token("a", " fish").token("c", "lost").thought("c", status="abandoned")
    story.token("b", "fish").thought("b").thought("a").end()
    found = thread(story)
    order = [(d["event"], d.get("id") or d["message_id"]) for d in found.data("messages") if d["event"][:4] == "mess"]
    assert order == [
        ("message-start", "a"),
        ("message-finish", "a"),
        ("message-start", "b"),
        ("message-finish", "b"),
    ]
    assert [stream.output.text for stream in found.messages] == ["one fish", "two fish"]
    assert faults(found.events) == []


def test_a_message_that_a_node_returned_is_sent_whole() -> None:
    found = thread(Story().begin().says("assistant", "from a node", "n1", author="greeter").end())
    assert [stream.output.text for stream in found.messages] == ["from a node"]
    assert found.data("updates")[-1]["node"] == "greeter"


def test_documents_and_warnings_are_named_and_what_a_node_wrote_is_not() -> None:
    story = Story().begin().other(m.Log, p.Logged(message="x", data={"my": "own"}))
    filed = p.Filed(document_id="d1", name="a.txt", mime="text/plain", size=3, digest="d1")
    story.other(m.Document, filed).other(m.Warning, p.Problem(code="odd", message="hm")).end("stopped")
    found = thread(story)
    assert [data.get("name") for data in found.data("custom")] == [None, "document", "warning"]
    assert found.data("custom")[0] == {"payload": {"my": "own"}}
    assert found.data("lifecycle")[-1]["event"] == "interrupted", "what LangGraph calls a run that was stopped"
