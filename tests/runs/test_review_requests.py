"""Approvals of an operator's graph on a server: answered by any way in, over a crash, and after a failed resume."""

import asyncio
import json
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from websockets.asyncio.client import connect

from stellwerk.agents.graphs.serve_targets import systems_of
from stellwerk.settings import Settings
from stellwerk.testing.order import order_problems
from tests.api.reading import Event, whole_round
from tests.conftest import running_server
from tests.crash.process import server_process
from tests.runs.talking import answer, begin, events, log_of, rest_of_run

GRAPHS = ("hitl", "inbox")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of the graphs, with the ledger of what they did."""
    shutil.copy(Path(__file__).parent / "review_graphs.py", tmp_path)
    (tmp_path / "ledger").touch()
    return tmp_path


def serves(folder: Path) -> list[str]:
    return [f"{name}={folder}/review_graphs.py:{name}" for name in GRAPHS]


@asynccontextmanager
async def serving(folder: Path) -> AsyncIterator[httpx2.AsyncClient]:
    async with running_server(Settings(data=folder / "data"), own=systems_of(serves(folder))) as address:
        async with httpx2.AsyncClient(base_url=address, timeout=60) as client:
            yield client


@pytest.fixture
async def client(folder: Path) -> AsyncIterator[httpx2.AsyncClient]:
    async with serving(folder) as client:
        yield client


async def answered(client: httpx2.AsyncClient, sid: str, **body: Any) -> Event:
    """How the run that goes on ends; the whole log is in order."""
    told = await rest_of_run(client, sid, (await answer(client, sid, **body))["after"])
    assert order_problems(log_of(await events(client, sid))) == []
    return dict(told[-1]["payload"])


async def questions(client: httpx2.AsyncClient, sid: str) -> list[Event]:
    return list((await client.get(f"/sessions/{sid}/state")).json()["questions"])


@pytest.mark.parametrize("path", ["answers", "messages", "socket"])
async def test_what_does_not_fit_is_refused_and_what_fits_is_taken_by_every_way_in(
    path: str, client: httpx2.AsyncClient, folder: Path
) -> None:
    sid = await begin(client, "hitl")
    assert (await whole_round(client, sid, "pay"))[-1]["payload"]["status"] == "awaiting_user"
    before = await events(client, sid)
    (asked,) = await questions(client, sid)
    assert (asked["kind"], asked["tool_name"]) == ("approval", "pay")

    async def say(text: str) -> tuple[int, Event]:
        if path != "socket":
            response = await client.post(f"/sessions/{sid}/{path}", json={"text": text})
            return response.status_code, response.json()
        url = f"{str(client.base_url).replace('http', 'ws', 1).rstrip('/')}/sessions/{sid}/ws?after={len(before)}"
        async with asyncio.timeout(60), connect(url) as socket:
            await socket.send(json.dumps({"type": "answer", "text": text}))
            while "event" in (got := json.loads(await socket.recv())):
                pass
        return (202, got["ok"]) if "ok" in got else (got["problem"]["status"], got["problem"])

    status, problem = await say("hmm, what does that do?")
    assert (status, "in words: approve; edit" in problem["detail"]) == (422, True)
    assert await events(client, sid) == before, "nothing is recorded"
    assert await questions(client, sid) == [asked]
    status, accepted = await say('edit {"to": "Bob", "amount": 2}')
    assert status == 202
    told = await rest_of_run(client, sid, accepted["after"])
    assert told[-1]["payload"]["status"] == "completed"
    assert (folder / "ledger").read_text() == "paid 2 to Bob\n"
    assert order_problems(log_of(await events(client, sid))) == []


async def test_an_interrupt_with_several_actions_is_answered_as_a_whole_or_not_at_all(
    client: httpx2.AsyncClient, folder: Path
) -> None:
    sid = await begin(client, "hitl")
    await whole_round(client, sid, "both")
    before = await events(client, sid)
    pay, delete = await questions(client, sid)
    assert pay["interrupt_id"] == delete["interrupt_id"]
    one, bad = {"type": "approve"}, {"type": "respond", "message": "x"}
    for decisions in ([one], [one, one, one], [one, bad]):
        refused = await client.post(f"/sessions/{sid}/answers", json={"data": {"decisions": decisions}})
        assert refused.status_code == 422, refused.text
        assert ("pay, delete" in refused.text) == (len(decisions) != 2)
    assert await events(client, sid) == before
    data = {"decisions": [{"type": "reject", "message": "too much"}, one]}
    ended = await answered(client, sid, ask_id=pay["interrupt_id"], data=data)
    assert ended["status"] == "completed"
    assert (folder / "ledger").read_text() == "deleted old.txt\n"


async def test_what_is_left_of_an_interrupt_can_be_answered_as_a_whole(
    client: httpx2.AsyncClient, folder: Path
) -> None:
    sid = await begin(client, "hitl")
    await whole_round(client, sid, "both")
    pay, delete = await questions(client, sid)
    assert (await answer(client, sid, ask_id=delete["ask_id"], text="no"))["open_asks"] == [pay["ask_id"]]
    assert (await answered(client, sid, data={"decisions": [{"type": "approve"}]}))["status"] == "completed"
    assert (folder / "ledger").read_text() == "paid 5 to Ann\n"


@pytest.mark.timeout(600)
async def test_half_answered_actions_of_an_interrupt_survive_a_crash(folder: Path) -> None:
    errors = folder / "errors"
    with server_process(folder / "data", errors=errors, serves=serves(folder)) as server:
        async with httpx2.AsyncClient(base_url=server.address, timeout=60) as client:
            sid = await begin(client, "inbox")
            await whole_round(client, sid, "two")
            mail, book = await questions(client, sid)
            await answer(client, sid, ask_id=book["ask_id"], text="no")
            server.kill()
    with server_process(folder / "data", errors=errors, serves=serves(folder)) as server:
        async with httpx2.AsyncClient(base_url=server.address, timeout=60) as client:
            assert await questions(client, sid) == [mail]
            ended = await answered(client, sid, text="respond: make it dinner")
    received = [{"type": "response", "args": "make it dinner"}, {"type": "ignore", "args": None}]
    assert (ended["status"], ended["result"]) == ("completed", repr(received))


async def test_after_an_answer_that_the_graph_itself_rejects_the_next_message_works(
    client: httpx2.AsyncClient, folder: Path
) -> None:
    sid = await begin(client, "hitl")
    await whole_round(client, sid, "pay")
    elsewhere = {"type": "edit", "edited_action": {"name": "transfer", "args": {}}}
    ended = await answered(client, sid, data=elsewhere)
    assert (ended["status"], ended["code"]) == ("failed", "agent_failed"), "the agent has no tool of this name"
    late = await client.post(f"/sessions/{sid}/answers", json={"text": "approve"})
    assert (late.status_code, late.json()["code"]) == (409, "nothing_asked")
    told = await whole_round(client, sid, "hello?")
    assert told[-1]["payload"]["result"] == "I am here."
    assert "tool_calls_closed" in [event["payload"]["code"] for event in told if event["type"] == "warning"]
    await whole_round(client, sid, "pay")
    assert (await answered(client, sid, text="approve"))["status"] == "completed"
    assert (folder / "ledger").read_text() == "paid 5 to Ann\n"


async def test_after_an_answer_that_a_graph_rejects_the_message_can_be_regenerated(
    client: httpx2.AsyncClient, folder: Path
) -> None:
    sid = await begin(client, "hitl")
    await whole_round(client, sid, "pay")
    elsewhere = {"type": "edit", "edited_action": {"name": "transfer", "args": {}}}
    assert (await answered(client, sid, data=elsewhere))["status"] == "failed"
    again = (await client.post(f"/sessions/{sid}/regenerate")).json()
    told = await rest_of_run(client, sid, again["after"])
    assert told[-1]["payload"]["status"] == "awaiting_user", "it is asked once more"
    assert (await answered(client, sid, text="approve"))["status"] == "completed"
    assert (folder / "ledger").read_text() == "paid 5 to Ann\n"


async def test_an_inbox_whose_graph_fails_at_the_answer_takes_the_next_message(client: httpx2.AsyncClient) -> None:
    sid = await begin(client, "inbox")
    await whole_round(client, sid, "fragile")
    assert (await answered(client, sid, text="accept"))["status"] == "failed"
    assert (await whole_round(client, sid, "hello?"))[-1]["payload"]["result"] == "I am here."
