"""Stops and take-overs in trouble: a store that refuses them, drivers and processes that stall, a queue behind them."""

import asyncio
import signal
import sqlite3
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import httpx2
import pytest

from stellwerk import app
from stellwerk.envelope.order import legal
from stellwerk.runs.sessions import Sessions
from stellwerk.settings import Settings
from tests.api.reading import whole_round
from tests.conftest import running_server
from tests.crash.disks import FullSqlite, SlowSqlite, StandingSqlite
from tests.crash.waiting import eventually
from tests.faults.conftest import Desk
from tests.forked import completed
from tests.runs.talking import begin, events, log_of, rest_of_run, seen, send, stop


@pytest.mark.requirement("fault-20")
async def test_a_stop_that_cannot_be_stored_is_refused_and_works_when_it_can(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app, "Sqlite", FullSqlite)
    monkeypatch.setattr(FullSqlite, "made", [])
    async with desk.served() as client:
        (database,) = FullSqlite.made
        sid = await begin(client, "desk")
        await send(client, sid, "hold")
        await seen(client, sid, "tool_start")
        database.full = True
        refused = await client.post(f"/sessions/{sid}/stop")
        assert (refused.status_code, refused.json()["code"]) == (507, "storage_full")
        assert (await client.get(f"/sessions/{sid}")).json()["status"] == "running"
        database.full = False
        assert (await stop(client, sid))["status"] == "stopped"
        assert legal(log_of(await events(client, sid))) == []


async def test_a_message_that_interrupts_and_comes_twice_at_once_does_not_stop_its_own_run(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app, "Sqlite", SlowSqlite)
    stood, first, standing = 0, asyncio.Event(), Sessions._standing

    async def slow_for_the_second(known: Sessions, tenant: str, session_id: str) -> Any:
        nonlocal stood
        stood += 1
        if stood == 2:
            await first.wait()
        return await standing(known, tenant, session_id)

    async with desk.served() as client:
        sid = await begin(client, "desk")
        await send(client, sid, "hold")
        await seen(client, sid, "tool_start")
        monkeypatch.setattr(Sessions, "_standing", slow_for_the_second)
        post = partial(client.post, f"/sessions/{sid}/messages", headers={"Idempotency-Key": "once"})
        tasks = [asyncio.create_task(post(json={"text": "hold on", "if_busy": "interrupt"})) for _ in range(2)]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED, timeout=60)
        first.set()
        answers = [await task for task in tasks]
        assert [answer.status_code for answer in answers] == [202, 202]
        assert len({answer.json()["run_id"] for answer in answers}) == 1
        desk.open_gate()
        told = await rest_of_run(client, sid, answers[0].json()["after"])
        assert told[-1]["payload"]["status"] == "completed"


@pytest.mark.requirement("fault-19")
async def test_a_run_that_was_stopped_before_it_began_asks_no_model(desk: Desk) -> None:
    async with desk.served(slots=1) as client:
        busy, early = await begin(client, "desk"), await begin(client, "desk")
        await send(client, busy, "hold")
        await send(client, early, "hello")
        assert (await stop(client, early))["status"] == "stopped"
        desk.open_gate()
        await rest_of_run(client, busy)
        await whole_round(client, busy, "hello")  # the slot was free, and nobody took up what was stopped
        told = [e["type"] for e in await events(client, early)]
    assert told == ["run_start", "message", "stop_request", "run_end"]


@pytest.mark.requirement("fault-27", "fault-21", "trust.I7")
async def test_a_stalled_driver_writes_nothing_into_the_round_that_the_same_process_drives_now(desk: Desk) -> None:
    async with desk.served() as client:
        sid = await begin(client, "desk")
        await send(client, sid, "block")
        await desk.has_noted("block")
        await stop(client, sid)
        await send(client, sid, "hold")  # another round of the same session, under way in the same process
        await seen(client, sid, "tool_start", count=2)
        before = await events(client, sid)
        desk.open_gate()
        await desk.has_noted("block is done")
        await rest_of_run(client, sid, len(before))
        told = await events(client, sid)
    stopped, going = [e["run_id"] for e in told if e["type"] == "run_start"]
    assert told[: len(before)] == before
    assert {e["run_id"] for e in told[len(before) :]} == {going}
    assert [e["payload"]["status"] for e in told if e["type"] == "run_end"] == ["stopped", "completed"]
    late = [e for e in told if e["type"] == "tool_end" and e["run_id"] == stopped]
    assert [e["payload"]["status"] for e in late] == ["abandoned"]
    assert legal(log_of(told)) == []


@pytest.mark.requirement("fault-27")
async def test_a_process_that_stands_still_is_not_overtaken_and_goes_on(desk: Desk) -> None:
    async with desk.server() as (server, client):
        sid = await begin(client, "desk")
        await send(client, sid, "hold")
        await seen(client, sid, "tool_start")
        server.process.send_signal(signal.SIGSTOP)
        try:
            second = await asyncio.to_thread(completed, "serve", "--port", "0", "--data", str(desk.data))
        finally:
            server.process.send_signal(signal.SIGCONT)
        assert second.returncode != 0
        assert "another Stellwerk uses the data folder" in second.stderr
        desk.open_gate()
        assert (await rest_of_run(client, sid))[-1]["payload"]["status"] == "completed"
        assert legal(log_of(await events(client, sid))) == []


class Standing(StandingSqlite):
    made: ClassVar[list["Standing"]] = []

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.made.append(self)


@pytest.mark.requirement("fault-30")
async def test_a_run_waits_at_its_checkpoint_for_a_disk_that_stands_still(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app, "Sqlite", Standing)
    monkeypatch.setattr(Standing, "made", [])
    own = {"steps": f"{desk.folder / 'steps.py'}:graph"}
    async with running_server(Settings(data=desk.data), own=own) as address:
        async with httpx2.AsyncClient(base_url=address, timeout=60) as client:
            (database,) = Standing.made
            sid = await begin(client, "steps")
            await send(client, sid, "go")
            await eventually(lambda: steps(desk) > 5, within=60, what="it does not begin")
            database.moving.clear()
            before = steps(desk)
            for _ in range(100):  # turns of the loop, in which a run that did not wait would make all its steps
                await client.get("/healthz")
            within = steps(desk)
            database.moving.set()
            told = await rest_of_run(client, sid)
    assert within - before <= 3 and before < 190, "the one under way, and no queue of others behind it"
    assert (steps(desk), told[-1]["payload"]["result"]) == (200, "All steps are done.")


def steps(desk: Desk) -> int:
    path = desk.folder / "steps"
    return path.stat().st_size if path.exists() else 0


@pytest.mark.requirement("fault-26", "fault-25")
async def test_a_session_whose_run_has_used_up_its_attempts_takes_the_next_round(desk: Desk) -> None:
    async with desk.server() as (_, client):
        sid = await begin(client, "desk")
        await send(client, sid, "hold")
        await seen(client, sid, "tool_start")
        await desk.has_noted("hold")
    with closing(sqlite3.connect(desk.data / "stellwerk.db")) as database, database:
        database.execute("UPDATE run SET attempt = 2")  # as if it had been cut off once before
    async with desk.server() as (_, client):
        end = (await rest_of_run(client, sid))[-1]["payload"]
        assert (end["status"], end["code"]) == ("failed", "crashed")
        again = await whole_round(client, sid, "hello")
        assert (again[0]["payload"]["round"], again[-1]["payload"]["status"]) == (2, "completed")
        assert legal(log_of(await events(client, sid))) == []
    with closing(sqlite3.connect(desk.data / "stellwerk.db")) as database:
        assert database.execute("SELECT count(*) FROM run WHERE state <> 'ended'").fetchone() == (0,)
