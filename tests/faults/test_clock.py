"""A wall clock that jumps by an hour changes what is told about time, and nothing else."""

import time
from itertools import cycle
from pathlib import Path

import httpx2
import pytest
from langgraph.checkpoint.base import id as checkpoint_ids

from stellwerk.app import Parts
from stellwerk.ids import SystemClock
from stellwerk.settings import Settings
from stellwerk.testing.order import order_problems
from tests.api.reading import whole_round
from tests.conftest import running_server
from tests.faults.conftest import FaultServer
from tests.runs.talking import answer, begin, events, log_of, rest_of_run, send, stop

HOUR = 3600.0


class JumpingClock(SystemClock):
    """An hour ahead, right, an hour behind: another hour at each look."""

    def __init__(self) -> None:
        self._jumps = cycle((HOUR, 0.0, -HOUR))

    def now(self) -> float:
        return super().now() + next(self._jumps)


class BackwardClock(SystemClock):
    """Goes back an hour at each look."""

    def __init__(self) -> None:
        self._looks = 0

    def now(self) -> float:
        self._looks += 1
        return super().now() - self._looks * HOUR


@pytest.mark.requirement("trust.I21")
async def test_rounds_questions_and_stops_are_the_same_with_a_clock_that_jumps(
    faulty: FaultServer,
) -> None:
    parts = Parts(clock=JumpingClock())
    async with faulty.served(parts) as client:
        sid = await begin(client, "faulty")
        await whole_round(client, sid, "hello")
        await whole_round(client, sid, "aside")
        await rest_of_run(client, sid, (await answer(client, sid, text="left"))["after"])
        await send(client, sid, "hold")
        await faulty.has_noted("hold")
        await send(client, sid, "later", if_busy="enqueue")
        await stop(client, sid)
    async with faulty.served(parts) as client:
        await whole_round(client, sid, "once more")
        told = await events(client, sid)
        assert (await client.get(f"/sessions/{sid}/usage")).json()["seconds"] >= 0
    assert [e["position"] for e in told] == list(range(1, len(told) + 1))
    assert [e["payload"]["round"] for e in told if e["type"] == "run_start"] == [1, 2, 3, 4, 5]
    assert order_problems(log_of(told)) == []
    assert faulty.ledger() == ["note beside", "hold"]
    times = [e["ts"] for e in told]
    assert times != sorted(times), "the clock did not jump"


@pytest.mark.requirement("trust.I21")
async def test_runs_wait_in_the_order_in_which_they_came_though_the_clock_goes_back(
    faulty: FaultServer,
) -> None:
    async with faulty.served(Parts(clock=BackwardClock()), slots=1) as client:
        busy, *waiting = [await begin(client, "faulty") for _ in range(4)]
        await send(client, busy, "hold")
        for n, sid in enumerate(waiting):
            await send(client, sid, f"keep {n}")
        faulty.open_gate()
        for sid in waiting:
            await rest_of_run(client, sid)
    assert faulty.ledger() == ["hold", "note keep 0", "note keep 1", "note keep 2"]


@pytest.mark.requirement("trust.I21")
async def test_an_agent_remembers_the_last_round_though_the_clock_was_set_back_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    echo = Path(__file__).parents[1] / "runs" / "resumed_system" / "echo.py"
    settings, own = Settings(data=tmp_path / "data"), {"echo": f"{echo}:graph"}
    async with running_server(settings, own=own) as address, httpx2.AsyncClient(base_url=address, timeout=60) as client:
        sid = await begin(client, "echo")
        await whole_round(client, sid, "one")
    # A new process knows nothing of the ids that the one before it gave, and LangGraph makes them of the time.
    monkeypatch.setattr(checkpoint_ids, "_last_v6_timestamp", None)
    monkeypatch.setattr(checkpoint_ids, "time", _SetBack())
    async with running_server(settings, own=own) as address, httpx2.AsyncClient(base_url=address, timeout=60) as client:
        await whole_round(client, sid, "two")
        last = await whole_round(client, sid, "three")
    assert last[-1]["payload"]["result"] == "I heard one, two, three."


class _SetBack:
    """The time of an hour ago."""

    def time_ns(self) -> int:
        return time.time_ns() - int(HOUR * 10**9)
