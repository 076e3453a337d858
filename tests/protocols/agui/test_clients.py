"""AG-UI's clients, unchanged and of both generations, against a running server: what a user of a front end sees."""

from typing import Any

import httpx2
import pytest

from tests import keyed
from tests.protocols.agui.conftest import Tab


def native(tab: Tab, path: str) -> Any:
    return httpx2.get(f"{tab.server}{path}", headers=keyed.shown_to(tab.server)).raise_for_status().json()


@pytest.mark.parametrize(
    ("text", "tool", "answer"),
    [
        ("weather", "get_weather", "It is sunny."),
        ("table", "make_table", "A table keeps its columns"),
        ("file", "write_report", "The bytes are stored once"),
        ("delegate", "researcher", "The researcher says:"),
        ("plan", "plan_tasks", "the list is done"),
        ("hello", None, "You said “hello”."),
    ],
)
def test_text_tools_tables_files_sub_agents_and_plans_are_shown(
    demo: Tab, text: str, tool: str | None, answer: str
) -> None:
    demo.run(text)
    assert answer in demo.text
    called = [call["function"]["name"] for each in demo.messages for call in each.get("toolCalls", ())]
    assert tool is None or tool in called
    demo.is_well()


def test_a_file_is_a_part_for_new_clients_and_text_for_older_ones(demo: Tab) -> None:
    (content,) = demo.run("file").results
    if demo.client == "1":
        assert content[0]["source"]["value"].startswith("/files/")
    else:
        assert content.startswith("[file ")


def test_state_is_shared(demo: Tab) -> None:
    demo.run("plan")
    (checklist,) = (value for name, value in demo.view["state"].items() if name == "checklist")
    assert [task["status"] for task in checklist["tasks"]] == ["completed", "completed"]


def test_a_question_is_an_interrupt_and_the_answer_continues(demo: Tab) -> None:
    demo.run("ask")
    (asked,) = demo.view["interrupts"]
    assert (asked["message"], asked["metadata"]["options"]) == ("Which colour do you like?", ["red", "green", "blue"])
    demo.answer("blue")
    assert (demo.text, demo.view["interrupts"]) == ("You answered: blue", [])
    demo.is_well()


def test_two_questions_are_answered_together(tab: Tab) -> None:
    tab.run("both").answer("red", "a horse")
    assert tab.results == ["red", "a horse"]
    tab.is_well()


@pytest.mark.parametrize(
    ("payload", "written"),
    [
        (None, "bill.md"),
        ({"approved": True, "editedArgs": {"title": "Other", "text": "six"}}, "other.md"),
        (
            {"type": "edit", "edited_action": {"name": "write_report", "args": {"title": "Other", "text": "six"}}},
            "other.md",
        ),
    ],
)
def test_a_call_is_approved_or_edited(tab: Tab, payload: Any, written: str) -> None:
    tab.run("pay").answer(payload)
    assert tab.text.startswith("Written: ")
    assert written in str(tab.results[-1])
    tab.is_well()


@pytest.mark.parametrize("payload", [{"approved": False, "reason": "too dear"}, "reject: too dear"])
def test_a_call_is_rejected(tab: Tab, payload: Any) -> None:
    tab.run("pay").answer(payload)
    assert "too dear" in tab.results[-1]


def test_a_cancelled_interrupt_is_a_refusal(tab: Tab) -> None:
    tab.run("pay")
    (asked,) = tab.view["interrupts"]
    tab.run(resume=[{"interruptId": asked["id"], "status": "cancelled"}])
    assert tab.view["error"] is None
    assert len(tab.results) == 1


def test_an_unknown_or_answered_interrupt_is_an_error_of_the_run(demo: Tab) -> None:
    demo.run("ask")
    (asked,) = demo.view["interrupts"]
    other = demo.other()
    for wrong in ("nowhere", asked["id"]):
        other.run(resume=[{"interruptId": wrong, "status": "resolved", "payload": "red"}])
        if wrong == "nowhere":
            assert other.view["error"]["code"] == "interrupt_unknown"
            demo.answer("blue")
    assert other.view["error"]["code"] == "interrupt_unknown"
    assert demo.text == "You answered: blue"


def test_a_run_that_fails_is_an_error_and_the_thread_goes_on(demo: Tab) -> None:
    demo.run("fail")
    assert demo.view["error"]["code"] == "scripted_failure"
    demo.run("hello")
    assert "hello" in demo.text


def test_ids_of_the_client_are_kept_and_the_session_is_a_native_one(demo: Tab) -> None:
    demo.run("hello", id="message 1", runId="run 1")
    assert [each["role"] for each in demo.messages] == ["user", "assistant"]
    events = httpx2.get(f"{demo.url}/{demo.thread}", headers=keyed.shown_to(demo.server)).text
    assert f'"threadId":"{demo.thread}"' in events
    (session,) = [each for each in native(demo, "/sessions")["sessions"] if each["title"] == "hello"][:1]
    by_session_id = Tab(demo.node, demo.client, demo.server, system="demo", thread=session["id"]).connect()
    assert "hello" in by_session_id.messages[0]["content"]


def test_a_second_tab_that_knows_nothing_gets_the_history_in_front_of_its_message(demo: Tab) -> None:
    demo.run("weather").run("ask").answer("red")
    second = demo.other().run("hello")
    assert [each["content"] for each in second.messages if each["role"] == "user"] == ["weather", "ask", "hello"]
    second.is_well()
    first = demo.run("again")
    assert [each["content"] for each in first.messages if each["role"] == "user"] == [
        "weather",
        "ask",
        "hello",
        "again",
    ]
    first.is_well()


def test_a_page_that_is_reloaded_in_mid_run_shows_the_run_to_its_end(tab: Tab) -> None:
    waiting = tab.start("wait", forwardedProps={"onDisconnect": "continue"})
    waiting.until("TOOL_CALL_END")
    tab.node.call("abort", name=tab.name)
    waiting.done()
    reloaded = tab.other()
    following = tab.node.start("connect", name=reloaded.name, **reloaded.place)
    following.until("TOOL_CALL_END")
    (session,) = [each for each in native(tab, "/sessions")["sessions"] if each["status"] == "running"]
    stop = f"{tab.server}/sessions/{session['id']}/stop"
    httpx2.post(stop, headers=keyed.shown_to(tab.server)).raise_for_status()
    reloaded.view = following.done()
    assert [each["content"] for each in reloaded.messages][:2] == ["wait", "Now I wait. "]
    assert reloaded.view["events"][-1] == ("RUN_FINISHED" if tab.client == "1" else "RUN_ERROR")


def test_a_run_is_stopped_when_its_client_goes(tab: Tab) -> None:
    waiting = tab.start("wait")
    waiting.until("TOOL_CALL_END")
    second = tab.other()
    following = tab.node.start("connect", name=second.name, **second.place)
    following.until("TOOL_CALL_END")
    tab.node.call("abort", name=tab.name)
    ended = following.done()
    assert ended["events"][-1] == ("RUN_FINISHED" if tab.client == "1" else "RUN_ERROR")
    tab.run("hello")
    assert tab.text == "You said: hello"


def test_a_message_while_a_run_is_under_way_is_rejected_or_waits(tab: Tab) -> None:
    waiting = tab.start("wait")
    waiting.until("TOOL_CALL_END")
    second = tab.other()
    assert "HTTP 409" in second.run("hello").view["failure"]
    enqueued = second.start("later", forwardedProps={"ifBusy": "enqueue"})
    (session,) = [each for each in native(tab, "/sessions")["sessions"] if each["status"] == "running"]
    address = f"{tab.server}/sessions/{session['id']}/stream"
    with httpx2.stream("GET", address, headers=keyed.shown_to(tab.server), timeout=60) as events:
        assert any('later"' in line for line in events.iter_lines())
    third = tab.other()
    third.run("now", forwardedProps={"ifBusy": "interrupt"})
    assert third.text == "You said: now"
    enqueued.done()
    waiting.done()


def test_the_same_message_again_is_answered_once_more_and_the_same_run_only_shown(tab: Tab) -> None:
    tab.run("hello", id="m1", runId="r1")
    message = tab.view["messages"][0]
    shown = tab.other().run(messages=[message], runId="r1")
    assert shown.messages == tab.messages
    again = tab.other().run(messages=[message], runId="r2")
    assert [each["role"] for each in again.messages] == ["user", "assistant"]
    assert again.messages[1]["id"] != tab.messages[1]["id"]
    again.is_well()
    other = tab.other().run(messages=[{**message, "content": "something else"}], runId="r1")
    assert "run_id_used" in other.view["failure"]


def test_a_conversation_that_began_elsewhere_is_continued(tab: Tab) -> None:
    before = [
        {"id": "a", "role": "user", "content": "What is the capital of France?"},
        {"id": "b", "role": "assistant", "content": "Paris."},
    ]
    tab.run("And of Spain?", messages=before)
    assert [each["content"] for each in tab.messages][:3] == [
        "What is the capital of France?",
        "Paris.",
        "And of Spain?",
    ]
    tab.is_well()


def test_files_of_a_message_are_stored(tab: Tab) -> None:
    part = {"type": "document", "source": {"type": "data", "value": "aGVsbG8=", "mimeType": "text/plain"}}
    if tab.client == "0":
        part = {"type": "binary", "mimeType": "text/plain", "data": "aGVsbG8=", "filename": "a.txt"}
    tab.run([{"type": "text", "text": "read this"}, part])  # type: ignore[arg-type]
    assert "read this" in tab.text
    shown = tab.other().connect().messages[0]["content"]
    address = next(each["source"]["value"] for each in shown if "source" in each)
    stored = httpx2.get(f"{tab.server}{address}", headers=keyed.shown_to(tab.server))
    assert stored.text == "hello"
