"""The process of an isolated graph dies, hangs, eats memory or multiplies: only its own run notices."""

import asyncio
import os
import signal
import time
from pathlib import Path
from typing import Any

import httpx2
import pytest

from stellwerk.agents.isolated import limits
from tests.crash.process import server_process
from tests.crash.waiting import eventually
from tests.isolated.serving import alive, begin, descendants, events, said, server, target


def alone(folder: Path) -> Path:
    """An operator's file by which no two runs share a process."""
    config = folder / "operator.yaml"
    config.write_text("isolate: {all: {runs: 1}}")
    return config


async def beside(client: httpx2.AsyncClient, trouble: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The end of a run with trouble, and the ends of runs beside it: of the same graph, and of another."""
    session = await begin(client, "troubled", trouble)
    others = [await said(client, "troubled", "nothing"), await said(client, "other", "hello")]
    return (await events(client, session))[-1]["payload"], others


@pytest.mark.parametrize("how", ["kill", "segfault"])
async def test_a_run_whose_process_is_killed_goes_on_in_another_from_its_last_step(how: str, tmp_path: Path) -> None:
    async with server(tmp_path / "data", target("troubled"), target("other")) as client:
        end, others = await beside(client, f"{how} {tmp_path / 'once'}")
        sessions = (await client.get("/sessions")).json()["sessions"]
        values = [(await client.get(f"/sessions/{each['id']}/state/values")).json()["values"] for each in sessions]
    assert (end["status"], end["result"]) == ("completed", "gone on")
    assert [each["status"] for each in others] == ["completed", "completed"]
    assert ["first", "second"] in [each.get("steps") for each in values]


async def test_a_run_that_always_kills_its_process_ends_after_two_attempts(tmp_path: Path) -> None:
    async with server(tmp_path, target("troubled"), target("other")) as client:
        end, others = await beside(client, "segfault")
    assert (end["status"], end["code"]) == ("failed", "crashed")
    assert "begun 2 times" in end["reason"]
    assert [each["status"] for each in others] == ["completed", "completed"]


async def test_a_tool_that_is_not_idempotent_is_not_called_again_after_its_process_was_killed(tmp_path: Path) -> None:
    async with server(tmp_path / "data", target("paying")) as client:
        end = await said(client, "paying", str(tmp_path / "book"))
    assert (end["status"], end["code"]) == ("failed", "crashed")
    assert "send_money was at work" in end["reason"]
    assert (tmp_path / "book").read_text() == "sent\n"


async def test_a_run_that_wants_more_memory_than_its_process_may_have_fails_alone(tmp_path: Path) -> None:
    config = tmp_path / "operator.yaml"
    config.write_text("isolate: {troubled: {memory: 1g}}")
    async with server(tmp_path / "data", target("troubled"), target("other"), config=config) as client:
        end, others = await beside(client, "memory")
    assert (end["status"], end["reason"]) == (
        "failed",
        "the agent raised MemoryError; the server's log has the details",
    )
    assert [each["status"] for each in others] == ["completed", "completed"]


async def test_a_node_that_blocks_its_event_loop_blocks_no_other_run_and_is_stopped_within_a_second(
    tmp_path: Path,
) -> None:
    async with server(tmp_path / "data", target("troubled"), target("other"), config=alone(tmp_path)) as client:
        session = await begin(client, "troubled", "sleep")
        others = [await said(client, "troubled", "nothing"), await said(client, "other", "hello")]
        asked = time.monotonic()
        stopped = await client.post(f"/sessions/{session}/stop")
        took = time.monotonic() - asked
        end = (await events(client, session))[-1]["payload"]
        again = await client.post(f"/sessions/{session}/messages", json={"text": "nothing"})
        assert again.status_code == 202
        last = (await events(client, session, ends=2))[-1]["payload"]
    assert stopped.status_code == 200
    assert took < 1
    assert end["status"] == "stopped"
    assert last["status"] == "completed"
    assert [each["status"] for each in others] == ["completed", "completed"]


async def test_a_fork_bomb_is_bounded_and_all_of_it_is_gone_with_the_server(tmp_path: Path) -> None:
    before = descendants(os.getpid())
    async with server(tmp_path, target("troubled"), target("other")) as client:
        session = await begin(client, "troubled", "bomb")
        others = [await said(client, "troubled", "nothing"), await said(client, "other", "hello")]
        end = (await events(client, session))[-1]["payload"]
        bombs = descendants(os.getpid()) - before
    assert end["status"] == "failed"
    assert len(bombs) < limits.PROCESSES + 50
    assert [each["status"] for each in others] == ["completed", "completed"]
    await eventually(lambda: not alive(bombs), within=60, what="a process is left")


async def test_with_one_run_per_process_runs_have_processes_of_their_own_and_the_next_run_has_one_of_them(
    tmp_path: Path,
) -> None:
    async with server(tmp_path / "data", target("troubled"), config=alone(tmp_path)) as client:
        session = await begin(client, "troubled", "sleep")
        ends = [await said(client, "troubled", "nothing") for _ in range(2)]
        await client.post(f"/sessions/{session}/stop")
    first, second = [each["result"] for each in ends]
    assert first == second
    assert first != f"pid {os.getpid()}"


async def test_runs_share_a_process_until_one_was_lost(tmp_path: Path) -> None:
    async def pids(mark: Path) -> list[str]:
        """Of a run that waits for a pipe, and of one that began and ended meanwhile."""
        os.mkfifo(mark)
        session = await begin(client, "troubled", f"wait {mark}")
        second = await said(client, "troubled", "nothing")
        await asyncio.to_thread(mark.write_bytes, b"go on")
        return [(await events(client, session))[-1]["payload"]["result"], second["result"]]

    async with server(tmp_path / "data", target("troubled")) as client:
        before = await pids(tmp_path / "first")
        lost = await said(client, "troubled", f"kill {tmp_path / 'once'}")
        after = await pids(tmp_path / "second")
    assert len(set(before)) == 1
    assert lost["result"] == "gone on"
    assert len({*before, *after}) == 3


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
async def test_no_process_outlives_the_server(how: signal.Signals, tmp_path: Path) -> None:
    serves = [target("troubled"), target("other")]
    with server_process(
        tmp_path / "data", errors=tmp_path / "errors", serves=serves, config=alone(tmp_path)
    ) as process:
        async with httpx2.AsyncClient(base_url=process.address, timeout=60) as client:
            await begin(client, "troubled", "sleep")
            await said(client, "other", "hello")
        workers = descendants(process.pid)
        assert len(workers) >= 4, "two workers, each with its supervisor"
        process.stop() if how == signal.SIGTERM else process.kill()
    await eventually(lambda: not alive(workers), within=60, what="a process is left")
