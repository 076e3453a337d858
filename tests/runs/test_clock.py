"""The system's clock is set while a run is under way: what the run is said to have taken is what has passed."""

import asyncio

import pytest

from stellwerk.envelope.model import RunEnd, ToolEnd
from stellwerk.tenants.principals import LOCAL_TENANT
from stellwerk.views import usage
from stellwerk.views.usage import UsageTotals
from tests.runs.in_process import Gates, InProcessServer

HOUR = 3600.0


async def at_work(backend: InProcessServer, gates: Gates) -> str:
    sid = await backend.begin()
    await backend.sessions.send(LOCAL_TENANT, sid, "work")
    await gates.reached("work", 1)
    return sid


async def seconds_of(backend: InProcessServer, sid: str) -> dict[str, float]:
    """All that is said of how long something took."""
    folded, log = UsageTotals(), await backend.log(sid)
    for envelope in log:
        folded = usage.fold(folded, envelope)
    rows = await backend.services.quotas.usage_page(LOCAL_TENANT, days=3, after=0, limit=500)
    spent = await backend.services.database.read(lambda tx: tx.row("used_in_session", sid, LOCAL_TENANT))
    assert spent is not None
    tools = [e.payload.duration for e in log if isinstance(e, ToolEnd) and e.payload.duration is not None]
    return {
        "the log": folded.seconds,
        "the bill": sum(row.seconds for row in rows),
        "the session": spent[2],
        "the tenant today": (await backend.services.quotas.used(LOCAL_TENANT)).seconds,
        **{f"tool {number}": seconds for number, seconds in enumerate(tools)},
    }


@pytest.mark.parametrize("set_by", [2 * HOUR, -HOUR])
@pytest.mark.parametrize("how", ["completed", "stopped"])
async def test_a_run_took_as_long_as_it_took_though_the_clock_was_set(
    backend: InProcessServer, gates: Gates, set_by: float, how: str
) -> None:
    began = backend.clock.steady()
    sid = await at_work(backend, gates)
    await asyncio.sleep(0.05)
    backend.clock.set_by = set_by
    if how == "completed":
        gates.open("work")
    else:
        await backend.sessions.stop(LOCAL_TENANT, sid)
    await backend.settled(sid, {"status": how})
    took = backend.clock.steady() - began
    found = await seconds_of(backend, sid)
    assert {what: seconds for what, seconds in found.items() if not 0.05 <= seconds <= took} == {}


async def test_what_a_run_says_of_the_time_goes_on_and_the_next_run_tells_the_new_time(
    backend: InProcessServer, gates: Gates
) -> None:
    sid = await at_work(backend, gates)
    backend.clock.set_by = -HOUR
    gates.open("work")
    await backend.settled(sid, {"status": "completed"})
    first = [envelope.ts for envelope in await backend.log(sid)]
    assert max(first) - min(first) < HOUR / 2
    await backend.sessions.send(LOCAL_TENANT, sid, "hello")
    await backend.settled(sid, {"round": 2, "status": "completed"})
    (end,) = [envelope for envelope in (await backend.log(sid))[len(first) :] if isinstance(envelope, RunEnd)]
    assert 0 <= backend.clock.now() - end.ts < HOUR / 2
    assert end.ts < min(first)
