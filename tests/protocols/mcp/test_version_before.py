"""MCP's Python client one major version before, unchanged: what a host that was never upgraded sees."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from stellwerk.app import Parts
from stellwerk.settings import Settings
from tests import keyed
from tests.conftest import server_beside, without_pauses
from tests.crash.process import start
from tests.protocols.ai_sdk.conftest import CHATS
from tests.protocols.ai_sdk.test_restarts import ANSWER, SLOW
from tests.protocols.node import CLIENTS, Call, Node, running


class Hosted:
    """A host that uses one server."""

    def __init__(self, node: Node, url: str) -> None:
        key = keyed.headers(url).get("Authorization", "").removeprefix("Bearer ")
        self.node, self.url, self.where = node, url, {"url": url, "key": key}

    def start(self, call: str, **given: Any) -> Call:
        return self.node.start(call, **self.where, **given)

    def say(self, message: str, **given: Any) -> Any:
        return self.start("call", message=message, **given).done()


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    with running(CLIENTS / "mcp_before.py") as started:
        yield started


@pytest.fixture(scope="module")
def host(node: Node, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosted]:
    settings = Settings(data=tmp_path_factory.mktemp("mcp") / "data")
    with server_beside(settings, own={"chats": str(CHATS)}, parts=Parts(demo_systems=without_pauses)) as url:
        yield Hosted(node, url)


def test_a_call_has_its_answer_its_progress_and_its_files(host: Hosted) -> None:
    assert {"demo", "chats"} <= set(host.start("tools").done())
    for message, answer in (
        ("weather", "It is sunny."),
        ("table", "keeps its columns"),
        ("delegate", "researcher says"),
    ):
        said = host.say(message, session="a chat")
        assert (said["is_error"], answer in said["text"]) == (False, True)
    call = host.start("call", message="file", session="a chat")
    assert call.until("progress").startswith("session ")
    assert call.until("progress") == "write_report"
    (link,) = call.done()["links"]
    assert "file" in httpx2.get(link).text


def test_a_question_is_a_form_or_a_text(host: Hosted) -> None:
    form = host.say("ask", answer={"answer": "blue"})
    assert "You answered: blue" in form["text"]
    assert "colour" in form["asked"][0]
    asked = host.say("ask")
    session = asked["structured"]["session_id"]
    assert asked["structured"]["questions"][0]["options"] == ["red", "green", "blue"]
    assert "You answered: red" in host.say("red", session=session)["text"]


@pytest.mark.parametrize(
    ("answer", "written"),
    [
        ({"decision": "approve"}, "five"),
        ({"decision": "edit", "detail": '{"title": "Bill", "text": "seven"}'}, "seven"),
        ({"decision": "reject", "detail": "too dear"}, None),
    ],
)
def test_a_call_of_a_tool_is_approved_changed_or_refused_in_a_form(
    host: Hosted, answer: dict[str, str], written: str | None
) -> None:
    said = host.say("pay", tool="chats", answer=answer)
    assert (said["is_error"], "write_report" in said["asked"][0]) == (False, True)
    session = said["structured"]["session_id"]
    log = httpx2.get(f"{host.url}/sessions/{session}/events", params={"profile": "debug", "limit": 500}).json()
    args = {each["call_id"]: each["payload"]["args"] for each in log["events"] if each["type"] == "tool_start"}
    ended = [each for each in log["events"] if each["type"] == "tool_end" and each["payload"]["status"] == "ok"]
    assert [args[each["call_id"]]["text"] for each in ended] == ([] if written is None else [written])


def test_failures_are_results_and_a_message_to_a_busy_session_waits_for_its_turn(host: Hosted) -> None:
    failed = host.say("fail")
    assert (failed["is_error"], "the script of the demo says" in failed["text"]) == (True, True)
    first = host.start("call", message="pause", tool="chats", session="busy")
    first.until("progress")
    second = host.say("next", tool="chats", session="busy")
    assert (first.done()["text"], second["text"]) == ("That was it.", "You said: next")


@pytest.mark.parametrize("how", ["kill", "stop"])
def test_a_call_that_is_cut_off_is_no_answer_and_is_repeated_after_the_restart(
    node: Node, how: str, tmp_path: Path
) -> None:
    data, errors = tmp_path / "data", tmp_path / "errors"
    server = start(data, errors=errors, serves=[str(SLOW)])
    try:
        call = Hosted(node, server.address).start("call", message="count", tool="slow", session="a chat")
        call.until("progress")
        getattr(server, how)()
    finally:
        server.kill()
    later = start(data, errors=errors, serves=[str(SLOW)])
    try:
        again = Hosted(node, later.address).say("count" if how == "kill" else "", tool="slow", session="a chat")
        session = again["structured"]["session_id"]
        found = httpx2.get(f"{later.address}/sessions/{session}/messages").json()["messages"]
    finally:
        later.kill()
    assert again["text"] == ANSWER
    assert [each["text"] for each in found if each["role"] == "user"] == ["count"]
    assert not call.result.done() or call.result.exception() or call.done()["is_error"]
