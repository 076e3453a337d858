"""Delayed runs: accepted now, started after their time, once, whatever happens to the server meanwhile."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from stellwerk.app import Parts
from stellwerk.envelope.model import RunStart
from stellwerk.errors import Conflict, NotFound
from stellwerk.runs.commands import JobOptions
from stellwerk.settings import Settings
from stellwerk.tenants.principals import LOCAL_TENANT
from stellwerk.timings import Timings
from tests.conftest import own_server, without_pauses
from tests.runs.in_process import Gates, InProcessServer
from tests.runs.talking import begin, rest_of_run, send, stop
from tests.samples import SetClock

HOUR = 3600.0
OFTEN = Timings(jobs=0.02)


@pytest.fixture
async def backend(tmp_path: Path) -> AsyncIterator[InProcessServer]:
    made = InProcessServer(tmp_path, OFTEN)
    await made.up()
    yield made
    await made.down()


async def delayed(backend: InProcessServer, text: str, **more: Any) -> str:
    """A session whose run starts in an hour."""
    sid = await backend.begin()
    later = JobOptions(start_at=backend.clock.now() + HOUR)
    accepted = await backend.sessions.send(LOCAL_TENANT, sid, text, run=later, **more)
    assert accepted.start_at == later.start_at
    return sid


async def others_run(backend: InProcessServer) -> None:
    """A run that is not delayed has started and ended: the queue was looked at."""
    sid = await backend.begin()
    await backend.sessions.send(LOCAL_TENANT, sid, "quick")
    await backend.settled(sid, {"status": "completed"})


async def test_a_delayed_run_starts_after_its_time_and_others_do_not_wait_for_it(
    backend: InProcessServer, gates: Gates
) -> None:
    sid = await delayed(backend, "work")
    await others_run(backend)
    assert gates.passed["work"] == 0
    shown = await backend.sessions.find(LOCAL_TENANT, sid)
    assert (shown.status, shown.round) == ("running", 1)
    (listed,) = await backend.sessions.delayed(LOCAL_TENANT, limit=10)
    assert (listed.session_id, listed.start_at) == (sid, shown.start_at)
    (start,) = [e for e in await backend.log(sid) if isinstance(e, RunStart)]
    assert start.payload.start_at == shown.start_at
    backend.clock.set_by = HOUR + 1
    await gates.reached("work", 1)
    assert await backend.sessions.delayed(LOCAL_TENANT, limit=10) == []
    gates.open("work")
    await backend.settled(sid, {"status": "completed"})


@pytest.mark.parametrize("passes", ["before the crash", "while it is down", "after the next start"])
async def test_a_crash_before_or_after_its_time_starts_it_once(
    backend: InProcessServer, gates: Gates, passes: str
) -> None:
    sid = await delayed(backend, "work")
    if passes == "before the crash":
        backend.clock.set_by = HOUR + 1
        await gates.reached("work", 1)
    await backend.crash()
    if passes == "while it is down":
        backend.clock.set_by = HOUR + 1
    await backend.up()
    if passes == "after the next start":
        await others_run(backend)
        assert gates.passed["work"] == 0
        backend.clock.set_by = HOUR + 1
    await gates.reached("work", 2 if passes == "before the crash" else 1)
    gates.open("work")
    await backend.settled(sid, {"status": "completed", "round": 1})
    assert len([e for e in await backend.log(sid) if isinstance(e, RunStart)]) == 1


async def test_a_stop_withdraws_a_delayed_run_visibly(backend: InProcessServer, gates: Gates) -> None:
    sid = await delayed(backend, "work")
    stopped = await backend.sessions.stop(LOCAL_TENANT, sid)
    assert stopped.status == "stopped"
    backend.clock.set_by = HOUR + 1
    await others_run(backend)
    assert gates.passed["work"] == 0
    assert (await backend.settled(sid, {"status": "stopped"})).round == 1
    await backend.sessions.send(LOCAL_TENANT, sid, "quick")
    await backend.settled(sid, {"status": "completed", "round": 2})


async def test_a_deleted_session_takes_its_delayed_run_with_it(backend: InProcessServer, gates: Gates) -> None:
    sid = await delayed(backend, "work")
    await backend.sessions.delete(LOCAL_TENANT, sid)
    backend.clock.set_by = HOUR + 1
    await others_run(backend)
    assert gates.passed["work"] == 0
    with pytest.raises(NotFound):
        await backend.sessions.find(LOCAL_TENANT, sid)


async def test_the_session_is_busy_until_then_and_a_message_can_wait_behind(
    backend: InProcessServer, gates: Gates
) -> None:
    sid = await delayed(backend, "work")
    with pytest.raises(Conflict) as refused:
        await backend.sessions.send(LOCAL_TENANT, sid, "quick")
    assert refused.value.code == "session_busy"
    await backend.sessions.send(LOCAL_TENANT, sid, "quick", if_busy="enqueue")
    backend.clock.set_by = HOUR + 1
    await gates.reached("work", 1)
    gates.open("work")
    await backend.settled(sid, {"status": "completed", "round": 2})


async def test_an_enqueued_message_waits_for_its_turn_and_for_its_time(backend: InProcessServer, gates: Gates) -> None:
    sid = await backend.begin()
    await backend.sessions.send(LOCAL_TENANT, sid, "work first")
    await gates.reached("work first", 1)
    later = JobOptions(start_at=backend.clock.now() + HOUR)
    enqueued = await backend.sessions.send(LOCAL_TENANT, sid, "work then", if_busy="enqueue", run=later)
    assert (enqueued.status, enqueued.start_at) == ("enqueued", later.start_at)
    gates.open("work first")
    await backend.settled(sid, {"status": "running", "round": 2})
    await others_run(backend)
    assert gates.passed["work then"] == 0
    await backend.crash()
    backend.clock.set_by = HOUR + 1
    await backend.up()
    await gates.reached("work then", 1)
    gates.open("work then")
    await backend.settled(sid, {"status": "completed", "round": 2})


async def test_a_delayed_message_is_no_answer_to_an_open_question(backend: InProcessServer) -> None:
    sid = await backend.begin()
    await backend.sessions.send(LOCAL_TENANT, sid, "ask")
    await backend.settled(sid, {"awaiting_user_input": True})
    with pytest.raises(Conflict) as refused:
        await backend.sessions.send(LOCAL_TENANT, sid, "left", run=JobOptions(start_at=backend.clock.now() + HOUR))
    assert refused.value.code == "question_open"


@pytest.fixture
def clock() -> SetClock:
    return SetClock()


@pytest.fixture
async def client(tmp_path: Path, clock: SetClock) -> AsyncIterator[httpx2.AsyncClient]:
    parts = Parts(clock=clock, timings=OFTEN, demo_systems=without_pauses)
    async with own_server(Settings(data=tmp_path / "data"), parts=parts) as made:
        yield made


async def test_over_http_it_is_accepted_listed_counted_and_started(client: httpx2.AsyncClient, clock: SetClock) -> None:
    sid = await begin(client)
    before = clock.now()
    accepted = await send(client, sid, "weather", after_seconds=HOUR)
    assert accepted["status"] == "accepted"
    assert before + HOUR <= accepted["start_at"] <= clock.now() + HOUR
    for shown in ((await client.get(f"/sessions/{sid}")).json(), (await client.get("/sessions")).json()["sessions"][0]):
        assert (shown["status"], shown["start_at"]) == ("running", accepted["start_at"])
    (listed,) = (await client.get("/delayed-runs")).json()["runs"]
    assert (listed["run_id"], listed["agent_system_id"]) == (accepted["run_id"], "demo")
    metrics = (await client.get("/metrics")).text
    assert 'stellwerk_runs{state="delayed"} 1' in metrics
    assert 'stellwerk_runs{state="waiting"} 0' in metrics
    assert "stellwerk_oldest_open_run_seconds 0" in metrics
    clock.set_by = HOUR + 1
    told = await rest_of_run(client, sid)
    assert told[-1]["payload"]["status"] == "completed"
    assert "start_at" not in (await client.get(f"/sessions/{sid}")).json()


async def test_a_time_that_has_passed_starts_the_run_at_once(client: httpx2.AsyncClient, clock: SetClock) -> None:
    sid = await begin(client)
    await send(client, sid, "weather", start_at=clock.now() - 5)
    assert (await rest_of_run(client, sid))[-1]["payload"]["status"] == "completed"


async def test_the_same_request_with_the_same_key_is_accepted_once(client: httpx2.AsyncClient) -> None:
    sid = await begin(client)
    body = {"text": "weather", "after_seconds": 60}
    one, two = [
        await client.post(f"/sessions/{sid}/messages", json=body, headers={"Idempotency-Key": "k"}) for _ in range(2)
    ]
    assert (one.status_code, one.json()) == (two.status_code, two.json())
    await stop(client, sid)


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"after_seconds": 5, "start_at": 5}, "after_seconds"),
        ({"after_seconds": -1}, "after_seconds"),
        ({"start_at": 1e12}, "start_at"),
        ({"after_seconds": "soon"}, "after_seconds"),
    ],
)
async def test_a_time_that_makes_no_sense_is_refused_and_changes_nothing(
    client: httpx2.AsyncClient, given: dict[str, Any], field: str
) -> None:
    sid = await begin(client)
    refused = await client.post(f"/sessions/{sid}/messages", json={"text": "weather", **given})
    assert (refused.status_code, refused.json()["field"]) == (422, field), refused.text
    assert (await client.get(f"/sessions/{sid}")).json()["status"] == "idle"
