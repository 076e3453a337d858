"""Stops and take-overs in trouble: a store that refuses them, drivers and processes that stall, a queue behind them."""

import asyncio
import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path

import httpx2
import pytest

from stellwerk.app import Parts
from stellwerk.database.port import R, Transaction
from stellwerk.settings import Settings
from stellwerk.testing.order import order_problems
from tests import stores
from tests.api.reading import whole_round
from tests.conftest import running_server
from tests.crash.disks import FullSqlite, SlowSqlite, StandingSqlite
from tests.crash.waiting import eventually
from tests.faults.conftest import FaultServer
from tests.forked import completed
from tests.runs.talking import begin, events, log_of, rest_of_run, seen, send, stop


@pytest.mark.requirement("fault-20")
@pytest.mark.only_sqlite
async def test_a_stop_that_cannot_be_stored_is_refused_and_works_when_it_can(
    faulty: FaultServer,
) -> None:
    database = FullSqlite(faulty.database)
    async with faulty.served(Parts(database=lambda _: database)) as client:
        sid = await begin(client, "faulty")
        await send(client, sid, "hold")
        await seen(client, sid, "tool_start")
        database.full = True
        refused = await client.post(f"/sessions/{sid}/stop")
        assert (refused.status_code, refused.json()["code"]) == (507, "storage_full")
        assert (await client.get(f"/sessions/{sid}")).json()["status"] == "running"
        database.full = False
        assert (await stop(client, sid))["status"] == "stopped"
        assert order_problems(log_of(await events(client, sid))) == []


class SlowLookUps(SlowSqlite):
    """The second time that a command is looked up, the answer waits until the first command is done."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.holds_second = False
        self.first_is_done = asyncio.Event()
        self._looked_up = 0

    async def read(self, query: Callable[[Transaction], R]) -> R:
        if self.holds_second and getattr(query, "__qualname__", "").startswith("Sessions._look_up"):
            self._looked_up += 1
            if self._looked_up == 2:
                await self.first_is_done.wait()
        return await super().read(query)


@pytest.mark.only_sqlite
async def test_a_message_that_interrupts_and_comes_twice_at_once_does_not_stop_its_own_run(
    faulty: FaultServer,
) -> None:
    database = SlowLookUps(faulty.database)
    async with faulty.served(Parts(database=lambda _: database)) as client:
        sid = await begin(client, "faulty")
        await send(client, sid, "hold")
        await seen(client, sid, "tool_start")
        database.holds_second = True
        post = partial(client.post, f"/sessions/{sid}/messages", headers={"Idempotency-Key": "once"})
        tasks = [asyncio.create_task(post(json={"text": "hold on", "if_busy": "interrupt"})) for _ in range(2)]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED, timeout=60)
        database.first_is_done.set()
        answers = [await task for task in tasks]
        assert [answer.status_code for answer in answers] == [202, 202]
        assert len({answer.json()["run_id"] for answer in answers}) == 1
        faulty.open_gate()
        told = await rest_of_run(client, sid, answers[0].json()["after"])
        assert told[-1]["payload"]["status"] == "completed"


@pytest.mark.requirement("fault-19")
async def test_a_run_that_was_stopped_before_it_began_asks_no_model(faulty: FaultServer) -> None:
    async with faulty.served(slots=1) as client:
        busy, early = await begin(client, "faulty"), await begin(client, "faulty")
        await send(client, busy, "hold")
        await send(client, early, "hello")
        assert (await stop(client, early))["status"] == "stopped"
        faulty.open_gate()
        await rest_of_run(client, busy)
        await whole_round(client, busy, "hello")  # the slot was free, and nobody took up what was stopped
        told = [e["type"] for e in await events(client, early)]
    assert told == ["run_start", "message", "stop_request", "run_end"]


@pytest.mark.requirement("fault-27", "fault-21", "trust.I7")
async def test_a_stalled_driver_writes_nothing_into_the_round_that_the_same_process_drives_now(
    faulty: FaultServer,
) -> None:
    async with faulty.served() as client:
        sid = await begin(client, "faulty")
        await send(client, sid, "block")
        await faulty.has_noted("block")
        await stop(client, sid)
        await send(client, sid, "hold")  # another round of the same session, under way in the same process
        await seen(client, sid, "tool_start", count=2)
        before = await events(client, sid)
        faulty.open_gate()
        await faulty.has_noted("block is done")
        await rest_of_run(client, sid, len(before))
        told = await events(client, sid)
    stopped, going = [e["run_id"] for e in told if e["type"] == "run_start"]
    assert told[: len(before)] == before
    assert {e["run_id"] for e in told[len(before) :]} == {going}
    assert [e["payload"]["status"] for e in told if e["type"] == "run_end"] == ["stopped", "completed"]
    late = [e for e in told if e["type"] == "tool_end" and e["run_id"] == stopped]
    assert [e["payload"]["status"] for e in late] == ["abandoned"]
    assert order_problems(log_of(told)) == []


@pytest.mark.requirement("fault-27")
async def test_a_process_that_stands_still_is_not_overtaken_and_goes_on(faulty: FaultServer) -> None:
    async with faulty.server() as (server, client):
        sid = await begin(client, "faulty")
        await send(client, sid, "hold")
        await seen(client, sid, "tool_start")
        server.process.send_signal(signal.SIGSTOP)
        try:
            second = await asyncio.to_thread(completed, "serve", "--port", "0", "--data", str(faulty.data))
        finally:
            server.process.send_signal(signal.SIGCONT)
        assert second.returncode != 0
        assert "another Stellwerk uses the data folder" in second.stderr
        faulty.open_gate()
        assert (await rest_of_run(client, sid))[-1]["payload"]["status"] == "completed"
        assert order_problems(log_of(await events(client, sid))) == []


@pytest.mark.requirement("fault-30")
@pytest.mark.only_sqlite
async def test_a_run_waits_at_its_checkpoint_for_a_disk_that_stands_still(
    faulty: FaultServer,
) -> None:
    database = StandingSqlite(faulty.database)
    parts = Parts(database=lambda _: database)
    own = {"steps": f"{faulty.folder / 'steps.py'}:graph"}
    async with running_server(Settings(data=faulty.data), own=own, parts=parts) as address:
        async with httpx2.AsyncClient(base_url=address, timeout=60) as client:
            sid = await begin(client, "steps")
            await send(client, sid, "go")
            await eventually(lambda: steps(faulty) > 5, within=60, what="it does not begin")
            database.moving.clear()
            before = steps(faulty)
            for _ in range(100):  # turns of the loop, in which a run that did not wait would make all its steps
                await client.get("/healthz")
            within = steps(faulty)
            database.moving.set()
            told = await rest_of_run(client, sid)
    assert within - before <= 3 and before < 190, "the one under way, and no queue of others behind it"
    assert (steps(faulty), told[-1]["payload"]["result"]) == (200, "All steps are done.")


def steps(faulty: FaultServer) -> int:
    path = faulty.folder / "steps"
    return path.stat().st_size if path.exists() else 0


@pytest.mark.requirement("fault-26", "fault-25")
async def test_a_session_whose_run_has_used_up_its_attempts_takes_the_next_round(faulty: FaultServer) -> None:
    async with faulty.server() as (_, client):
        sid = await begin(client, "faulty")
        await send(client, sid, "hold")
        await seen(client, sid, "tool_start")
        await faulty.has_noted("hold")
    with stores.beside(faulty.data) as stored:
        stored.change("UPDATE run SET attempt = 2")  # as if it had been cut off once before
    async with faulty.server() as (_, client):
        end = (await rest_of_run(client, sid))[-1]["payload"]
        assert (end["status"], end["code"]) == ("failed", "crashed")
        again = await whole_round(client, sid, "hello")
        assert (again[0]["payload"]["round"], again[-1]["payload"]["status"]) == (2, "completed")
        assert order_problems(log_of(await events(client, sid))) == []
    with stores.beside(faulty.data) as stored:
        assert stored.value("SELECT count(*) FROM run WHERE state <> 'ended'") == 0
