"""Tools and servers that do not want to stop: the run is over within a second, and nothing of it comes later."""

import asyncio
import shutil
import time
from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import msgspec
import pytest

from stellwerk.settings import Settings
from stellwerk.testing.order import order_problems
from tests.agents.mcp.conftest import RAW
from tests.api.reading import Event, whole_round
from tests.conftest import running_server
from tests.crash.waiting import eventually
from tests.runs.talking import begin, events, log_of, seen, send, stop

STUBBORN = Path(__file__).parent / "stubborn"
AT_ONCE = 1 + 9
"""Seconds within which a run is over; one would do on a machine that does nothing else."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shutil.copytree(STUBBORN, tmp_path, dirs_exist_ok=True)
    operator = {"tools": ["tools.py:tools"], "mcp_servers": {"raw": {"command": RAW}}}
    (tmp_path / "operator.yaml").write_bytes(msgspec.json.encode(operator))
    return tmp_path


@pytest.fixture
async def client(folder: Path) -> AsyncIterator[httpx2.AsyncClient]:
    settings = Settings(data=folder / "data", config=folder / "operator.yaml")
    async with running_server(settings, own={"stubborn": str(folder / "system.yaml")}) as address:
        async with httpx2.AsyncClient(base_url=address, timeout=60) as made:
            yield made
            (folder / "gate").touch()  # whoever still waits may go


async def stopped_at_work(client: httpx2.AsyncClient, sid: str, text: str, *, tools: int = 1) -> list[Event]:
    """Send a message, stop when its tools are at work, and see that this takes no time; the log so far."""
    await send(client, sid, text)
    await seen(client, sid, "tool_start", count=tools)
    began = time.monotonic()
    answer = await stop(client, sid)
    assert time.monotonic() - began < AT_ONCE
    told = await events(client, sid)
    assert (answer["status"], answer["position"]) == ("stopped", len(told))
    assert [e["payload"]["status"] for e in told if e["type"] == "tool_end"] == ["abandoned"] * tools
    assert order_problems(log_of(told)) == []
    return told


async def ended(folder: Path, name: str) -> None:
    await eventually((folder / name).exists, within=60, what=f"there is no {name!r}")


@pytest.mark.requirement("trust.I11", "fault-22", "fault-23")
@pytest.mark.parametrize("text", ["cling", "block", "child", "stuck"])
async def test_a_tool_that_does_not_want_to_end_does_not_hold_up_a_stop(client: httpx2.AsyncClient, text: str) -> None:
    sid = await begin(client, "stubborn")
    await stopped_at_work(client, sid, text)
    assert (await whole_round(client, sid, "weather"))[-1]["payload"]["result"] == "It is sunny."


@pytest.mark.requirement("trust.I11", "fault-21")
@pytest.mark.parametrize("text", ["cling", "block"])
async def test_a_result_that_comes_after_the_stop_is_dropped(
    client: httpx2.AsyncClient, folder: Path, text: str
) -> None:
    sid = await begin(client, "stubborn")
    await send(client, sid, text)
    await ended(folder, f"{text} began")
    await stop(client, sid)
    told = await events(client, sid)
    (folder / "gate").touch()
    await ended(folder, f"{text} done")
    # The next round comes behind whatever the late result could have brought about.
    start = (await whole_round(client, sid, "weather"))[0]
    assert (start["position"], start["payload"]["round"]) == (len(told) + 1, 2)


@pytest.mark.requirement("fault-22")
async def test_what_runs_in_a_process_has_no_effect_after_the_stop(client: httpx2.AsyncClient, folder: Path) -> None:
    sid = await begin(client, "stubborn")
    await send(client, sid, "child")
    await ended(folder, "child began")
    await stop(client, sid)
    process = Path("/proc", (folder / "child began").read_text())
    await eventually(lambda: not process.exists(), within=60, what="the process goes on")
    (folder / "gate").touch()
    await whole_round(client, sid, "weather")
    assert not (folder / "child done").exists()


@pytest.mark.requirement("trust.I11", "fault-24")
async def test_a_sub_agent_that_is_stopped_in_mid_tool_asks_its_model_nothing_more(
    client: httpx2.AsyncClient, folder: Path
) -> None:
    sid = await begin(client, "stubborn")
    await send(client, sid, "delegate")
    await ended(folder, "block began")
    await stop(client, sid)
    (folder / "gate").touch()
    await ended(folder, "block done")
    await whole_round(client, sid, "weather")
    told = await events(client, sid)
    first = [e for e in told if e.get("run_id") == told[0]["run_id"]]
    assert [e["agent"] for e in first if e["type"] == "llm_start"] == ["clerk", "porter"]
    assert [e["payload"].get("kind", "tool") for e in first if e["type"] == "tool_start"] == ["agent", "tool"]
    assert order_problems(log_of(told)) == []


@pytest.mark.requirement("fault-28")
async def test_what_a_model_is_asked_after_a_stop_has_a_result_for_every_tool_call(
    client: httpx2.AsyncClient, folder: Path
) -> None:
    sid = await begin(client, "stubborn")
    await stopped_at_work(client, sid, "both", tools=2)
    again = await whole_round(client, sid, "weather")
    (asked,) = [e["payload"]["messages"] for e in again if e["type"] == "llm_start"]
    said = [(one["role"], one["content"]) for one in asked if one["role"] != "system"]
    assert [role for role, _ in said] == ["human", "ai", "tool", "tool", "human"]
    (calls,) = [one["tool_calls"] for one in asked if "tool_calls" in one]
    assert [text for role, text in said if role == "tool"] == [
        f"{call['name']} did not complete: the run was stopped." for call in calls
    ]


@pytest.mark.requirement("trust.I11", "fault-19")
async def test_a_stop_right_behind_its_message_wins(client: httpx2.AsyncClient) -> None:
    """Behind the request come only its end and a message that the model had finished before it."""
    for turns in range(6):
        await stop_behind_message(client, turns)


async def stop_behind_message(client: httpx2.AsyncClient, turns: int) -> None:
    sid = await begin(client, "stubborn")
    sending = asyncio.create_task(send(client, sid, "weather"))
    if turns:
        await sending
    for _ in range(turns - 1):
        await client.get("/healthz")
    answer = await stop(client, sid)
    await sending
    if answer["status"] == "idle":  # it came first, and there was nothing to stop
        answer = await stop(client, sid)
    told = await events(client, sid)
    assert order_problems(log_of(told)) == []
    types = [e["type"] for e in told]
    assert types[-1] == "run_end" and answer["position"] == len(told)
    if answer["status"] == "stopped":
        behind = told[types.index("stop_request") + 1 :]
        assert {e["type"] for e in behind} <= {"message", "llm_end", "run_end"}
        assert all(e["payload"]["status"] == "step" for e in behind if e["type"] == "message")
    assert (await whole_round(client, sid, "weather"))[-1]["payload"]["status"] == "completed"


@pytest.mark.requirement("trust.I14")
async def test_before_a_tool_does_anything_the_log_has_its_start(client: httpx2.AsyncClient) -> None:
    sid = await begin(client, "stubborn")
    assert (await whole_round(client, sid, "peek"))[-1]["payload"]["result"] == "1 in the log"
