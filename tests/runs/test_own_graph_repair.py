"""A run of an own graph that ends in the middle of a tool: the session takes the next message all the same."""

import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2
import pytest

from stellwerk.agents.graphs.serve_targets import systems_of
from stellwerk.settings import Settings
from stellwerk.testing.order import order_problems
from tests.api.reading import Event, whole_round
from tests.conftest import running_server
from tests.crash.process import server_process
from tests.crash.waiting import eventually
from tests.openai_server import OpenAiServer, Reply, openai_server
from tests.runs.talking import begin, events, log_of, rest_of_run, seen, send, stop

__all__ = ["openai_server"]
BOTH = Reply(calls=(("post", {"letter": "quick"}), ("post", {"letter": "slow"})))


@pytest.fixture
def folder(tmp_path: Path, openai_server: OpenAiServer) -> Path:
    """The folder of the graph."""
    folder = tmp_path / "graph"
    folder.mkdir()
    shutil.copy(Path(__file__).parent / "vendor_graph.py", folder)
    (folder / "address").write_text(f"{openai_server.address} {openai_server.key}")
    return folder


@asynccontextmanager
async def serving(folder: Path) -> AsyncIterator[httpx2.AsyncClient]:
    own = systems_of([f"{folder}/vendor_graph.py:graph"])
    async with running_server(Settings(data=folder / "data"), own=own) as address:
        async with httpx2.AsyncClient(base_url=address, timeout=60) as client:
            yield client


def results(server: OpenAiServer) -> dict[str, str]:
    """What the model was last told of its tool calls."""
    said = server.received[-1].body["messages"]
    return {message["tool_call_id"]: message["content"] for message in said if message["role"] == "tool"}


def answer(told: list[Event]) -> tuple[str, str | None]:
    return told[-1]["payload"]["status"], told[-1]["payload"].get("result")


async def test_after_a_stop_in_a_tool_the_next_message_and_a_new_answer_to_it_work(
    folder: Path, openai_server: OpenAiServer
) -> None:
    openai_server.replies = [BOTH, Reply(say="I am here."), Reply(say="Still here."), Reply(say="As ever.")]
    async with serving(folder) as client:
        sid = await begin(client, "vendor_graph")
        await send(client, sid, "post both")
        await seen(client, sid, "tool_start", count=2)
        await seen(client, sid, "tool_end")
        await stop(client, sid)
        told = await whole_round(client, sid, "hello?")
        assert answer(told) == ("completed", "I am here.")
        given = results(openai_server)
        assert given["call_served_0"] == "posted quick", "what was done is not said to be undone"
        assert given["call_served_1"].startswith("post has no result: the run ended before it")
        (warning,) = [event["payload"] for event in told if event["type"] == "warning"]
        assert (warning["code"], "post" in warning["message"]) == ("tool_calls_closed", True)
        again = (await client.post(f"/sessions/{sid}/regenerate")).json()
        assert answer(await rest_of_run(client, sid, again["after"])) == ("completed", "Still here.")
        last = await whole_round(client, sid, "and now?")
        assert answer(last) == ("completed", "As ever.")
        assert "warning" not in [event["type"] for event in last]
        assert order_problems(log_of(await events(client, sid))) == []


@pytest.mark.timeout(600)
async def test_after_a_crash_in_a_tool_the_next_message_works(folder: Path, openai_server: OpenAiServer) -> None:
    openai_server.replies = [BOTH, Reply(say="I am here.")]
    errors, serves = folder / "errors", [f"{folder}/vendor_graph.py:graph"]
    with server_process(folder / "data", errors=errors, serves=serves) as server:
        async with httpx2.AsyncClient(base_url=server.address, timeout=60) as client:
            sid = await begin(client, "vendor_graph")
            await send(client, sid, "post both")
            await seen(client, sid, "tool_end")
            ledger = folder / "ledger"
            await eventually(lambda: "slow" in ledger.read_text(), within=60, what="the tool does not begin")
            server.kill()
    with server_process(folder / "data", errors=errors, serves=serves) as server:
        async with httpx2.AsyncClient(base_url=server.address, timeout=60) as client:
            ended = await rest_of_run(client, sid)
            assert (ended[-1]["payload"]["status"], ended[-1]["payload"]["code"]) == ("failed", "crashed")
            assert answer(await whole_round(client, sid, "hello?")) == ("completed", "I am here.")
            assert results(openai_server).keys() == {"call_served_0", "call_served_1"}
            assert order_problems(log_of(await events(client, sid))) == []
    assert sorted(ledger.read_text().split()) == ["quick", "slow"]
