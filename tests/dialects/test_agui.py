"""AG-UI: what each kind of envelope is for a client, on logs written by hand."""

import json
from typing import Any

from stellwerk.dialects.agui.dialect import DIALECT
from stellwerk.dialects.base import translate
from stellwerk.envelope import model as m
from stellwerk.envelope import payloads as p
from tests.dialects.agui_rules import Client, problems
from tests.dialects.agui_streams import chunks, kinds, of
from tests.dialects.sample_logs import Story, inner_graphs, parallel, positions, questions, reasoning, simple, troubled


def test_a_run_is_the_question_the_text_the_tool_and_the_answer() -> None:
    told = chunks(simple())
    text = ["TEXT_MESSAGE_START", *["TEXT_MESSAGE_CONTENT"] * 3, "TEXT_MESSAGE_END"]
    tool = ["TOOL_CALL_START", "TOOL_CALL_ARGS", "TOOL_CALL_END", "TOOL_CALL_RESULT"]
    assert kinds(told) == ["RUN_STARTED", *text, *tool, *text, "RUN_FINISHED"]
    screen = Client().read(told)
    assert screen.texts("user") == ["what is up?"], "who did not send the message learns it from RUN_STARTED"
    assert screen.texts() == ["let me see ", "it is blue "]
    assert screen.call("c1") == {"name": "look", "arguments": '{"at":"sky"}'}
    assert of(told, "TOOL_CALL_START")[0]["parentMessageId"] == "a"


def test_the_first_event_names_the_thread_the_run_and_the_version_and_times_are_milliseconds() -> None:
    first, *_, last = chunks(simple())
    assert (first["threadId"], first["runId"], first["protocolVersion"]) == ("s1", "r1", "1.0")
    assert (last["threadId"], last["runId"], last["outcome"]) == ("s1", "r1", {"type": "success"})
    assert (first["timestamp"], last["timestamp"]) == (1000000, 1001600)


def test_the_frames_are_sse_with_the_cursor_as_id() -> None:
    frames = [DIALECT.frame(*each) for each in translate(DIALECT.translator("s1"), positions(simple().checked()))]
    assert frames[1].startswith(b'id: 4.0\ndata: {"type":"TEXT_MESSAGE_START",')
    assert all(frame.endswith(b"}\n\n") and b"\r" not in frame for frame in frames)


def test_usage_and_result_are_in_the_end_of_a_run() -> None:
    used = p.Usage(model="gpt", input_tokens=3, output_tokens=5)
    (last,) = of(chunks(Story().begin().end(usage=[used], result="42")), "RUN_FINISHED")
    assert last["usage"] == [{"model": "gpt", "inputTokens": 3, "outputTokens": 5, "totalTokens": 8}]
    assert last["result"] == "42"


def test_a_stopped_run_is_cancelled_and_a_failed_one_is_an_error_after_all_is_closed() -> None:
    cut = p.ModelEnded(message_id="a", status="abandoned", synthesized=True)
    story = Story().begin().think("a").token("a", "half")
    story._tell(m.LlmEnd, "a", story.run, cut)
    told = chunks(story.end("stopped"))
    assert told[-1]["outcome"] == {"type": "cancelled"}
    assert Client().read(told).texts() == ["half"], "what was said until then stays"
    last = chunks(troubled())[-1]
    assert (last["type"], last["message"], last["code"]) == ("RUN_ERROR", "the model is gone", "failed")


def test_reasoning_is_a_message_of_its_own_for_each_block() -> None:
    told = chunks(reasoning())
    begins = ["RUN_STARTED", "REASONING_START", "REASONING_MESSAGE_START", *["REASONING_MESSAGE_CONTENT"] * 2]
    assert kinds(told)[:8] == [*begins, "REASONING_MESSAGE_END", "REASONING_END", "TEXT_MESSAGE_START"]
    assert Client().read(told).texts("reasoning") == ["hm…"]


def test_thoughts_that_come_back_after_some_text_go_on_in_their_own_message() -> None:
    story = Story().begin().think("a").token("a", "so ", "reasoning").token("a", "hi")
    story.token("a", "that", "reasoning").token("a", "new", "reasoning", 1).thought("a").end()
    screen = Client().read(chunks(story))
    assert (screen.texts("reasoning"), screen.texts()) == (["so that", "new"], ["hi"])


def test_a_call_that_is_given_up_is_taken_back_and_its_text_is_never_doubled() -> None:
    told = chunks(troubled())
    assert [len(chunk["messages"]) for chunk in of(told, "MESSAGES_SNAPSHOT")] == [1], "the user's message stays"
    assert Client().read(told).texts() == ["again ", "so"], "the last one ended the run; nobody tried again"


def test_text_of_a_failed_model_call_is_retracted_on_retry() -> None:
    story = Story().begin().speak("x", "before", ("look", "c1", {"n": 1})).use("look", "c1", {"n": 1})
    story.used("look", "c1", "seen").think("a").token("a", "half a sen").thought("a", status="error")
    told = chunks(story.speak("b", "a whole one").end())
    assert Client().read(told).texts() == ["before ", "a whole one "]
    (snapshot,) = of(told, "MESSAGES_SNAPSHOT")
    assert [message["role"] for message in snapshot["messages"]] == ["user", "assistant", "tool"]
    assert snapshot["messages"][1]["toolCalls"][0]["function"] == {"name": "look", "arguments": '{"n":1}'}


def test_an_answer_that_replaces_another_leaves_only_itself() -> None:
    story = Story().begin("hi").speak("a", "one").says("assistant", "one ", "a").end()
    story.begin("hi", replaces="r1").speak("b", "two").says("assistant", "two ", "b").end()
    assert Client().read(chunks(story)).texts() == ["two "]


def test_an_edited_message_leaves_nothing_of_its_round_and_of_later_ones() -> None:
    story = Story().begin("one", message_id="m1").speak("a", "1").says("assistant", "1 ", "a").end()
    story.begin("two", message_id="m2").speak("b", "2").says("assistant", "2 ", "b").end()
    story.begin("three", message_id="m3").speak("c", "3").says("assistant", "3 ", "c").end()
    story.begin("two!", message_id="m4", replaces="r2").speak("d", "4").says("assistant", "4 ", "d").end()
    screen = Client().read(chunks(story))
    assert (screen.texts("user"), screen.texts()) == (["one", "two!"], ["1 ", "4 "])


def test_a_message_without_a_model_call_is_sent_and_a_streamed_one_is_not_repeated() -> None:
    story = Story().begin().says("assistant", "by hand", "h1", "step").think("a").token("a", "hi")
    story.thought("a", message_id="other").says("assistant", "hi", "other")
    story.says("system", "be kind", "s1", "step").says("tool", "no", "t1", "step").end()
    screen = Client().read(chunks(story))
    assert (screen.texts(), screen.texts("system")) == (["by hand", "hi"], ["be kind"])


def test_a_removed_message_is_gone() -> None:
    story = Story().begin().speak("a", "oh").says("assistant", "oh ", "a")
    assert Client().read(chunks(story.says("assistant", "", "a", "last", action="removed").end())).texts() == []


def test_what_the_user_sent_along_is_in_the_message() -> None:
    parts: list[p.TextPart | p.FilePart] = [
        p.TextPart(text="see"),
        p.FilePart(document_id="d1", filename="a.pdf", mime="application/pdf"),
    ]
    story = Story().begin(None, message_id="m1")
    said = p.Said(message_id="m1", role="user", content=parts, status="first")
    (message,) = chunks(story._tell(m.Message, "say", story.run, said).end())[0]["input"]["messages"]
    assert [part["type"] for part in message["content"]] == ["text", "document"]


def test_events_between_runs_are_sent_in_the_next_run() -> None:
    story = Story()
    before = p.Said(message_id="m0", role="assistant", content=[p.TextPart(text="welcome")], status="step")
    outside: dict[str, Any] = {"ts": 1.0, "parent_id": None, "seq": 1}
    filed = p.Filed(document_id="d1", name="a.txt", mime="text/plain", size=3, digest="d1", ext="txt")
    log: list[m.Envelope] = [
        m.Message(**outside, call_id="e", payload=before),
        m.Document(**outside, call_id="d", payload=filed),
        *story.begin("hi").end().checked(),
    ]
    told = [chunk for _, chunk in translate(DIALECT.translator("s1"), positions(log))]
    assert problems(told) == []
    assert kinds(told) == ["RUN_STARTED", "ACTIVITY_SNAPSHOT", "RUN_FINISHED"]
    screen = Client().read(told)
    assert (screen.texts(), screen.texts("user")) == (["welcome"], ["hi"])
    (artifact,) = screen.activities("ARTIFACT")
    assert (artifact["url"], artifact["mimeType"], artifact["action"]) == ("/files/d1", "text/plain", "added")


def test_progress_is_an_activity_that_grows() -> None:
    (progress,) = Client().read(chunks(inner_graphs())).activities("TOOL_PROGRESS")
    assert progress == {"toolCallId": "c1", "toolName": "sum", "output": [{"progress": 40}, "nearly"]}


def test_remarks_are_custom_events_and_a_fatal_error_is_the_end() -> None:
    story = Story().begin().other(m.Log, p.Logged(message="half", progress=50))
    story.other(m.Warning, p.Problem(code="slow", message="it takes long"))
    story.other(m.Error, p.Problem(code="call_failed", message="x raised"))
    told = chunks(story.other(m.Error, p.Problem(code="gone", message="over", fatal=True)).end("failed"))
    custom = [(chunk["name"], chunk["value"]) for chunk in of(told, "CUSTOM")]
    assert custom == [
        ("log", {"message": "half", "progress": 50}),
        ("warning", {"code": "slow", "message": "it takes long"}),
        ("error", {"code": "call_failed", "message": "x raised"}),
    ]
    assert told[-1]["message"] == "The run failed."


def test_sub_agents_side_by_side_and_inside_each_other_own_what_happens_in_them() -> None:
    told = chunks(parallel())
    started = {chunk["subagentRunId"]: chunk for chunk in of(told, "SUBAGENT_STARTED")}
    assert {id_: chunk["name"] for id_, chunk in started.items()} == {"#c1": "scout", "#c2": "scout", "#c3": "mole"}
    assert started["#c3"]["parentSubagentRunId"] == "#c1"
    assert {id_: chunk["parentToolCallId"] for id_, chunk in started.items()} == {"#c1": "c1", "#c2": "c2", "#c3": "c3"}
    screen = Client().read(told)
    assert {owner: screen.texts(owner=owner) for owner in (*started, None)} == {
        "#c1": ["left", "left it is "],
        "#c2": ["right"],
        "#c3": ["deep down "],
        None: ["both "],
    }
    assert len(of(told, "SUBAGENT_FINISHED")) == 3


def test_a_graph_inside_a_graph_is_a_sub_agent_that_no_model_called() -> None:
    told = chunks(inner_graphs())
    (started,) = of(told, "SUBAGENT_STARTED")
    assert "parentToolCallId" not in started
    assert [chunk["toolCallId"] for chunk in of(told, "TOOL_CALL_RESULT")] == ["c1"]
    assert Client().read(told).texts(owner=started["subagentRunId"]) == ["inside "]


def test_a_sub_agent_that_fails_says_why() -> None:
    failure = p.Failure(message="lost", code="tool_raised")
    story = Story().begin().use("task", "c1", {}, kind="agent").used("task", "c1", status="error", error=failure).end()
    (failed,) = of(chunks(story), "SUBAGENT_ERROR")
    assert (failed["message"], failed["code"]) == ("lost", "tool_raised")


def test_questions_end_the_run_and_the_next_one_goes_on_where_they_were_asked() -> None:
    told = chunks(questions())
    first, second = told[: kinds(told).index("RUN_FINISHED") + 1], told[kinds(told).index("RUN_FINISHED") + 1 :]
    window, town = first[-1]["outcome"]["interrupts"]
    assert (window["id"], window["reason"], window["message"]) == ("q1", "input_required", "Window?")
    assert (window["toolCallId"], window["metadata"]) == ("c2", {"kind": "question", "options": ["yes", "no"]})
    assert (town["toolCallId"], town["subagentRunId"]) == ("c3", "#c1")
    assert first[-2]["outcome"] == {"type": "suspended", "interruptIds": ["q2"]}
    assert second[0]["input"]["resume"] == [
        {"interruptId": "q1", "status": "resolved", "payload": "yes"},
        {"interruptId": "q2", "status": "resolved", "payload": "Ulm"},
    ]
    assert (second[1]["type"], second[1]["subagentRunId"]) == ("SUBAGENT_STARTED", "#c1"), "the same one, again"
    assert not of(second, "TOOL_CALL_START"), "a call is told once; only its result comes now"
    assert [chunk["toolCallId"] for chunk in of(second, "TOOL_CALL_RESULT")] == ["c2", "c3", "c1"]


def test_a_call_that_waits_for_approval_is_sent_once_and_before_the_question() -> None:
    wanted = ("pay", "c1", {"to": "Bob"})
    schema = {"type": "object"}
    story = Story().begin().speak("a", "", wanted)
    story.ask("q1", "Pay?", kind="approval", tool_call_id="c1", tool_name="pay", args={"to": "Bob"}, schema=schema)
    story.end("awaiting_user").begin(None, ask_ids=["q1"])
    story._tell(m.UserAnswer, "answer", story.run, p.Answered(ask_id="q1", refused=True))
    told = chunks(story.use("pay", "c1", {"to": "Ann"}).used("pay", "c1", "sent").end())
    (ask,) = told[4]["outcome"]["interrupts"]
    assert (ask["reason"], ask["toolCallId"], ask["responseSchema"]) == ("tool_call", "c1", schema)
    assert json.loads(Client().read(told).call("c1")["arguments"]) == {"to": "Bob"}, "what the model proposed"
    assert of(told, "RUN_STARTED")[1]["input"]["resume"] == [{"interruptId": "q1", "status": "cancelled"}]
    assert len(of(told, "TOOL_CALL_RESULT")) == 1
