"""OpenAI's clients for JavaScript and Python, also one major version before: what a program sees."""

import sys
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import httpx2
import pytest

from stellwerk.app import Parts
from stellwerk.settings import Settings
from tests import keyed
from tests.conftest import server_beside, without_pauses
from tests.crash.process import ServerProcess, start
from tests.protocols.ai_sdk.conftest import CHATS
from tests.protocols.ai_sdk.test_restarts import ANSWER, SLOW
from tests.protocols.node import BEFORE, CLIENTS, Call, Node, running

SCRIPTS = {
    "javascript": ("openai.mjs", BEFORE),
    "python": ("openai_python.py", Path(sys.executable)),
    "python before": ("openai_python.py", BEFORE),
}
EDIT = 'edit {"title": "Bill", "text": "seven"}'
_numbers = count(1)


class Program:
    """A program that uses the client against one server."""

    def __init__(self, node: Node, url: str) -> None:
        key = keyed.headers(url).get("Authorization", "none").removeprefix("Bearer ")
        self.node, self.url, self.where = node, url, {"url": url, "key": key}

    def start(self, call: str, **given: Any) -> Call:
        return self.node.start(call, **self.where, **given)

    def __call__(self, call: str, **given: Any) -> Any:
        return self.start(call, **given).done()

    def texts(self, session_id: str) -> list[str]:
        """What the user said in a session."""
        messages = httpx2.get(f"{self.url}/sessions/{session_id}/messages").json()["messages"]
        return [each["text"] for each in messages if each["role"] == "user"]


@pytest.fixture(scope="module", params=SCRIPTS)
def node(request: pytest.FixtureRequest) -> Iterator[Node]:
    script, python = SCRIPTS[request.param]
    with running(CLIENTS / script, python=python) as started:
        yield started
        assert started.unhandled == []


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    settings = Settings(data=tmp_path_factory.mktemp("openai") / "data")
    with server_beside(settings, own={"chats": str(CHATS)}, parts=Parts(demo_systems=without_pauses)) as found:
        yield found


@pytest.fixture
def program(node: Node, server: str) -> Program:
    return Program(node, server)


@pytest.fixture
def chat() -> str:
    return f"chat {next(_numbers)}"


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("weather", "It is sunny."),
        ("table", "A table keeps its columns"),
        ("file", "The bytes are stored once"),
        ("delegate", "The researcher says:"),
        ("plan", "the list is done"),
    ],
)
def test_a_completion_has_the_answer(program: Program, text: str, answer: str, stream: bool) -> None:
    said = program("complete", text=text, stream=stream, more={"stream_options": {"include_usage": True}})
    assert (said["error"], said["finish"]) == (None, "stop")
    assert answer in said["text"]
    assert said["usage"]["completion_tokens"] > 0
    assert program.texts(said["session"]) == [text]
    assert {"demo", "chats"} <= set(program("models"))


def test_a_question_is_answered_by_the_next_message_of_its_session(program: Program, chat: str) -> None:
    asked = program("complete", text="ask", session=chat)
    assert asked["text"].endswith("Which colour do you like?")
    wrong = program("complete", text="mauve", session=chat)
    assert (wrong["error"]["status"], "choose one of: red, green, blue" in wrong["error"]["message"]) == (422, True)
    assert program("complete", text="blue", session=chat)["text"] == "You answered: blue"


def test_a_question_is_answered_by_the_response_that_follows_it(program: Program) -> None:
    asked = program("respond", input="ask")
    answered = program("respond", input="green", previous=asked["id"])
    assert (answered["last"], answered["output"]) == ("response.completed", "You answered: green")
    assert answered["conversation"] == asked["conversation"]
    assert answered["numbers"] == list(range(len(answered["numbers"])))


@pytest.mark.parametrize(("said", "written"), [("approve", "five"), (EDIT, "seven"), ("reject", None)])
def test_a_call_is_approved_changed_or_refused_in_words(
    program: Program, chat: str, said: str, written: str | None
) -> None:
    asked = program("complete", text="pay", session=chat, model="chats")
    assert "write_report" in asked["text"]
    answered = program("complete", text=said, session=chat, model="chats")
    assert (answered["error"], answered["finish"]) == (None, "stop")
    session = asked["session"]
    log = httpx2.get(f"{program.url}/sessions/{session}/events", params={"profile": "debug", "limit": 500}).json()
    args = {each["call_id"]: each["payload"]["args"] for each in log["events"] if each["type"] == "tool_start"}
    ended = [each for each in log["events"] if each["type"] == "tool_end" and each["payload"]["status"] == "ok"]
    ran = [args[each["call_id"]]["text"] for each in ended]
    assert ran == ([] if written is None else [written])


def test_a_run_that_fails_is_an_error_and_the_session_goes_on(program: Program, chat: str) -> None:
    for stream in (True, False):
        failed = program("complete", text="fail", session=chat, stream=stream)
        assert "the script of the demo says" in failed["error"]["message"]
        assert failed["finish"] is None
    assert program("complete", text="weather", session=chat)["finish"] == "stop"


def test_unknown_models_and_tools_are_refused_and_a_busy_session_says_so(program: Program, chat: str) -> None:
    unknown = program("complete", text="hi", model="nowhere")["error"]
    assert (unknown["status"], unknown["code"]) == (404, "model_not_found")
    tool = {"type": "function", "function": {"name": "f", "parameters": {}}}
    assert program("complete", text="hi", more={"tools": [tool]})["error"]["status"] == 422
    first = program.start("complete", text="slow", session=chat)
    first.until("text")
    busy = program("complete", text="weather", session=chat)["error"]
    assert (busy["status"], busy["code"]) == (409, "session_busy")
    named = httpx2.get(f"{program.url}/sessions").json()["sessions"]
    (running_one,) = [each["id"] for each in named if each["status"] == "running"]
    httpx2.post(f"{program.url}/sessions/{running_one}/stop")
    stopped = first.done()
    assert (stopped["error"], stopped["finish"]) == (None, "stop")


def test_a_second_program_follows_a_response_from_its_first_event_until_it_is_stopped(program: Program) -> None:
    first = program.start("respond", input="slow")
    response = first.until("id")
    second = program.start("respond", response=response, after=-1)
    second.until("text")
    program("cancel", response=response)
    one, two = first.done(), second.done()
    assert one["last"] == two["last"] == "response.incomplete"
    assert (one["numbers"], one["text"]) == (two["numbers"], two["text"])


@pytest.fixture
def falling(tmp_path: Path) -> Iterator[ServerProcess]:
    server = start(tmp_path / "data", errors=tmp_path / "errors", serves=[str(SLOW)])
    yield server
    server.kill()


@pytest.mark.parametrize("how", ["kill", "stop"])
def test_a_response_and_a_completion_that_are_cut_off_are_errors_and_the_rest_comes_after_the_restart(
    node: Node, falling: ServerProcess, how: str, tmp_path: Path
) -> None:
    program = Program(node, falling.address)
    calls = (
        program.start("respond", model="slow", input="count"),
        program.start("complete", model="slow", text="count"),
    )
    for call in calls:
        while len(call.until("text")) < 20:
            pass
    getattr(falling, how)()
    response, completion = (call.done() for call in calls)
    assert response["error"] and completion["error"]
    assert (response["last"] == "response.completed", completion["finish"]) == (False, None)
    later = start(tmp_path / "data", errors=tmp_path / "errors", serves=[str(SLOW)])
    try:
        rest = Program(node, later.address)("respond", response=response["id"], after=response["numbers"][-1])
    finally:
        later.kill()
    numbers = response["numbers"] + rest["numbers"]
    assert (rest["last"], numbers) == ("response.completed", list(range(len(numbers))))
    assert rest["output"] == ANSWER
