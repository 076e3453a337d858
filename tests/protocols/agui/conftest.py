"""One server and one Node process for all tests of AG-UI's clients."""

import json
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from stellwerk.app import Parts
from stellwerk.settings import Settings
from tests import keyed
from tests.conftest import server_beside, without_pauses
from tests.protocols.node import CLIENTS, Call, Node, running

Json = dict[str, Any]
CHATS = Path(__file__).with_name("chats.yaml")
_numbers = count(1)


@pytest.fixture(scope="session")
def node() -> Iterator[Node]:
    with running(CLIENTS / "agui.mjs") as node:
        yield node
        # The client reports a broken connection, and leaves a rejected promise of it behind as well.
        assert [error for error in node.unhandled if "TypeError: terminated" not in error] == []


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    settings = Settings(data=tmp_path_factory.mktemp("agui") / "data")
    with server_beside(settings, own={"chats": str(CHATS)}, parts=Parts(demo_systems=without_pauses)) as found:
        yield found


class Tab:
    """An AG-UI agent in a page of its own, on a thread."""

    def __init__(self, node: Node, client: str, server: str, *, system: str = "chats", thread: str = "") -> None:
        number = next(_numbers)
        self.node, self.client, self.server = node, client, server
        self.thread, self.name = thread or f"thread-{number}", f"tab-{number}"
        self.url = f"{server}/ag-ui/{system}"
        self.view: Json = {}

    @property
    def place(self) -> Json:
        headers = keyed.shown_to(self.server)
        return {"client": self.client, "url": self.url, "threadId": self.thread, "headers": headers}

    def start(self, say: str | None = None, **given: Any) -> Call:
        if say is not None:
            given = {"say": say, "id": f"{self.name}-{next(_numbers)}", **given}
        return self.node.start("run", name=self.name, **self.place, **given)

    def run(self, say: str | None = None, **given: Any) -> "Tab":
        self.view = self.start(say, **given).done()
        return self

    def answer(self, *payloads: Any, **given: Any) -> "Tab":
        asked = self.view["interrupts"]
        resume = [
            {"interruptId": each["id"], "status": "resolved", "payload": payload}
            for each, payload in zip(asked, payloads, strict=True)
        ]
        return self.run(resume=resume, **given)

    def other(self) -> "Tab":
        """A second tab on the same thread, that shows nothing yet."""
        return Tab(self.node, self.client, self.server, system=self.url.rpartition("/")[2], thread=self.thread)

    def connect(self) -> "Tab":
        self.view = self.node.call("connect", name=self.name, **self.place)
        return self

    @property
    def messages(self) -> list[Json]:
        """Without activities and reasoning, which a client keeps for itself."""
        found = [each for each in self.view["messages"] if each["role"] in ("user", "assistant", "tool")]
        for call in (call for each in found for call in each.get("toolCalls", ())):
            call["function"]["arguments"] = json.dumps(json.loads(call["function"]["arguments"]))
        return found

    @property
    def text(self) -> str:
        """What the agent said last."""
        return next(str(each.get("content", "")) for each in reversed(self.messages) if each["role"] == "assistant")

    @property
    def results(self) -> list[Any]:
        return [each["content"] for each in self.messages if each["role"] == "tool"]

    def is_well(self) -> None:
        """Nothing failed, and a page that is opened now shows the same."""
        assert (self.view["failure"], self.view.get("error")) == (None, None)
        opened = self.other().connect()
        assert opened.view["failure"] is None
        assert opened.messages == self.messages


@pytest.fixture(params=["1", "0"], ids=["client 1.0", "client 0.0.59"])
def tab(request: pytest.FixtureRequest, node: Node, server: str) -> Tab:
    return Tab(node, request.param, server)


@pytest.fixture
def demo(tab: Tab) -> Tab:
    """The same, with the agents of the demo."""
    return Tab(tab.node, tab.client, tab.server, system="demo")
