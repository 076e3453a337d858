"""Hooks of React, as pages use them: `useChat` with `resume`, and assistant-ui's runtime for the AI SDK."""

from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests import keyed
from tests.crash.process import ServerProcess, start
from tests.protocols.ai_sdk.test_restarts import ANSWER, SLOW
from tests.protocols.node import CLIENTS, Call, Node, running

EDIT = {"type": "edit", "edited_action": {"name": "write_report", "args": {"title": "Bill", "text": "seven"}}}
_numbers = count(1)


class Page:
    """A page that shows a chat."""

    def __init__(self, node: Node, server: str, kind: str, *, system: str = "chats", again: str = "") -> None:
        self.node, self.server, self.kind, self.system = node, server, kind, system
        self.tab, self.id = f"tab {next(_numbers)}", again or f"page-{next(_numbers)}"
        self.url = f"{server}/ai-sdk/{system}/chat"
        shown = {"headers": keyed.headers(server), "load": bool(again)}
        node.call("open", tab=self.tab, kind=kind, url=self.url, id=self.id, **shown)

    def start(self, call: str, **given: Any) -> Call:
        return self.node.start(call, tab=self.tab, **given)

    def __call__(self, call: str, **given: Any) -> Any:
        return self.start(call, **given).done()

    def send(self, text: str) -> Any:
        return self("send", text=text)

    def reloaded(self) -> "Page":
        self("close")
        return Page(self.node, self.server, self.kind, system=self.system, again=self.id)


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    with running(CLIENTS / "ai_sdk_hooks.mjs") as started:
        yield started
        assert started.unhandled == []


@pytest.fixture(params=["useChat", "assistant-ui"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def page(node: Node, server: str, kind: str) -> Page:
    return Page(node, server, kind)


def test_a_page_shows_answers_with_tables_files_and_sub_agents(node: Node, server: str, kind: str) -> None:
    page = Page(node, server, kind, system="demo")
    table = page.send("table")
    assert "all the way to your page" in table["text"]
    assert [(tool["name"], tool["result"]["kind"]) for tool in table["tools"]] == [("make_table", "table")]
    file = page.send("file")
    assert "file" in file["types"]
    assert httpx2.get(file["tools"][0]["result"]["url"]).text.startswith("# Report")
    delegated = page.send("delegate")
    assert (delegated["tools"][0]["name"], delegated["error"]) == ("researcher", None)
    again = page.reloaded()("shows")
    assert (again["text"], again["tools"], again["roles"]) == (
        delegated["text"],
        delegated["tools"],
        ["user", "assistant"] * 3,
    )


def test_a_question_is_answered_with_a_click_or_in_words(node: Node, server: str, kind: str) -> None:
    page = Page(node, server, kind, system="demo")
    (asked,) = page.send("ask")["tools"]
    assert (asked["name"], asked["args"]["options"], asked["result"]) == ("ask_user", ["red", "green", "blue"], None)
    answered = page("answer", id=asked["id"], name="ask_user", output="blue")
    assert answered["text"].endswith("You answered: blue")
    page.send("ask")
    assert page.send("red")["text"].endswith("You answered: red")
    page.send("ask")
    page = page.reloaded()
    (again,) = page("shows")["tools"]
    assert page("answer", id=again["id"], name="ask_user", output="green")["text"].endswith("You answered: green")


@pytest.mark.parametrize(
    ("approved", "edited", "result"), [(True, False, "five"), (True, True, "seven"), (False, False, None)]
)
def test_a_call_is_approved_changed_or_refused(page: Page, approved: bool, edited: bool, result: str | None) -> None:
    (asked,) = page.send("pay")["tools"]
    id_ = asked["approval"]["id"]
    decisions = {"decisions": {id_: EDIT}} if edited else {}
    shown = page("approve", id=asked["id"], approval=id_, approved=approved, **decisions)
    assert shown["error"] is None
    (tool,) = shown["tools"]
    if result is None:
        assert tool["approval"]["approved"] is False
    else:
        assert tool["args"]["text"] == result
        assert tool["result"]["kind"] == "file_ref"


def test_a_failed_run_shows_its_error_and_the_chat_goes_on(page: Page) -> None:
    assert "the script says so" in page.send("fail")["error"]
    assert page.send("again")["text"] == "You said: again"


def test_a_reload_and_a_second_tab_in_mid_run_go_on_by_themselves_until_a_stop(page: Page) -> None:
    page.start("send", text="wait").until("text")
    page = page.reloaded()
    first = page.start("shows")
    first.until("text")
    second = Page(page.node, page.server, page.kind, again=page.id)
    following = second.start("shows")
    following.until("text")
    page("stop")
    for shown in (first.done(), following.done()):
        assert (shown["running"], shown["roles"], shown["error"]) == (False, ["user", "assistant"], None)
        assert shown["text"] == "Now I wait. "
    stored = httpx2.get(f"{page.url}/{page.id}").json()
    assert stored[-1]["metadata"]["status"] == "stopped"


def test_a_message_from_another_tab_waits_for_its_turn(page: Page) -> None:
    sending = page.start("send", text="pause")
    sending.until("text")
    second = Page(page.node, page.server, page.kind, again=page.id)
    second.send("next")  # the answer under way is followed beside it, and the page may be at rest between the two
    assert sending.done()["text"] == "Now I pause. That was it."
    assert second("says", text="You said: next")["error"] is None


@pytest.fixture
def falling(tmp_path: Path) -> Iterator[ServerProcess]:
    server = start(tmp_path / "data", errors=tmp_path / "errors", serves=[str(SLOW)])
    yield server
    server.kill()


@pytest.mark.parametrize("how", ["kill", "stop"])
def test_a_cut_answer_is_an_error_and_a_reload_after_the_restart_shows_all_of_it(
    node: Node, falling: ServerProcess, kind: str, how: str, tmp_path: Path
) -> None:
    page = Page(node, falling.address, kind, system="slow")
    sending = page.start("send", text="count")
    sending.until("text")
    getattr(falling, how)()
    cut = sending.done()
    assert cut["error"] and len(cut["text"]) < len(ANSWER)
    port = int(falling.address.rpartition(":")[2])
    later = start(tmp_path / "data", errors=tmp_path / "errors", serves=[str(SLOW)], port=port)
    try:
        shown = page.reloaded()("shows")
    finally:
        later.kill()
    assert (shown["text"], shown["roles"], shown["error"]) == (ANSWER, ["user", "assistant"], None)
