"""A server that is killed: its runs go on where they were, if nothing is done twice by that; else they end visibly."""

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest

from stellwerk.envelope.order import legal
from tests.api.reading import Event
from tests.crash.process import ServerProcess, server_process
from tests.crash.waiting import eventually
from tests.runs.talking import answer, begin, events, log_of, rest_of_run, seen, send

HOUSE = Path(__file__).parent / "house"


class House:
    """A folder with a system, its tools, and the ledger of what they really did."""

    def __init__(self, folder: Path) -> None:
        shutil.copytree(HOUSE, folder / "house")
        self.folder, self.data = folder / "house", folder / "data"
        (self.folder / "operator.yaml").write_text("tools: [tools.py:tools]\n")

    @contextmanager
    def server(self) -> Iterator[ServerProcess]:
        config, system = self.folder / "operator.yaml", self.folder / "system.yaml"
        with server_process(self.data, errors=self.folder / "errors", config=config, serves=[str(system)]) as server:
            yield server

    def ledger(self) -> list[str]:
        path = self.folder / "ledger"
        return path.read_text().splitlines() if path.exists() else []

    async def at_work(self, count: int) -> None:
        """Wait until tools have been called that often: their start is told before that."""
        await eventually(lambda: len(self.ledger()) >= count, within=60, what="no tool is at work")

    def open_gate(self) -> None:
        (self.folder / "gate").touch()


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path)


async def cut_off(house: House, text: str, *, at: str, count: int) -> str:
    """Send a message and kill the server when so many envelopes of a type are in the log, and two tools at work."""
    with house.server() as server:
        async with httpx2.AsyncClient(base_url=server.address, timeout=60) as client:
            sid = await begin(client, "house")
            await send(client, sid, text)
            await seen(client, sid, at, count=count)
            await house.at_work(2)
        server.kill()
    return sid


async def what_became_of(house: House, sid: str, *, after: int = 0) -> list[Event]:
    """The whole log, after the next start has seen to it."""
    house.open_gate()
    with house.server() as server:
        async with httpx2.AsyncClient(base_url=server.address, timeout=60) as client:
            await rest_of_run(client, sid, after)
            told = await events(client, sid)
            assert legal(log_of(told)) == []
            assert (await client.get(f"/sessions/{sid}")).json()["status"] != "running"
    return told


def resumed(told: list[Event]) -> list[int]:
    return [e["payload"]["attempt"] for e in told if e["type"] == "subgraph_resume"]


@pytest.mark.requirement("fault-25")
async def test_a_run_goes_on_when_what_was_cut_off_may_be_done_again(house: House) -> None:
    told = await what_became_of(house, await cut_off(house, "careful", at="tool_start", count=2))
    assert told[-1]["payload"] == {**told[-1]["payload"], "status": "completed", "result": "Done: garden was found."}
    assert house.ledger() == ["book room", "look_up garden", "look_up garden"], "what was done is not done again"
    assert len({e["run_id"] for e in told if "run_id" in e}) == 1
    assert resumed(told) == [2]
    first, again = [e for e in told if e["type"] == "tool_start" and e["payload"]["tool_name"] == "look_up"]
    (end,) = [e for e in told if e["type"] == "tool_end" and e["call_id"] == first["call_id"]]
    assert (end["payload"]["status"], end["payload"]["synthesized"]) == ("abandoned", True)
    assert again["payload"]["retry_of"] == first["call_id"]
    assert again["payload"]["tool_call_id"] == first["payload"]["tool_call_id"]


@pytest.mark.requirement("fault-25")
async def test_a_run_ends_as_crashed_when_nobody_knows_how_far_a_tool_came(house: House) -> None:
    told = await what_became_of(house, await cut_off(house, "risky", at="tool_start", count=2))
    end = told[-1]["payload"]
    assert (end["status"], end["code"]) == ("failed", "crashed")
    assert "book_slowly" in end["reason"]
    assert house.ledger() == ["book room", "book_slowly car"]
    assert resumed(told) == []


async def test_the_work_of_a_sub_agent_goes_on_inside_it(house: House) -> None:
    told = await what_became_of(house, await cut_off(house, "delegate", at="tool_start", count=3))
    assert told[-1]["payload"]["status"] == "completed", told[-1]
    assert house.ledger() == ["book key", "look_up stairs", "look_up stairs"]


async def test_an_answered_run_goes_on_too(house: House) -> None:
    with house.server() as server:
        async with httpx2.AsyncClient(base_url=server.address, timeout=60) as client:
            sid = await begin(client, "house")
            await send(client, sid, "ask")
            await rest_of_run(client, sid)
            accepted = await answer(client, sid, text="third")
            await seen(client, sid, "tool_start", count=2)
        server.kill()
    told = await what_became_of(house, sid, after=accepted["after"])
    assert told[-1]["payload"]["status"] == "completed", told[-1]
    assert [e["type"] for e in told].count("user_answer") == 1


@pytest.mark.requirement("fault-26")
async def test_a_run_that_is_cut_off_twice_ends_as_crashed(house: House) -> None:
    sid = await cut_off(house, "careful", at="tool_start", count=2)
    with house.server() as server:
        async with httpx2.AsyncClient(base_url=server.address, timeout=60) as client:
            await seen(client, sid, "tool_start", count=3)
            await house.at_work(3)
        server.kill()
    told = await what_became_of(house, sid)
    assert (told[-1]["payload"]["status"], told[-1]["payload"]["code"]) == ("failed", "crashed")
    assert resumed(told) == [2]


async def test_a_server_that_is_told_to_end_pauses_its_runs_and_they_are_no_second_attempt(house: House) -> None:
    with house.server() as server:
        async with httpx2.AsyncClient(base_url=server.address, timeout=60) as client:
            sid = await begin(client, "house")
            await send(client, sid, "careful")
            await seen(client, sid, "tool_start", count=2)
            await house.at_work(2)
            server.process.terminate()
            house.open_gate()
        server.stop()
    told = await what_became_of(house, sid)
    assert told[-1]["payload"]["status"] == "completed"
    assert house.ledger() == ["book room", "look_up garden"], "the step was ended before the server was"
    assert [e["payload"].get("status") for e in told if e["type"] in ("tool_end", "llm_end")].count("abandoned") == 0


async def test_a_server_starts_though_it_was_killed_in_the_middle_of_a_deletion(house: House) -> None:
    sid = await cut_off(house, "risky", at="tool_start", count=2)
    with sqlite3.connect(house.data / "stellwerk.db") as database:  # what a deletion commits first
        database.execute("DELETE FROM session WHERE id = ?", (sid,))
    database.close()
    with house.server() as server:
        async with httpx2.AsyncClient(base_url=server.address, timeout=60) as client:
            assert (await client.get("/readyz")).status_code == 200
            assert (await client.get(f"/sessions/{sid}")).status_code == 404
