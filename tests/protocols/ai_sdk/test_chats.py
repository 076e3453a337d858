"""Chats of the AI SDK, unchanged and of both versions, against a running server: what a user of a front end sees."""

from itertools import count
from typing import Any

import httpx2
import pytest

from stellwerk.app import Parts
from tests.conftest import without_pauses
from tests.protocols.ai_sdk.test_every_log import plain
from tests.protocols.node import Node

Json = dict[str, Any]
_numbers = count()


@pytest.fixture(scope="module")
def parts() -> Parts:
    return Parts(demo_systems=without_pauses)


@pytest.fixture
def url(shared_address: str) -> str:
    return f"{shared_address}/ai-sdk/demo/chat"


@pytest.fixture
def chat(sdk: Node, url: str) -> str:
    """A tab with a new chat; its name is also the id of the chat."""
    id_ = f"chat-{next(_numbers)}"
    sdk.call("open", tab=id_, url=url, id=id_)
    return id_


def said(view: Json) -> str:
    return "".join(part["text"] for part in view["messages"][-1]["parts"] if part["type"] == "text")


def tools(view: Json) -> list[Json]:
    return [part for part in view["messages"][-1]["parts"] if part["type"] == "dynamic-tool"]


def history(url: str, chat: str) -> list[Json]:
    messages: list[Json] = httpx2.get(f"{url}/{chat}").json()
    return messages


def same(sent: list[Json], stored: list[Json]) -> None:
    """What the client shows is what a reload shows."""
    assert [plain(message) for message in sent] == [plain(message) for message in stored]


@pytest.mark.parametrize(
    ("text", "tool", "answer"),
    [
        ("weather", "get_weather", "It is sunny."),
        ("table", "make_table", "A table keeps its columns"),
        ("file", "write_report", "The bytes are stored once"),
        ("delegate", "researcher", "The researcher says:"),
        ("plan", "plan_tasks", "the list is done"),
        ("hello", None, ""),
    ],
)
def test_an_answer_is_streamed_and_the_history_has_the_same(
    sdk: Node, url: str, chat: str, text: str, tool: str | None, answer: str
) -> None:
    view = sdk.call("send", tab=chat, message=text)
    assert (view["status"], view["error"]) == ("ready", None)
    assert answer in said(view)
    assert [part["toolName"] for part in tools(view)][:1] == ([tool] if tool else [])
    same(view["messages"], history(url, chat))
    assert view["finished"][-1]["finishReason"] == "stop"
