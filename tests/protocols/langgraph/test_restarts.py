"""The server goes down in the middle of an answer, with a client of LangGraph attached: it goes on by itself."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langgraph_sdk import get_client

from tests import keyed
from tests.protocols.ai_sdk.test_restarts import ANSWER, Restarted
from tests.protocols.node import CLIENTS, running

MODES: Any = ["values", "messages-tuple"]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Restarted]:
    made = Restarted(tmp_path)
    yield made
    made.process.kill()


def url_of(server: Restarted) -> str:
    return f"{server.process.address.rstrip('/')}/langgraph"


@pytest.mark.parametrize("how", ["kill", "stop"])
async def test_the_python_client_reads_on_after_the_restart_and_has_the_whole_answer_once(
    server: Restarted, how: str
) -> None:
    said: Any = {"messages": [{"type": "human", "content": "count"}]}
    async with get_client(url=url_of(server), headers=keyed.shown_to(url_of(server))) as sdk:
        thread: Any = await sdk.threads.create()
        last: Any = None
        went_down = False
        async for part in sdk.runs.stream(thread["thread_id"], "slow", input=said, stream_mode=MODES):
            last = part
            if part.event == "messages" and not went_down:
                went_down = True
                await asyncio.to_thread(getattr(server.process, how))
                await asyncio.to_thread(server.up)
        assert last.event == "values", "nothing but the end of the run ends the stream"
        assert [message["content"] for message in last.data["messages"]] == ["count", ANSWER]
        state: Any = await sdk.threads.get_state(thread["thread_id"])
        assert [message["content"] for message in state["values"]["messages"]] == ["count", ANSWER]


@pytest.mark.parametrize(
    ("how", "sdk"), [("kill", "@langchain/langgraph-sdk"), ("stop", "@langchain/langgraph-sdk-before")]
)
def test_a_page_goes_on_after_the_restart_and_shows_the_whole_answer_once(
    server: Restarted, how: str, sdk: str
) -> None:
    with running(CLIENTS / "langgraph.mjs", sdk) as node:
        where = {"url": url_of(server), "headers": keyed.shown_to(url_of(server))}
        node.call("open", tab="a", assistant="slow", reconnect=True, **where)
        cut = node.call("submit", tab="a", text="count", waits=False)
        assert cut["isLoading"]
        getattr(server.process, how)()
        server.up()
        whole = node.call("rest", tab="a")
        assert (whole["error"], whole["errors"]) == (None, [])
        assert [message["text"] for message in whole["messages"]] == ["count", ANSWER]
