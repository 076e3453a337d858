"""A2A's Python client of protocol 0.3, unchanged: what a peer that was never upgraded sees."""

from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from stellwerk.app import Parts
from tests import keyed
from tests.conftest import without_pauses
from tests.crash.process import start
from tests.protocols.ai_sdk.test_restarts import ANSWER, SLOW
from tests.protocols.node import CLIENTS, Call, Node, running

BINDINGS = pytest.mark.parametrize("binding", ["JSONRPC", "HTTP+JSON"])
_numbers = count(1)


@pytest.fixture(scope="module")
def parts() -> Parts:
    return Parts(demo_systems=without_pauses)


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    with running(CLIENTS / "a2a_before.py") as started:
        yield started


class Peer:
    def __init__(self, node: Node, url: str, binding: str) -> None:
        key = keyed.headers(url).get("Authorization", "").removeprefix("Bearer ")
        self.node, self.where = node, {"url": url, "key": key, "binding": binding}

    def start(self, call: str, **given: Any) -> Call:
        return self.node.start(call, **self.where, **given)

    def say(self, text: str, **given: Any) -> Any:
        return self.start("say", text=text, number=f"message {next(_numbers)}", **given).done()


@BINDINGS
def test_a_task_streams_its_answer(node: Node, shared_address: str, binding: str) -> None:
    peer = Peer(node, shared_address, binding)
    for text, answer in (("weather", "It is sunny."), ("file", "stored once"), ("delegate", "The researcher says:")):
        said = peer.say(text, context="a chat")
        assert (said["error"], said["state"]) == (None, "completed")
        assert answer in said["text"]
    failed = peer.say("fail")
    assert (failed["state"], "the script of the demo says" in failed["said"]) == ("failed", True)


@BINDINGS
def test_a_question_is_answered_in_its_task(node: Node, shared_address: str, binding: str) -> None:
    peer = Peer(node, shared_address, binding)
    asked = peer.say("ask")
    assert (asked["state"], asked["said"]) == ("input-required", "Which colour do you like?")
    answered = peer.say("blue", task=asked["task"], context=asked["context"])
    assert (answered["task"], answered["state"]) == (asked["task"], "completed")
    assert "You answered: blue" in answered["text"]


@BINDINGS
def test_a_task_is_followed_by_a_second_peer_and_cancelled(node: Node, shared_address: str, binding: str) -> None:
    peer = Peer(node, shared_address, binding)
    first = peer.start("say", text="slow", number=f"message {next(_numbers)}")
    task = first.until("task")
    second = peer.start("again", task=task)
    second.until("task")
    assert peer.start("cancel", task=task).done()["state"] == "canceled"
    assert [call.done()["state"] for call in (first, second)] == ["canceled", "canceled"]


@pytest.mark.parametrize("how", ["kill", "stop"])
def test_a_task_that_is_cut_off_is_an_error_and_whole_after_the_restart(node: Node, how: str, tmp_path: Path) -> None:
    data, errors = tmp_path / "data", tmp_path / "errors"
    server = start(data, errors=errors, serves=[str(SLOW)])
    try:
        call = Peer(node, server.address, "JSONRPC").start("say", system="slow", text="count", number="cut")
        while len(call.until("text")) < 20:
            pass
        getattr(server, how)()
        cut = call.done()
    finally:
        server.kill()
    assert (cut["state"], bool(cut["error"])) == ("working", True)
    later = start(data, errors=errors, serves=[str(SLOW)])
    try:
        whole = Peer(node, later.address, "JSONRPC").start("again", system="slow", task=cut["task"]).done()
    finally:
        later.kill()
    assert (whole["state"], whole["text"]) == ("completed", ANSWER)
