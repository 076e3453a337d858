"""Crons: one run per tick, whatever happens to the server; what came of a tick can be read."""

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import httpx2
import pytest

from stellwerk.app import Parts
from stellwerk.envelope.model import RunStart
from stellwerk.errors import InvalidField
from stellwerk.runs.jobs.crons import Cron, CronMessage, CronSpec, next_tick
from stellwerk.runs.sessions import Session
from stellwerk.settings import Settings
from stellwerk.tenants.principals import LOCAL_TENANT
from stellwerk.timings import Timings
from tests import stores
from tests.api.tenants import Shared, shared_server
from tests.conftest import own_server, without_pauses
from tests.crash.waiting import eventually
from tests.runs.in_process import InProcessServer
from tests.runs.talking import begin
from tests.samples import SetClock

HOUR = 3600.0
HOURLY = "0 * * * *"


def spec(**more: Any) -> CronSpec:
    wanted: dict[str, Any] = {"schedule": HOURLY, "agent_system_id": "backend", "message": CronMessage(text="quick")}
    return CronSpec(**wanted | more)


@pytest.fixture
async def backend(tmp_path: Path) -> AsyncIterator[InProcessServer]:
    """Its own loop looks seldom: the tests say when ticks are looked for."""
    made = InProcessServer(tmp_path, Timings(jobs=3600))
    await made.up()
    yield made
    await made.down()


async def cron_of(backend: InProcessServer, cron_id: str) -> Cron:
    return await backend.services.crons.find(LOCAL_TENANT, cron_id)


async def begun(backend: InProcessServer) -> list[Session]:
    return await backend.sessions.list(LOCAL_TENANT, before=None, limit=500)


async def fire(backend: InProcessServer, *, at_once: int = 1) -> None:
    await asyncio.gather(*(backend.services.crons.fire_due() for _ in range(at_once)))


def pass_to(backend: InProcessServer, tick: float | None, seconds: float = 1.0) -> None:
    """Set the clock to some seconds behind a tick."""
    assert tick is not None
    backend.clock.set_by += tick + seconds - backend.clock.now()


async def test_each_tick_starts_one_run_in_a_session_of_its_own(backend: InProcessServer) -> None:
    cron = await backend.services.crons.create(LOCAL_TENANT, spec())
    await fire(backend)
    assert await begun(backend) == []
    for number in (1, 2, 3):
        pass_to(backend, (await cron_of(backend, cron.id)).next_tick)
        await fire(backend, at_once=3)
        shown = await cron_of(backend, cron.id)
        assert shown.last is not None and shown.last.session_id is not None
        assert len(await begun(backend)) == number
        done = await backend.settled(shown.last.session_id, {"status": "completed", "round": 1})
        assert done.title is None and done.agent_system_id == "backend"
        assert shown.next_tick == shown.last.tick + HOUR


async def test_a_cron_that_cannot_be_read_holds_up_no_other(backend: InProcessServer) -> None:
    """As after an update of the machine that takes away its time zone."""
    broken, whole = [await backend.services.crons.create(LOCAL_TENANT, spec()) for _ in range(2)]
    with stores.beside(backend._data) as stored:
        spec_of_it = json.loads(stored.value("SELECT spec FROM cron WHERE id = ?", broken.id))
        elsewhere = json.dumps({**spec_of_it, "timezone": "No/Where"}).encode()
        assert stored.change("UPDATE cron SET spec = ? WHERE id = ?", elsewhere, broken.id) == 1
    pass_to(backend, whole.next_tick)
    with pytest.raises(ZoneInfoNotFoundError):
        await fire(backend)
    (session,) = await begun(backend)
    shown = await cron_of(backend, whole.id)
    assert shown.last is not None and shown.last.session_id == session.id


async def forget_last_tick(backend: InProcessServer, before: Cron) -> None:
    """As a crash leaves it that comes between the start of a run and the note that its tick is over."""
    with stores.beside(backend._data) as stored:
        stored.change("UPDATE cron SET next_at = ?, last = NULL WHERE id = ?", before.next_tick, before.id)


@pytest.mark.parametrize("is_own", [True, False], ids=["session of a tick", "session that stays"])
async def test_a_crash_before_the_tick_is_noted_starts_no_second_run(backend: InProcessServer, is_own: bool) -> None:
    target = {} if is_own else {"session_id": await backend.begin(), "agent_system_id": None}
    cron = await backend.services.crons.create(LOCAL_TENANT, spec(**target))
    pass_to(backend, cron.next_tick)
    await fire(backend)
    await forget_last_tick(backend, cron)
    await backend.crash()
    await backend.up()
    await fire(backend)
    shown = await cron_of(backend, cron.id)
    assert shown.last is not None and shown.last.session_id is not None
    assert shown.last.error is None
    (session,) = await begun(backend)
    await backend.settled(session.id, {"status": "completed", "round": 1})
    starts = [e for e in await backend.log(session.id) if isinstance(e, RunStart)]
    assert [start.run_id for start in starts] == [shown.last.run_id]


async def test_a_crash_after_the_session_was_made_starts_the_run_in_it(backend: InProcessServer) -> None:
    cron = await backend.services.crons.create(LOCAL_TENANT, spec())
    pass_to(backend, cron.next_tick)
    await fire(backend)
    (made,) = await begun(backend)
    await backend.crash()
    await backend.up()
    pass_to(backend, (await cron_of(backend, cron.id)).next_tick)
    await fire(backend)
    assert len(await begun(backend)) == 2
    assert made.id in {session.id for session in await begun(backend)}


async def test_of_ticks_that_were_missed_one_is_made_up_for(backend: InProcessServer) -> None:
    cron = await backend.services.crons.create(LOCAL_TENANT, spec())
    await backend.crash()
    pass_to(backend, cron.next_tick, 5 * HOUR + 60)
    await backend.up()
    await eventually(lambda: _has_begun(backend, 1), within=60, what="the missed tick was not made up for")
    await fire(backend)
    assert len(await begun(backend)) == 1
    shown = await cron_of(backend, cron.id)
    assert shown.last is not None and cron.next_tick is not None
    assert (shown.last.tick, shown.next_tick) == (cron.next_tick + 5 * HOUR, cron.next_tick + 6 * HOUR)


async def _has_begun(backend: InProcessServer, count: int) -> bool:
    return len(await begun(backend)) >= count


async def test_a_cron_of_a_session_sends_to_it_and_goes_with_it(backend: InProcessServer) -> None:
    sid = await backend.begin()
    cron = await backend.services.crons.create(LOCAL_TENANT, spec(session_id=sid, agent_system_id=None))
    for round_ in (1, 2):
        pass_to(backend, (await cron_of(backend, cron.id)).next_tick)
        await fire(backend)
        await backend.settled(sid, {"status": "completed", "round": round_})
    await backend.sessions.delete(LOCAL_TENANT, sid)
    assert await backend.services.crons.list(LOCAL_TENANT, after="", limit=10) == []


async def test_a_tick_that_starts_nothing_says_why_and_the_next_one_is_tried(backend: InProcessServer) -> None:
    sid = await backend.begin()
    asking = CronMessage(text="ask", if_busy="reject")
    cron = await backend.services.crons.create(LOCAL_TENANT, spec(session_id=sid, agent_system_id=None, message=asking))
    pass_to(backend, cron.next_tick)
    await fire(backend)
    await backend.settled(sid, {"awaiting_user_input": True})
    no_answer = CronMessage(text="x", config={"recursion_limit": 50}, if_busy="reject")
    await backend.services.crons.change(
        LOCAL_TENANT, cron.id, spec(session_id=sid, agent_system_id=None, message=no_answer)
    )
    pass_to(backend, (await cron_of(backend, cron.id)).next_tick)
    await fire(backend)
    shown = await cron_of(backend, cron.id)
    assert shown.last is not None and shown.last.error is not None and shown.next_tick is not None
    assert shown.last.error.startswith("question_open: ")
    assert shown.next_tick == shown.last.tick + HOUR


async def test_a_cron_that_is_not_enabled_starts_nothing(backend: InProcessServer) -> None:
    cron = await backend.services.crons.create(LOCAL_TENANT, spec(enabled=False))
    assert cron.next_tick is None
    backend.clock.set_by += 5 * HOUR
    await fire(backend)
    assert await begun(backend) == []


@pytest.mark.parametrize(
    ("schedule", "zone", "after", "ticks"),
    [
        ("30 2 * * *", "Europe/Berlin", "2027-03-27T12:00", ["2027-03-28T03:00+02:00", "2027-03-29T02:30+02:00"]),
        ("30 2 * * *", "Europe/Berlin", "2026-10-24T12:00", ["2026-10-25T02:30+02:00", "2026-10-26T02:30+01:00"]),
        ("0 * * * *", "Europe/Berlin", "2026-10-25T01:30", ["2026-10-25T02:00+02:00", "2026-10-25T02:00+01:00"]),
        ("0 7 * * mon-fri", "America/New_York", "2026-11-20T12:00", ["2026-11-23T07:00-05:00"]),
        ("0 0 29 2 *", "UTC", "2026-11-20T12:00", ["2028-02-29T00:00+00:00"]),
        ("*/15 8-9 1,15 * *", "Asia/Kolkata", "2026-11-15T09:40", ["2026-11-15T09:45+05:30", "2026-12-01T08:00+05:30"]),
    ],
)
def test_ticks_follow_the_clock_on_the_wall(schedule: str, zone: str, after: str, ticks: list[str]) -> None:
    cron = spec(schedule=schedule, timezone=zone)
    at = datetime.fromisoformat(after).replace(tzinfo=ZoneInfo(zone)).timestamp()
    for expected in ticks:
        at = next_tick(cron, at)
        assert datetime.fromtimestamp(at, ZoneInfo(zone)).isoformat(timespec="minutes") == expected


@pytest.mark.parametrize(
    "schedule", ["daily", "@daily", "* * * *", "0 0 0 * * *", "99 * * * *", "R * * * *", "H * * * *", "0 0 30 2 *", ""]
)
def test_a_schedule_that_is_none_is_refused(schedule: str) -> None:
    with pytest.raises(InvalidField, match="schedule"):
        next_tick(spec(schedule=schedule), 0.0)


def test_an_unknown_time_zone_is_refused() -> None:
    with pytest.raises(InvalidField, match="timezone"):
        next_tick(spec(timezone="Mars/Olympus"), 0.0)


BODY = {"schedule": "0 7 * * *", "timezone": "Europe/Berlin", "agent_system_id": "demo", "message": {"text": "weather"}}


@pytest.fixture
def clock() -> SetClock:
    return SetClock()


@pytest.fixture
async def client(tmp_path: Path, clock: SetClock) -> AsyncIterator[httpx2.AsyncClient]:
    parts = Parts(clock=clock, timings=Timings(jobs=0.02), demo_systems=without_pauses)
    async with own_server(Settings(data=tmp_path / "data"), parts=parts) as made:
        yield made


async def test_over_http_a_cron_is_made_listed_changed_fired_and_deleted(
    client: httpx2.AsyncClient, clock: SetClock
) -> None:
    made = await client.post("/crons", json=BODY)
    assert made.status_code == 201, made.text
    cron = made.json()
    assert made.headers["location"] == f"/crons/{cron['id']}"
    assert (cron["enabled"], cron["last"], cron["message"]) == (True, None, {"text": "weather"})
    assert (await client.get("/crons")).json() == {"crons": [cron], "next": None}
    changed = await client.put(f"/crons/{cron['id']}", json={**BODY, "schedule": "0 8 * * *"})
    assert changed.json()["next_tick"] != cron["next_tick"]
    clock.set_by = changed.json()["next_tick"] + 1 - clock.now()

    async def is_fired() -> bool:
        return (await client.get(f"/crons/{cron['id']}")).json()["last"] is not None

    await eventually(is_fired, within=60, what="the cron did not fire")
    last = (await client.get(f"/crons/{cron['id']}")).json()["last"]
    assert (last["tick"], last["error"]) == (changed.json()["next_tick"], None)
    told = await client.get(f"/sessions/{last['session_id']}/stream", params={"until": "run_end"})
    assert '"status":"completed"' in told.text
    assert 'stellwerk_cron_ticks_total{outcome="started"} 1' in (await client.get("/metrics")).text
    assert (await client.delete(f"/crons/{cron['id']}")).status_code == 204
    assert (await client.get(f"/crons/{cron['id']}")).json()["code"] == "unknown_cron"
    entries = (await client.get("/audit")).json()["entries"]
    found = [(entry["what"], entry["outcome"]) for entry in entries if "cron" in entry["what"]]
    assert found == [("POST /crons", 201), ("PUT /crons/{cron_id}", 200), ("DELETE /crons/{cron_id}", 204)]
    (tick,) = [entry for entry in entries if entry["who"] == f"cron {cron['id']}"]
    assert tick["on"] == {"sid": last["session_id"], "cron_id": cron["id"]}


async def test_a_session_of_a_tick_can_be_deleted_after_its_run(client: httpx2.AsyncClient, clock: SetClock) -> None:
    made = (await client.post("/crons", json={**BODY, "on_completion": "delete"})).json()
    clock.set_by = made["next_tick"] + 1 - clock.now()

    async def has_completed() -> bool:
        shown = (await client.get("/sessions")).json()["sessions"]
        return [session["status"] for session in shown] == ["completed"]

    async def is_deleted() -> bool:
        return bool((await client.get("/sessions")).json()["sessions"] == [])

    await eventually(has_completed, within=60, what="no tick has completed")
    clock.set_by += 120
    await eventually(is_deleted, within=60, what="the session stays")


@pytest.mark.parametrize(
    ("change", "status", "problem"),
    [
        ({"schedule": "daily"}, 422, "schedule"),
        ({"timezone": "Mars/Olympus"}, 422, "timezone"),
        ({"agent_system_id": None}, 422, "agent_system_id"),
        ({"session_id": "x"}, 422, "agent_system_id"),
        ({"message": {"text": ""}}, 422, "text"),
        ({"message": {"text": "x", "after_seconds": 5}}, 422, "message.start_at"),
        ({"agent_system_id": None, "session_id": "x", "on_completion": "delete"}, 422, "on_completion"),
        ({"agent_system_id": "unheard-of"}, 404, "unknown_agent_system"),
        ({"agent_system_id": None, "session_id": "0000000000000000000000"}, 404, "unknown_session"),
        ({"message": {"text": "x", "webhook": "https://example.com"}}, 409, "missing_secret"),
    ],
)
async def test_a_cron_that_could_not_work_is_refused(
    client: httpx2.AsyncClient, change: dict[str, Any], status: int, problem: str
) -> None:
    refused = await client.post("/crons", json={**BODY, **change})
    assert refused.status_code == status, refused.text
    assert problem in (refused.json().get("field"), refused.json()["code"])
    assert (await client.get("/crons")).json()["crons"] == []


async def test_a_tenant_has_a_hundred_crons_at_most(client: httpx2.AsyncClient) -> None:
    for _ in range(100):
        assert (await client.post("/crons", json={**BODY, "enabled": False})).status_code == 201
    refused = await client.post("/crons", json=BODY)
    assert (refused.status_code, refused.json()["code"]) == (409, "too_many_crons")
    page = (await client.get("/crons", params={"limit": 60})).json()
    rest = (await client.get("/crons", params={"limit": 60, "after": page["next"]})).json()
    assert (len(page["crons"]), len(rest["crons"]), rest["next"]) == (60, 40, None)


async def test_a_reader_lists_crons_and_makes_none_and_no_tenant_sees_another(tmp_path: Path) -> None:
    async with shared_server(tmp_path / "data") as shared:
        cron = (await shared.acme.post("/crons", json=BODY)).json()
        assert (await shared.other.get("/crons")).json()["crons"] == []
        assert (await shared.other.delete(f"/crons/{cron['id']}")).status_code == 404
        foreign = (await begin_of(shared))["id"]
        stolen = await shared.other.post("/crons", json={**BODY, "agent_system_id": None, "session_id": foreign})
        assert stolen.json()["code"] == "unknown_session"
        async with shared.client("acme", role="reader") as reader:
            assert (await reader.get("/crons")).json()["crons"][0]["id"] == cron["id"]
            for method, path in (("POST", "/crons"), ("PUT", f"/crons/{cron['id']}")):
                assert (await reader.request(method, path, json=BODY)).status_code == 403
            assert (await reader.delete(f"/crons/{cron['id']}")).status_code == 403
        async with shared.client("acme", role="member", user="ada") as ada:
            for other in ("bob", "ada"):
                made = await ada.post("/crons", json={**BODY, "user_id": other})
                assert made.status_code == (201 if other == "ada" else 403)


async def begin_of(shared: Shared) -> dict[str, Any]:
    return dict((await shared.acme.post("/sessions", json={"agent_system_id": "demo"})).json())


async def test_a_session_of_the_client_gets_its_messages(client: httpx2.AsyncClient, clock: SetClock) -> None:
    sid = await begin(client)
    body = {**BODY, "agent_system_id": None, "session_id": sid}
    made = (await client.post("/crons", json=body)).json()
    clock.set_by = made["next_tick"] + 1 - clock.now()

    async def has_spoken() -> bool:
        return bool((await client.get(f"/sessions/{sid}")).json()["status"] == "completed")

    await eventually(has_spoken, within=60, what="no message came")
