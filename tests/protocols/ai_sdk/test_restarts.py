"""The server goes down in the middle of an answer, with a client of the AI SDK attached."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.crash.process import ServerProcess, start
from tests.protocols.ai_sdk.test_chats import Tab
from tests.protocols.node import Node

SLOW = Path(__file__).with_name("slow.yaml")
ANSWER = " ".join(SLOW.read_text("utf-8").partition("say: >-")[2].split())


class Restarted:
    """A server that is started again on its port and its data."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.process = self._start(0)

    def _start(self, port: int) -> ServerProcess:
        errors = self._folder / "errors"
        return start(self._folder / "data", errors=errors, serves=[str(SLOW)], port=port)

    def up(self) -> None:
        self.process = self._start(int(self.process.address.rpartition(":")[2].strip("/")))


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Restarted]:
    made = Restarted(tmp_path)
    yield made
    made.process.kill()


@pytest.mark.parametrize("how", ["kill", "stop"])
def test_a_cut_answer_is_an_error_and_after_the_restart_it_is_whole_and_there_once(
    sdk: Node, server: Restarted, how: str
) -> None:
    tab = Tab(sdk, server.process.address.rstrip("/"), "slow")
    sending = sdk.start("send", tab=tab.name, message="count")
    sending.until("text")
    getattr(server.process, how)()
    tab.view = sending.done()
    assert tab.view["status"] == "error", "what is cut off is not taken for complete"
    assert len(tab.text) < len(ANSWER)
    server.up()
    tab("resume")
    tab.is_ready()
    assert tab.text == ANSWER
    assert len(tab.view["messages"]) == 2
