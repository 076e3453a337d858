"""The server goes down in the middle of an answer, with a client of AG-UI or CopilotKit attached."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.protocols.agui.conftest import Tab
from tests.protocols.agui.test_copilotkit import Page
from tests.protocols.ai_sdk.test_restarts import ANSWER, Restarted
from tests.protocols.node import CLIENTS, Node, running


@pytest.fixture
def restarted(tmp_path: Path) -> Iterator[Restarted]:
    made = Restarted(tmp_path)
    yield made
    made.process.kill()


@pytest.mark.parametrize(("how", "client"), [("kill", "1"), ("stop", "0")])
def test_a_cut_answer_is_an_error_and_the_whole_is_there_once_after_the_restart(
    node: Node, restarted: Restarted, how: str, client: str
) -> None:
    tab = Tab(node, client, restarted.process.address.rstrip("/"), system="slow")
    running_one = tab.start("count", runId="r1")
    running_one.until("TEXT_MESSAGE_CONTENT")
    getattr(restarted.process, how)()
    tab.view = running_one.done()
    assert tab.view["failure"] is not None, "what is cut off is not taken for complete"
    assert len(tab.text) < len(ANSWER)
    restarted.up()
    assert [each["content"] for each in tab.other().connect().messages] == ["count", ANSWER]
    again = tab.other().run(messages=tab.messages[:1], runId="r1")
    assert [each["content"] for each in again.messages] == ["count", ANSWER]


@pytest.mark.parametrize(("how", "version"), [("kill", "newest"), ("stop", "before")])
def test_a_page_of_copilotkit_reports_the_cut_and_shows_the_whole_when_it_is_opened_again(
    restarted: Restarted, how: str, version: str
) -> None:
    with running(CLIENTS / "copilotkit.mjs") as node:
        page = Page(node, restarted.process.address.rstrip("/"), version=version, transport="rest")
        page.open("slow")
        running_one = page.node.start("run", name=page.name, say="count", id="m1")
        running_one.until("TEXT_MESSAGE_CONTENT")
        getattr(restarted.process, how)()
        page.view = running_one.done()
        assert page.view["errors"]
        restarted.up()
        assert page.other().open("slow").said == [("user", "count"), ("assistant", ANSWER)]
