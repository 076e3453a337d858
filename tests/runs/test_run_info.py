"""Runs are found by their ids: waiting, running, asking and ended, with where they begin and end."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from stellwerk.envelope.model import RunEnd, RunStart
from stellwerk.errors import NotFound
from stellwerk.tenants.principals import LOCAL_TENANT
from tests.runs.in_process import Gates, InProcessServer, refusal


@pytest.fixture
async def backend(tmp_path: Path) -> AsyncIterator[InProcessServer]:
    made = InProcessServer(tmp_path)
    await made.up()
    yield made
    await made.down()


async def test_a_run_is_found_from_its_queue_to_its_end(backend: InProcessServer, gates: Gates) -> None:
    sessions, sid = backend.sessions, await backend.begin()
    first = await sessions.send(LOCAL_TENANT, sid, "work", message_id="m")
    await gates.reached("work", 1)
    queued = [await sessions.send(LOCAL_TENANT, sid, text, if_busy="enqueue") for text in ("ask", "hello")]
    running = await sessions.run(LOCAL_TENANT, sid, first.run_id)
    assert (running.status, running.message_id, running.after) == ("running", "m", first.after)
    assert (running.end, running.is_enqueued) == (None, False)
    found = await sessions.runs(LOCAL_TENANT, sid)
    assert [each.run_id for each in found] == [queued[1].queued_run_id, queued[0].queued_run_id, first.run_id]
    assert [each.status for each in found] == ["waiting", "waiting", "running"]
    assert found[0] == await sessions.run(LOCAL_TENANT, sid, str(queued[1].queued_run_id))
    assert (found[0].is_enqueued, found[0].position) == (True, queued[1].position)
    for offset in range(4):
        assert await sessions.runs(LOCAL_TENANT, sid, limit=2, offset=offset) == found[offset : offset + 2]

    gates.open("work")
    await backend.settled(sid, {"awaiting_user_input": True})
    asking = await sessions.run(LOCAL_TENANT, sid, str(queued[0].queued_run_id))
    assert (asking.status, asking.is_enqueued) == ("awaiting_user", False)
    withdrawn = await sessions.withdraw(LOCAL_TENANT, sid, run_id=str(queued[1].queued_run_id))
    assert (withdrawn.message_id, withdrawn.text) == (queued[1].message_id, "hello")
    assert await refusal(sessions.run(LOCAL_TENANT, sid, str(queued[1].queued_run_id))) == "unknown_run"
    assert await refusal(sessions.withdraw(LOCAL_TENANT, sid, run_id=first.run_id)) == "not_waiting"
    answer = await sessions.send(LOCAL_TENANT, sid, "left")
    await backend.settled(sid, {"status": "completed"})
    answered = await sessions.run(LOCAL_TENANT, sid, answer.run_id)
    assert (answered.trace_id, answered.trigger, answered.message_id) == (asking.run_id, "answer", None)

    log = await backend.log(sid)
    starts = {e.run_id: at for at, e in enumerate(log, 1) if isinstance(e, RunStart)}
    ends = {e.run_id: (at, e.ts, e.payload.result) for at, e in enumerate(log, 1) if isinstance(e, RunEnd)}
    over = await sessions.runs(LOCAL_TENANT, sid)
    assert {each.run_id: each.position for each in over} == starts
    assert {each.run_id: (each.end, each.ended_at, each.result) for each in over} == ends


async def test_a_stopped_and_a_failed_run_say_so(backend: InProcessServer, gates: Gates) -> None:
    sessions, sid = backend.sessions, await backend.begin()
    await sessions.send(LOCAL_TENANT, sid, "work")
    await gates.reached("work", 1)
    await sessions.stop(LOCAL_TENANT, sid)
    await sessions.send(LOCAL_TENANT, sid, "fail")
    await backend.settled(sid, {"status": "failed"})
    failed, stopped = await sessions.runs(LOCAL_TENANT, sid)
    assert (failed.status, stopped.status) == ("failed", "stopped")
    assert failed.reason is not None


async def test_runs_of_other_tenants_and_sessions_are_not_found(backend: InProcessServer) -> None:
    sessions, sid, other = backend.sessions, await backend.begin(), await backend.begin()
    run = (await sessions.send(LOCAL_TENANT, sid, "hello")).run_id
    with pytest.raises(NotFound, match="no run"):
        await sessions.run(LOCAL_TENANT, other, run)
    with pytest.raises(NotFound, match="no session"):
        await sessions.run("foreign", sid, run)
    with pytest.raises(NotFound, match="no session"):
        await sessions.runs("foreign", sid)
    with pytest.raises(NotFound, match="no session"):
        await sessions.withdraw("foreign", sid, run_id=run)
