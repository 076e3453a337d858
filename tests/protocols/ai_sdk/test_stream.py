"""The UI message stream of logs: what becomes which part."""

from typing import Any

from stellwerk.dialects.ai_sdk.messages import UIMessages
from stellwerk.envelope import model as m
from stellwerk.envelope import payloads as p
from stellwerk.envelope.results import FileRef, Json, Table
from tests.dialects.sample_logs import Story, inner_graphs, parallel, questions, reasoning
from tests.protocols.ai_sdk.test_every_log import folded, streams

Chunk = dict[str, Any]
PAY: dict[str, Any] = {"tool_call_id": "c1", "tool_name": "pay", "args": {"n": 5}, "kind": "approval"}


def chunks(story: Story) -> list[Chunk]:
    return [chunk for stream in streams(story.checked()) for chunk in stream]


def of(story: Story, *types: str) -> list[Chunk]:
    return [chunk for chunk in chunks(story) if chunk["type"] in types]


def types(found: list[Chunk]) -> list[str]:
    return [chunk["type"] for chunk in found]


def parts(history: UIMessages) -> list[Chunk]:
    """Of the last message, without steps."""
    return [part for part in history.messages()[-1]["parts"] if part["type"] != "step-start"]


def test_a_question_of_the_agent_is_its_call_and_one_of_a_sub_agent_a_call_of_its_own() -> None:
    asked = [chunk for chunk in of(questions(), "tool-input-available") if chunk["toolName"] == "ask_user"]
    assert [(chunk["toolCallId"], chunk["input"]["question"]) for chunk in asked] == [
        ("c2", "Window?"),
        ("q2", "Town?"),
    ]
    assert not any("providerExecuted" in chunk for chunk in asked), "the client executes them"
    before = Story(questions().log[:12])
    assert folded(before.log).questions == {"c2": "q1", "q2": "q2"}
    outputs = {chunk["toolCallId"]: chunk["output"] for chunk in of(questions(), "tool-output-available")}
    assert outputs == {"c1": "booked in Ulm", "c2": "yes", "q2": "Ulm"}
    assert folded(questions().log).questions == {}


def test_the_runs_of_a_trace_are_one_message_and_its_last_question_is_in_its_last_step() -> None:
    (stream,) = streams(questions().checked())
    assert types(stream).count("start") == 2 and {c["messageId"] for c in stream if c["type"] == "start"} == {"t1"}
    finish = [chunk["finishReason"] for chunk in stream if chunk["type"] == "finish"]
    assert finish == ["tool-calls", "stop"]


def waiting(*names: str) -> Story:
    story = Story().begin("pay").speak("a", "", *((name, f"c{n}", {"n": 5}) for n, name in enumerate(names, 1)))
    return story.ask("q1", "Pay?", **PAY).end("awaiting_user").begin(None, ask_ids=["q1"])


def test_an_approval_is_a_request_for_the_part_of_its_call_and_approved_with_other_arguments_it_has_those() -> None:
    story = waiting("pay").answer("q1", "approve").use("pay", "c1", {"n": 7}).used("pay", "c1", "paid").end()
    assert types(chunks(story))[2:5] == ["tool-input-available", "tool-approval-request", "finish-step"]
    (part,) = parts(folded(story.log))
    assert (part["input"], part["output"], part["approval"]["id"]) == ({"n": 7}, "paid", "q1")
    assert types(chunks(story)).count("start-step") == 1, "a client updates a part only in its own step"


def test_a_second_approval_stays_in_the_step_of_its_call_where_clients_look_for_it() -> None:
    story = waiting("pay").answer("q1", "approve").use("pay", "c1", {"n": 5}).used("pay", "c1", "paid")
    story.think("b").write("b", "pay", "c2", "{}").thought("b", ("pay", "c2", {}), ("pay", "c3", {}))
    story.ask("q2", "And?", **{**PAY, "tool_call_id": "c3"}).end("awaiting_user").begin(None, ask_ids=["q2"])
    story.answer("q2", "approve").ask("q3", "And?", **{**PAY, "tool_call_id": "c2"}).end("awaiting_user")
    assert types(chunks(story)).count("start-step") == 2
    assert folded(story.checked()).questions == {"c2": "q3"}


def test_a_refused_call_is_denied_and_stays_so() -> None:
    story = waiting("pay")
    story._tell(m.UserAnswer, "answer-q1", story.run, p.Answered(ask_id="q1", refused=True, text="too much"))
    story.use("pay", "c1", {"n": 5}).used("pay", "c1", status="error", error=p.Failure(message="rejected")).end()
    assert [part["state"] for part in parts(folded(story.checked()))] == ["output-denied"]


def test_an_approval_inside_a_sub_agent_has_a_part_of_its_own() -> None:
    story = Story().begin("go").speak("a", "", ("task", "t", {})).use("task", "t", {}, kind="agent", title="clerk")
    story.speak("i", "", ("pay", "c1", {"n": 5}), parent="#t").ask("q1", "Pay?", "#t", **PAY).end("awaiting_user")
    assert types(chunks(story))[-5:-3] == ["tool-input-available", "tool-approval-request"]
    assert folded(story.checked()).questions == {"q1": "q1"}
    agent = parts(folded(story.log))[1]
    assert agent["type"] == "data-agent" and agent["data"]["status"] == "waiting"


def test_sub_agents_are_parts_of_their_own_and_their_tokens_are_transient() -> None:
    found = {part["id"]: part["data"] for part in parts(folded(parallel().log)) if part["type"] == "data-agent"}
    assert {id_: (data["name"], data["status"], data["text"]) for id_, data in found.items()} == {
        "#c1": ("scout", "done", "left it is "),
        "#c2": ("scout", "done", "right"),
        "#c3": ("mole", "done", "deep down "),
    }
    assert found["#c3"]["parentId"] == "#c1" and "toolCallId" not in found["#c3"]
    assert found["#c3"]["calls"] == [{"toolCallId": "c4", "toolName": "grep", "status": "done"}]
    assert all(chunk["transient"] for chunk in of(parallel(), "data-agent-delta"))
    assert [chunk["delta"] for chunk in of(parallel(), "text-delta")] == ["both "]


def test_what_a_graph_inside_says_belongs_to_the_message_but_not_what_a_model_in_a_tool_says() -> None:
    said = [part["text"] for part in parts(folded(inner_graphs().log)) if part["type"] == "text"]
    assert said == ["inside ", "done "]


def test_progress_of_a_tool_is_a_preliminary_output_and_logs_are_transient() -> None:
    outputs = of(inner_graphs(), "tool-output-available")
    assert [(chunk["output"], chunk.get("preliminary")) for chunk in outputs] == [
        ({"progress": 40}, True),
        ("nearly", True),
        ("short", None),
    ]
    assert [chunk["data"]["message"] for chunk in of(inner_graphs(), "data-log")] == ["40 %"]


def test_states_are_parts_with_fixed_ids_and_files_one_part_each() -> None:
    found = {part["id"]: part["data"] for part in parts(folded(inner_graphs().log)) if part["type"] == "data-state"}
    assert found == {
        "files/a/b.md": {"name": "files", "key": "a/b.md", "removed": True},
        "files/c": {"name": "files", "key": "c", "value": "C"},
    }
    (todos,) = of(inner_graphs(), "data-todos")
    assert todos["data"] == {"todos": [{"content": "write", "status": "in_progress"}]}


def test_results_keep_their_kind_and_files_have_an_address() -> None:
    story = Story().begin("go").speak("a", "", *((name, name, {}) for name in ("t", "f", "j")))
    story.use("t", "t", {}).used("t", "t", Table(columns=("a",), rows=((1,),)))
    story.use("f", "f", {}).used("f", "f", FileRef(document_id="d1", filename="a.png", mime="image/png", size=3))
    filed = p.Filed.of("d1", "a.png", "image/png", 3, message_id=None)
    story.other(m.Document, filed)
    story.use("j", "j", {}).used("j", "j", Json(data=[1])).end()
    outputs = [chunk["output"] for chunk in of(story, "tool-output-available")]
    assert outputs[0] == {"kind": "table", "columns": ("a",), "rows": ((1,),)} and outputs[2] == [1]
    assert outputs[1]["url"] == "/files/d1"
    (file,) = of(story, "file")
    assert file == {"type": "file", "url": "/files/d1", "mediaType": "image/png"}


def test_files_of_the_user_are_parts_of_the_users_message_only() -> None:
    story = Story()
    started = p.RunStarted(round=1, trigger="message", system="desk", system_version=1, message_id="m1")
    story.run, story.trace = "r1", "t1"
    story._tell(m.RunStart, "r1", None, started)
    story.other(m.Document, p.Filed.of("d1", "a.png", "image/png", 3, message_id="m1"))
    content: list[Any] = [p.TextPart(text="see"), p.FilePart(document_id="d1", filename="a.png", mime="image/png")]
    story._tell(m.Message, "say", "r1", p.Said(message_id="m1", role="user", content=content, status="first"))
    story.speak("a", "nice").end()
    assert of(story, "file", "data-document") == []
    user = folded(story.checked()).messages()[0]
    file = {"type": "file", "mediaType": "image/png", "filename": "a.png", "url": "/files/d1"}
    assert user["parts"] == [{"type": "text", "text": "see"}, file]


def test_reasoning_is_a_part_in_front_of_the_text_and_arguments_stream() -> None:
    found = types(chunks(reasoning()))
    assert found[2:12] == [
        *("reasoning-start", "reasoning-delta", "reasoning-delta", "reasoning-end"),
        *("text-start", "text-delta", "text-delta", "text-end"),
        *("tool-input-start", "tool-input-delta"),
    ]
    assert types(chunks(reasoning()))[-2:] == ["message-metadata", "abort"]


def test_a_failed_run_ends_with_its_error_and_the_history_says_it_too() -> None:
    story = Story().begin("go").other(m.Error, p.Problem(code="model", message="no key", fatal=True))
    story.end("failed", reason="no key", code="model")
    assert chunks(story)[-1] == {"type": "error", "errorText": "no key"}
    metadata = folded(story.checked()).messages()[-1]["metadata"]
    assert (metadata["status"], metadata["error"]) == ("failed", {"code": "model", "message": "no key"})


def test_texts_that_do_not_count_are_marked_in_the_stream_and_missing_in_the_history() -> None:
    story = Story().begin("go").think("a").token("a", "half").thought("a", status="abandoned").speak("b", "whole").end()
    (end, *_) = of(story, "text-end")
    assert end["providerMetadata"] == {"stellwerk": {"status": "abandoned"}}
    assert [part["text"] for part in parts(folded(story.checked()))] == ["whole "]


def test_replaced_rounds_are_gone_and_an_enqueued_message_is_where_its_run_begins() -> None:
    story = Story().begin("one", message_id="m1").speak("a", "first").end()
    story.begin("two", message_id="m2").speak("b", "second").end()
    story.begin("again", message_id="m3", replaces="r1").speak("c", "third").end()
    said = [(message["role"], message["id"]) for message in folded(story.log).messages()]
    assert said == [("user", "m3"), ("assistant", "t3")]
    queued = Story().begin("one", message_id="m1")
    part = p.Said(message_id="m9", role="user", content=[p.TextPart(text="next")], status="first")
    queued.log.append(m.Message(ts=1, parent_id=None, call_id="say-m9", seq=1, payload=part))
    queued.speak("a", "first").end()
    assert [message["id"] for message in folded(queued.log).messages()] == ["m1", "t1", "m9"]
    started = p.RunStarted(round=2, trigger="message", system="desk", system_version=1, message_id="m9")
    queued.run, queued.trace = "r2", "t2"
    queued._tell(m.RunStart, "r2", None, started).speak("b", "second").end()
    assert [message["id"] for message in folded(queued.log).messages()] == ["m1", "t1", "m9", "t2"]


def test_a_regenerated_round_keeps_the_message_that_it_answers_again() -> None:
    story = Story().begin("one", message_id="m1").speak("a", "first").end()
    story.begin("two", message_id="m2").speak("b", "second").end()
    story.run, story.trace = "r3", "t3"
    again = p.RunStarted(round=3, trigger="regenerate", system="desk", system_version=1, message_id="m1", replaces="r1")
    story._tell(m.RunStart, "r3", None, again).speak("c", "better").end()
    said = [(message["role"], message["id"]) for message in folded(story.log).messages()]
    assert said == [("user", "m1"), ("assistant", "t3")]
