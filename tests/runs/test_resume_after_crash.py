"""A server that is killed: its runs go on where they were, if nothing is done twice by that; else they end visibly."""

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2
import pytest

from stellwerk.testing.order import order_problems
from tests import stores
from tests.api.reading import Event
from tests.crash.process import ServerProcess, server_process
from tests.crash.waiting import eventually
from tests.runs.talking import answer, begin, events, log_of, rest_of_run, seen, send

SYSTEM = Path(__file__).parent / "resumed_system"
pytestmark = pytest.mark.timeout(1800)  # four servers take 10 s of one core, and others may want it as well


class ResumedServer:
    """A folder with a system, its tools, and the ledger of what they really did."""

    def __init__(self, folder: Path) -> None:
        shutil.copytree(SYSTEM, folder / "system")
        self.folder, self.data = folder / "system", folder / "data"
        (self.folder / "operator.yaml").write_text("tools: [tools.py:tools]\n")
        self.sessions: dict[str, str] = {}
        self.told: dict[str, list[Event]] = {}

    @asynccontextmanager
    async def server(self) -> AsyncIterator[tuple[ServerProcess, httpx2.AsyncClient]]:
        config, system = self.folder / "operator.yaml", self.folder / "system.yaml"
        with server_process(self.data, errors=self.folder / "errors", config=config, serves=[str(system)]) as server:
            async with httpx2.AsyncClient(base_url=server.address, timeout=60) as client:
                yield server, client

    def ledger(self, *words: str) -> list[str]:
        """What was done with these, in its order."""
        path = self.folder / "ledger"
        lines = path.read_text().splitlines() if path.exists() else []
        return [line for line in lines if line.split()[1] in words]

    async def at_work(self, *words: str, times: int = 1) -> None:
        """Wait until a tool has been called for each: that it starts is told before that."""
        await eventually(
            lambda: all(len(self.ledger(word)) >= times for word in words), within=60, what="no tool is at work"
        )

    def open_gates(self, *words: str) -> None:
        for word in words:
            (self.folder / f"gate-{word}").touch()

    async def begin(self, client: httpx2.AsyncClient, text: str) -> str:
        self.sessions[text] = await begin(client, "resumed")
        await send(client, self.sessions[text], text)
        return self.sessions[text]

    async def end_of(self, client: httpx2.AsyncClient, text: str, *, after: int = 0) -> None:
        """Keep the whole log, after the server has seen to it."""
        sid = self.sessions[text]
        await rest_of_run(client, sid, after)
        self.told[text] = await events(client, sid)
        assert order_problems(log_of(self.told[text])) == []
        assert (await client.get(f"/sessions/{sid}")).json()["status"] != "running"


@pytest.fixture(scope="module")
def resumed(tmp_path_factory: pytest.TempPathFactory) -> ResumedServer:
    """After four lives of one server, which was killed in the first two and told to end in the third."""
    made = ResumedServer(tmp_path_factory.mktemp("resumed"))
    asyncio.run(_live(made))
    return made


async def _live(resumed: ResumedServer) -> None:
    async with resumed.server() as (server, client):
        after = await _all_at_work(resumed, client)
        server.kill()
    with stores.beside(resumed.data) as stored:  # what a deletion commits first
        stored.change("DELETE FROM session WHERE id = ?", resumed.sessions["doomed"])
    resumed.open_gates("garden", "car", "stairs", "floor")
    async with resumed.server() as (server, client):
        assert (await client.get("/readyz")).status_code == 200
        assert (await client.get(f"/sessions/{resumed.sessions['doomed']}")).status_code == 404
        for text in ("careful", "risky", "delegate"):
            await resumed.end_of(client, text)
        await resumed.end_of(client, "ask", after=after)
        await seen(client, resumed.sessions["again"], "tool_start", count=3)
        await resumed.at_work("cellar", times=2)
        server.kill()
    async with resumed.server() as (server, client):
        await resumed.end_of(client, "again")
        await seen(client, await resumed.begin(client, "patient"), "tool_start", count=2)
        await resumed.at_work("lawn")
        server.process.terminate()
        resumed.open_gates("lawn")
        server.stop()
    async with resumed.server() as (_, client):
        await resumed.end_of(client, "patient")


async def _all_at_work(resumed: ResumedServer, client: httpx2.AsyncClient) -> int:
    """Begin them all, and wait until each has called a tool that does not come back; where the answered one goes on."""
    asked = await resumed.begin(client, "ask")
    await rest_of_run(client, asked)
    accepted = await answer(client, asked, text="third")
    await seen(client, asked, "tool_start", count=2)
    for text, count in (("careful", 2), ("risky", 2), ("delegate", 3), ("again", 2), ("doomed", 1)):
        await seen(client, await resumed.begin(client, text), "tool_start", count=count)
    await resumed.at_work("floor", "garden", "car", "stairs", "cellar", "attic")
    return int(accepted["after"])


def attempts(told: list[Event]) -> list[int]:
    return [e["payload"]["attempt"] for e in told if e["type"] == "subgraph_resume"]


@pytest.mark.requirement("fault-25")
def test_a_run_goes_on_when_what_was_cut_off_may_be_done_again(resumed: ResumedServer) -> None:
    told = resumed.told["careful"]
    assert told[-1]["payload"] == {**told[-1]["payload"], "status": "completed", "result": "Done: garden was found."}
    done = resumed.ledger("room", "garden")
    assert done == ["book room", "look_up garden", "look_up garden"], "what was done is not done again"
    assert len({e["run_id"] for e in told if "run_id" in e}) == 1
    assert attempts(told) == [2]
    first, again = [e for e in told if e["type"] == "tool_start" and e["payload"]["tool_name"] == "look_up"]
    (end,) = [e for e in told if e["type"] == "tool_end" and e["call_id"] == first["call_id"]]
    assert (end["payload"]["status"], end["payload"]["synthesized"]) == ("abandoned", True)
    assert again["payload"]["retry_of"] == first["call_id"]
    assert again["payload"]["tool_call_id"] == first["payload"]["tool_call_id"]


@pytest.mark.requirement("fault-25")
def test_a_run_ends_as_crashed_when_nobody_knows_how_far_a_tool_came(resumed: ResumedServer) -> None:
    told = resumed.told["risky"]
    end = told[-1]["payload"]
    assert (end["status"], end["code"]) == ("failed", "crashed")
    assert "book_slowly" in end["reason"]
    assert resumed.ledger("hall", "car") == ["book hall", "book_slowly car"]
    assert attempts(told) == []


def test_the_work_of_a_sub_agent_goes_on_inside_it(resumed: ResumedServer) -> None:
    told = resumed.told["delegate"]
    assert told[-1]["payload"]["status"] == "completed", told[-1]
    assert resumed.ledger("key", "stairs") == ["book key", "look_up stairs", "look_up stairs"]


def test_an_answered_run_goes_on_too(resumed: ResumedServer) -> None:
    told = resumed.told["ask"]
    assert told[-1]["payload"]["status"] == "completed", told[-1]
    assert [e["type"] for e in told].count("user_answer") == 1


@pytest.mark.requirement("fault-26")
def test_a_run_that_is_cut_off_twice_ends_as_crashed(resumed: ResumedServer) -> None:
    told = resumed.told["again"]
    assert (told[-1]["payload"]["status"], told[-1]["payload"]["code"]) == ("failed", "crashed")
    assert attempts(told) == [2]


def test_a_server_that_is_told_to_end_pauses_its_runs_and_they_are_no_second_attempt(resumed: ResumedServer) -> None:
    told = resumed.told["patient"]
    assert told[-1]["payload"]["status"] == "completed"
    assert resumed.ledger("bench", "lawn") == ["book bench", "look_up lawn"], "the step was ended before the server was"
    assert [e["payload"].get("status") for e in told if e["type"] in ("tool_end", "llm_end")].count("abandoned") == 0


def test_a_server_starts_though_it_was_killed_in_the_middle_of_a_deletion(resumed: ResumedServer) -> None:
    assert resumed.ledger("attic") == ["book_slowly attic"], "its run is gone as well"
