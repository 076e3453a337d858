"""Chats of the AI SDK, unchanged and of both versions, against a running server: what a user of a front end sees."""

from itertools import count
from typing import Any

import httpx2
import pytest

from tests import keyed
from tests.protocols.ai_sdk.test_every_log import plain
from tests.protocols.node import Node

Json = dict[str, Any]
_numbers = count()


class Tab:
    """A page with a chat."""

    def __init__(self, sdk: Node, server: str, system: str = "chats", chat: str = "") -> None:
        number = next(_numbers)
        self.sdk, self.server, self.id = sdk, server, chat or f"chat-{number}"
        self.url, self.name = f"{server}/ai-sdk/{system}/chat", f"tab-{number}"
        self.view = self("open", url=self.url, id=self.id, headers=keyed.headers(server), history=bool(chat))

    def __call__(self, action: str, **given: Any) -> Json:
        self.view = self.sdk.call(action, tab=self.name, **given)
        return self.view

    def send(self, message: str | Json, **given: Any) -> "Tab":
        self("send", message=message, **given)
        return self

    @property
    def text(self) -> str:
        return "".join(part["text"] for part in self.view["messages"][-1]["parts"] if part["type"] == "text")

    @property
    def tools(self) -> list[Json]:
        return [part for part in self.view["messages"][-1]["parts"] if part["type"] == "dynamic-tool"]

    @property
    def stored(self) -> list[Json]:
        messages: list[Json] = httpx2.get(f"{self.url}/{self.id}").json()
        return messages

    def is_ready(self) -> None:
        """The chat is at rest without an error, and a reload shows the same."""
        assert (self.view["status"], self.view["error"]) == ("ready", None)
        assert [plain(message) for message in self.view["messages"]] == [plain(message) for message in self.stored]


@pytest.fixture
def tab(sdk: Node, server: str) -> Tab:
    return Tab(sdk, server)


@pytest.mark.parametrize(
    ("text", "tool", "answer"),
    [
        ("weather", "get_weather", "It is sunny."),
        ("table", "make_table", "A table keeps its columns"),
        ("file", "write_report", "The bytes are stored once"),
        ("delegate", "researcher", "The researcher says:"),
        ("plan", "plan_tasks", "the list is done"),
        ("hello", None, "hello"),
    ],
)
def test_an_answer_is_streamed_and_a_reload_shows_the_same(
    sdk: Node, server: str, text: str, tool: str | None, answer: str
) -> None:
    tab = Tab(sdk, server, "demo").send(text)
    tab.is_ready()
    assert answer in tab.text
    assert [part["toolName"] for part in tab.tools][:1] == ([tool] if tool else [])
    assert tab.view["finished"][-1]["finishReason"] == "stop"


def test_results_are_tables_and_files_that_can_be_fetched(sdk: Node, server: str) -> None:
    tab = Tab(sdk, server, "demo").send("table")
    assert (tab.tools[0]["output"]["kind"], len(tab.tools[0]["output"]["rows"])) == ("table", 5)
    parts = tab.send("file").view["messages"][-1]["parts"]
    (url,) = [part["url"] for part in parts if part["type"] == "file"]
    assert httpx2.get(url).text.startswith("# Report")
    (about,) = [part["data"] for part in parts if part["type"] == "data-document"]
    assert about["url"] == url and about["name"]


def test_a_question_is_a_tool_call_that_the_client_answers(sdk: Node, server: str) -> None:
    tab = Tab(sdk, server, "demo").send("ask")
    (asked,) = tab.tools
    assert (asked["toolName"], asked["state"]) == ("ask_user", "input-available")
    assert asked["input"]["options"] == ["red", "green", "blue"]
    assert tab.view["finished"][-1]["finishReason"] == "tool-calls"
    tab("answer", output={"tool": "ask_user", "toolCallId": asked["toolCallId"], "output": "blue"})
    tab.is_ready()
    assert tab.text.endswith("You answered: blue") and len(tab.view["messages"]) == 2


def test_a_message_is_the_answer_to_an_open_question(tab: Tab) -> None:
    tab.send("clerk, ask").send("Ulm")
    assert (tab.view["status"], tab.view["error"]) == ("ready", None)
    assert [message["role"] for message in tab.view["messages"]] == ["user", "assistant"] * 2
    assert tab.text == "The clerk said: They want Ulm."
    (_, stored) = tab.stored
    assert stored["id"] == tab.view["messages"][1]["id"]
    assert [part["output"] for part in stored["parts"] if part.get("toolName") == "ask_user"] == ["Ulm"]


def test_after_an_answer_by_message_the_next_question_is_one_of_the_new_message(tab: Tab) -> None:
    asked = tab.send("twice").send("Ulm").tools[-1]
    assert asked["input"]["question"] == "And then?"
    tab("answer", output={"tool": "ask_user", "toolCallId": asked["toolCallId"], "output": "home"})
    assert (tab.view["status"], tab.view["error"]) == ("ready", None)
    assert [message["role"] for message in tab.view["messages"]] == ["user", "assistant"] * 2
    assert tab.text == "You said: home"


def test_two_questions_are_answered_together(tab: Tab) -> None:
    for part, said in zip(tab.send("both").tools, ("red", "Ulm"), strict=True):
        tab("answer", output={"tool": "ask_user", "toolCallId": part["toolCallId"], "output": said})
    tab.is_ready()
    assert [part["output"] for part in tab.tools] == ["red", "Ulm"]
    assert tab.text == "You said: Ulm"


def test_an_answer_that_does_not_fit_is_an_error_and_the_question_stays_open(sdk: Node, server: str) -> None:
    tab = Tab(sdk, server, "demo").send("ask")
    id_ = tab.tools[0]["toolCallId"]
    tab("answer", output={"tool": "ask_user", "toolCallId": id_, "output": "mauve"})
    assert (tab.view["status"], tab.view["error"]) == ("error", "choose one of: red, green, blue")
    tab("answer", output={"tool": "ask_user", "toolCallId": id_, "output": "red"})
    tab.is_ready()


def test_a_question_of_a_sub_agent_has_a_part_of_its_own(tab: Tab) -> None:
    asked = tab.send("clerk, ask").tools[-1]
    assert (asked["toolName"], asked["input"]["question"]) == ("ask_user", "Which town?")
    tab("answer", output={"tool": "ask_user", "toolCallId": asked["toolCallId"], "output": "Ulm"})
    tab.is_ready()
    assert tab.text == "The clerk said: They want Ulm."


@pytest.mark.parametrize("text", ["pay", "clerk, write"])
@pytest.mark.parametrize("approved", [True, False])
def test_an_approval_is_given_or_refused(tab: Tab, text: str, approved: bool) -> None:
    asked = tab.send(text).tools[-1]
    assert (asked["toolName"], asked["state"]) == ("write_report", "approval-requested")
    tab("approve", response={"id": asked["approval"]["id"], "approved": approved, "reason": "why not"})
    tab.is_ready()
    last = next(part for part in tab.tools if part["toolName"] == "write_report")
    assert last["state"] == ("output-available" if approved else "output-denied")


def test_an_approval_with_other_arguments(tab: Tab) -> None:
    asked = tab.send("pay").tools[-1]
    id_ = asked["approval"]["id"]
    edit = {"type": "edit", "edited_action": {"name": "write_report", "args": {"title": "Bill", "text": "seven"}}}
    options = {"body": {"decisions": {id_: edit}}}
    tab("approve", response={"id": id_, "approved": True, "options": options})
    tab.is_ready()
    assert tab.tools[-1]["input"]["text"] == "seven" and tab.tools[-1]["state"] == "output-available"


def test_a_failed_run_is_an_error_and_the_chat_goes_on(tab: Tab) -> None:
    tab.send("fail")
    assert tab.view["status"] == "error" and "the script says so" in tab.view["error"]
    assert tab.text == "Half an ans"
    assert tab.stored[-1]["metadata"]["status"] == "failed"
    assert tab.send("again").text == "You said: again"


def test_regenerating_replaces_the_answer(tab: Tab) -> None:
    first = tab.send("hello").view["messages"][-1]["id"]
    tab("regenerate")
    tab.is_ready()
    assert len(tab.view["messages"]) == 2 and tab.view["messages"][-1]["id"] != first


def test_an_earlier_answer_is_made_once_more_and_later_rounds_go(tab: Tab) -> None:
    first = tab.send("one").view["messages"][-1]["id"]
    tab.send("two")
    tab("regenerate", messageId=first)
    tab.is_ready()
    assert len(tab.view["messages"]) == 2 and tab.text == "You said: one"


@pytest.mark.parametrize("way", ["send", "rewrite"])
def test_a_message_is_changed_twice_and_later_rounds_go(tab: Tab, way: str) -> None:
    asked = tab.send("one").view["messages"][0]["id"]
    tab.send("two")
    for text in ("three", "one", "three"):
        if way == "send":
            tab.send({"text": text, "messageId": asked})
        else:
            tab("rewrite", messageId=asked, text=text)
        assert (tab.view["status"], tab.view["error"]) == ("ready", None)
        assert tab.text == f"You said: {text}"
        assert [message["parts"][-1]["text"] for message in tab.stored if message["role"] == "user"] == [text]
    assert tab.send("four").text == "You said: four"
    tab("regenerate")
    assert (tab.text, len(tab.stored)) == ("You said: four", 4)
    again = Tab(tab.sdk, tab.server, chat=tab.id)
    for text in ("five", "six"):
        again.send({"text": text, "messageId": again.view["messages"][0]["id"]})
        assert (again.text, len(again.stored)) == (f"You said: {text}", 2)
    again("regenerate")
    assert (again.view["error"], again.text, len(again.stored)) == (None, "You said: six", 2)


def test_a_chat_that_nothing_was_sent_to_has_nothing_to_resume(tab: Tab) -> None:
    assert tab("resume")["status"] == "ready"
    assert tab.view["messages"] == []


def test_a_second_tab_and_a_reload_in_mid_run_show_all_of_it_live(sdk: Node, server: str) -> None:
    first = Tab(sdk, server)
    sending = sdk.start("send", tab=first.name, message="wait")
    sending.until("text")
    second = Tab(sdk, server, chat=first.id)
    assert [message["role"] for message in second.view["messages"]] == ["user", "assistant"]
    resuming = sdk.start("resume", tab=second.name)
    resuming.until("text")
    stopped = httpx2.post(f"{first.url}/{first.id}/stop")
    assert stopped.json() == {"status": "stopped"}
    first.view, second.view = sending.done(), resuming.done()
    for tab in (first, second):
        tab.is_ready()
        assert tab.view["messages"][-1]["metadata"]["status"] == "stopped"


def test_a_stop_of_the_client_ends_its_request_and_the_run_goes_on(sdk: Node, server: str) -> None:
    tab = Tab(sdk, server)
    sending = sdk.start("send", tab=tab.name, message="pause")
    sending.until("text")
    tab("stop")
    sending.done()
    assert tab("view")["status"] == "ready" and tab.text == "Now I pause. "
    tab("resume")
    tab.is_ready()
    assert tab.text == "Now I pause. That was it."


def test_a_message_that_comes_while_the_agent_works_waits_for_its_turn(sdk: Node, server: str) -> None:
    first = Tab(sdk, server)
    sending = sdk.start("send", tab=first.name, message="pause")
    sending.until("text")
    second = Tab(sdk, server, chat=first.id).send("next")
    first.view = sending.done()
    assert (first.text, second.text) == ("Now I pause. That was it.", "You said: next")
    assert [message["role"] for message in second.view["messages"]] == ["user", "assistant"] * 2
