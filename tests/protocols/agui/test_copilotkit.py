"""CopilotKit's core, the newest and the one before, on the server itself: there is no runtime of CopilotKit between."""

from collections.abc import Iterator
from itertools import count
from typing import Any

import httpx2
import pytest

from tests import keyed
from tests.protocols.agui.conftest import Json
from tests.protocols.node import CLIENTS, Node, running

_numbers = count(1)


@pytest.fixture(scope="module")
def copilotkit() -> Iterator[Node]:
    with running(CLIENTS / "copilotkit.mjs") as node:
        yield node
        assert node.unhandled == []


class Page:
    def __init__(self, node: Node, server: str, *, version: str, transport: str, thread: str = "") -> None:
        self.node, self.server, self.version, self.transport = node, server, version, transport
        number = next(_numbers)
        self.name, self.thread = f"page-{number}", thread or f"copilot-{number}"
        self.view: Json = {}

    def place(self, agent: str) -> Json:
        place = {"runtimeUrl": f"{self.server}/copilotkit", "agent": agent, "threadId": self.thread}
        headers = keyed.shown_to(self.server)
        return {**place, "version": self.version, "transport": self.transport, "headers": headers}

    def begin(self, agent: str = "demo") -> Any:
        return self.node.start("open", name=self.name, **self.place(agent))

    def open(self, agent: str = "demo") -> "Page":
        self.view = self.begin(agent).done()
        return self

    def run(self, say: str | None = None, **given: Any) -> "Page":
        given = given if say is None else {"say": say, "id": f"{self.name}-{next(_numbers)}", **given}
        self.view = self.node.call("run", name=self.name, **given)
        return self

    def other(self) -> "Page":
        return Page(self.node, self.server, version=self.version, transport=self.transport, thread=self.thread)

    @property
    def said(self) -> list[tuple[str, str]]:
        return [(each["role"], str(each.get("content", ""))) for each in self.view["messages"] if "content" in each]


@pytest.fixture(params=[("newest", "rest"), ("newest", "single"), ("before", "rest")], ids="-".join)
def page(request: pytest.FixtureRequest, copilotkit: Node, server: str) -> Page:
    version, transport = request.param
    return Page(copilotkit, server, version=version, transport=transport)


def test_systems_are_agents_and_an_answer_is_there_after_a_reload(page: Page) -> None:
    page.open()
    assert {"demo", "chats"} <= set(page.view["agents"])
    page.run("weather")
    assert page.said[0] == ("user", "weather")
    assert page.said[-1][1].startswith("It is sunny.")
    assert page.view["errors"] == []
    assert page.other().open().said == page.said


def test_a_question_is_answered_also_after_a_reload(page: Page) -> None:
    page.open().run("ask")
    reloaded = page.other().open()
    (asked,) = reloaded.view["interrupts"]
    reloaded.run(resume=[{"interruptId": asked["id"], "status": "resolved", "payload": "red"}])
    assert reloaded.said[-1] == ("assistant", "You answered: red")
    assert reloaded.view["errors"] == []


@pytest.mark.parametrize(
    ("text", "tool", "answer"),
    [
        ("table", "make_table", "A table keeps its columns"),
        ("file", "write_report", "The bytes are stored once"),
        ("delegate", "researcher", "The researcher says:"),
    ],
)
def test_tables_files_and_sub_agents_are_shown_in_two_tabs(page: Page, text: str, tool: str, answer: str) -> None:
    page.open().run(text)
    called = [call["function"]["name"] for each in page.view["messages"] for call in each.get("toolCalls", ())]
    assert tool in called
    assert page.said[-1][1].startswith(answer)
    assert page.view["errors"] == []
    assert page.other().open().said == page.said


@pytest.mark.parametrize(
    ("payload", "written"), [({"approved": True, "editedArgs": {"title": "Other", "text": "six"}}, "other"), (None, "")]
)
def test_a_call_is_approved_or_edited_in_the_run_that_asked(page: Page, payload: Any, written: str) -> None:
    page.begin("chats").done()
    page.run("pay", runId=f"{page.name} pays")
    (asked,) = page.view["interrupts"]
    resume = [{"interruptId": asked["id"], "status": "resolved", "payload": payload}]
    for _ in range(2):  # useInterrupt resumes under the id of the run that asked; again it is only shown
        page.run(resume=resume, runId=f"{page.name} pays")
        assert page.said[-1][1].startswith("Written: ")
        assert written in page.said[-1][1]
    assert page.view["errors"] == []


def test_a_message_in_the_middle_of_a_run_waits_for_its_turn(page: Page) -> None:
    page.begin("chats").done()
    waiting = page.node.start("run", name=page.name, say="pause", id=f"{page.name}-pause")
    waiting.until("TOOL_CALL_END")
    second = page.other()
    following = second.begin("chats")
    following.until("TOOL_CALL_END")
    third = page.other()
    third.node.call("open", name=third.name, **page.place("chats"), connect=False)
    third.run("hello", forwardedProps={"ifBusy": "enqueue"})
    assert third.said[-1] == ("assistant", "You said: hello")
    following.done()
    page.view = waiting.done()
    assert page.said[-1] == ("assistant", "It is over.")


def test_a_run_is_stopped_by_its_page_and_not_by_the_loss_of_it(page: Page) -> None:
    page.begin("chats").done()
    running_one = page.node.start("run", name=page.name, say="wait", id=f"{page.name}-wait")
    running_one.until("TOOL_CALL_END")
    second = page.other()
    following = second.begin("chats")
    following.until("TOOL_CALL_END")
    page.node.call("stop", name=page.name)
    page.view = running_one.done()
    second.view = following.done()
    assert ("assistant", "Now I wait. ") in page.said
    assert ("assistant", "Now I wait. ") in second.said
    assert page.run("hello").said[-1] == ("assistant", "You said: hello")


def test_errors_are_reported(page: Page) -> None:
    page.open().run("fail")
    assert any("says that this run fails" in error for error in page.view["errors"])


def test_only_the_named_run_is_stopped(page: Page) -> None:
    page.open().run("hello")
    stop = f"{page.server}/copilotkit/agent/demo/stop/{page.thread}"
    headers = keyed.shown_to(page.server)
    assert httpx2.post(stop, json={"runId": "of another page"}, headers=headers).json() == {"stopped": False}
    assert httpx2.post(stop, headers=headers).json() == {"stopped": False}
    unknown = httpx2.post(f"{page.server}/copilotkit/agent/demo/stop/nowhere", headers=headers)
    assert (unknown.status_code, unknown.json()["error"]) == (404, "unknown_thread")
    wrong = httpx2.post(f"{page.server}/copilotkit", json={"method": "agent/dance"}, headers=headers)
    assert (wrong.status_code, wrong.json()["field"]) == (422, "method")
