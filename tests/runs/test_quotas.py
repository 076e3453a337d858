"""Limits of a tenant while its agents are at work, and what is known of their use afterwards."""

import asyncio
from functools import reduce

import pytest

from stellwerk.envelope.model import LlmEnd, RunEnd, encode
from stellwerk.errors import LimitReached, Overloaded, StellwerkError
from stellwerk.runs.commands import Input
from stellwerk.tenants.limits import Limits
from stellwerk.tenants.principals import LOCAL_TENANT
from stellwerk.tenants.usage import UsageRow
from stellwerk.views import usage
from stellwerk.views.usage import Usage
from tests.runs.floor import Floor, Gates

HELLO = Input(text="hello")


async def run(floor: Floor, sid: str) -> RunEnd:
    """Send a message, and wait for the end of its run."""
    accepted = await floor.sessions.send(LOCAL_TENANT, sid, HELLO)
    await floor.settled(sid, {"round": accepted.round, "is_over": True})
    return [each for each in await floor.log(sid) if isinstance(each, RunEnd)][-1]


async def used(floor: Floor) -> list[UsageRow]:
    return await floor.services.usage.page(LOCAL_TENANT, days=2, after=0, limit=500)


async def told(floor: Floor, *sids: str) -> tuple[int, int, int, int]:
    """Model calls, tokens, tool calls and runs, as the logs tell them."""
    found = [reduce(usage.fold, await floor.log(sid), Usage()) for sid in sids]
    tokens = sum(m.input_tokens + m.output_tokens for each in found for m in each.models.values())
    calls, tools = sum(each.model_calls for each in found), sum(each.tool_calls for each in found)
    return calls, tokens, tools, sum(each.runs for each in found)


def counted(rows: list[UsageRow]) -> tuple[int, int, int, int]:
    tokens = sum(row.input_tokens + row.output_tokens for row in rows)
    return sum(row.model_calls for row in rows), tokens, sum(r.tool_calls for r in rows), sum(r.runs for r in rows)


@pytest.mark.requirement("004.security.quotas")
async def test_parallel_runs_use_no_more_than_the_limit_and_what_each_had_begun(floor: Floor) -> None:
    limit, clients = 400, 10
    await floor.services.quotas.limit(LOCAL_TENANT, Limits(tokens=limit))
    sids = [await floor.begin() for _ in range(clients)]

    async def talk(sid: str) -> RunEnd:
        end = await run(floor, sid)
        while end.payload.status == "completed":
            try:
                end = await run(floor, sid)
            except LimitReached:
                break
        return end

    async with asyncio.timeout(60):
        ends = await asyncio.gather(*map(talk, sids))
    failed = [end.payload for end in ends if end.payload.status == "failed"]
    assert {end.code for end in failed} <= {"quota_exceeded"}
    calls = [each.payload.usage for sid in sids for each in await floor.log(sid) if isinstance(each, LlmEnd)]
    sizes = [spent.input_tokens + spent.output_tokens for spent in calls if spent is not None]
    assert limit <= sum(sizes) < limit + clients * max(sizes)
    assert counted(await used(floor)) == await told(floor, *sids)


@pytest.mark.requirement("004.security.quotas")
async def test_a_run_that_reaches_a_limit_fails_and_says_what_was_used(floor: Floor) -> None:
    await floor.services.quotas.limit(LOCAL_TENANT, Limits(session_steps=1))
    sid, another = await floor.begin(), await floor.begin()
    end = (await run(floor, sid)).payload
    assert (end.status, end.code) == ("failed", "quota_exceeded")
    assert end.reason == "session_steps: 1 are used of the 1 model calls that a session may make; begin another session"
    assert sum(spent.input_tokens + spent.output_tokens for spent in end.usage or ()) == (await told(floor, sid))[1] > 0
    with pytest.raises(LimitReached) as refused:
        await run(floor, sid)
    assert refused.value.headers() == {"Retry-After": "3600"}  # only somebody who raises it will help
    await floor.services.quotas.limit(LOCAL_TENANT, Limits(steps=5))
    assert (await run(floor, another)).payload.status == "completed"
    assert (await run(floor, another)).payload.status == "completed"
    with pytest.raises(LimitReached, match="steps: 5 are used of the 5 model calls"):
        await run(floor, another)
    assert (await told(floor, sid, another))[0] == 5


@pytest.mark.requirement("004.security.quotas", "trust.I17")
@pytest.mark.parametrize("limit", ["bytes", "session_bytes"])
async def test_a_run_ends_when_what_it_stores_reaches_the_limit(floor: Floor, limit: str) -> None:
    sid = await floor.begin()
    await run(floor, sid)
    one = (await floor.services.quotas.used(LOCAL_TENANT)).bytes
    assert one == sum(len(encode(each)) for each in await floor.log(sid))
    await floor.services.quotas.limit(LOCAL_TENANT, Limits(**{limit: one + one // 3}))
    end = (await run(floor, sid)).payload
    assert (end.status, end.code) == ("failed", "quota_exceeded")
    said, *_ = (end.reason or "").split(" are used of the ")
    held = (await floor.services.quotas.used(LOCAL_TENANT)).bytes
    assert one + one // 3 <= int(said.removeprefix(f"{limit}: ")) < held < 2 * one
    with pytest.raises(LimitReached, match=f"{limit}: {held} are used"):
        await run(floor, sid)
    if limit == "bytes":  # a copy takes room as well
        with pytest.raises(LimitReached, match=f"{limit}: {held} are used"):
            await floor.sessions.fork(LOCAL_TENANT, sid, None)
    await floor.sessions.delete(LOCAL_TENANT, sid)
    assert (await floor.services.quotas.used(LOCAL_TENANT)).bytes == 0


@pytest.mark.parametrize("limit", ["bytes", "session_bytes"])
async def test_messages_that_come_at_once_fit_together_or_are_refused(floor: Floor, gates: Gates, limit: str) -> None:
    sid = await floor.begin()
    await floor.sessions.send(LOCAL_TENANT, sid, Input(text="work here"))
    await gates.reached("work here", 1)
    one = (await floor.services.quotas.used(LOCAL_TENANT)).bytes
    await floor.services.quotas.limit(LOCAL_TENANT, Limits(**{limit: one + 35_000}))
    wait = Input(text="x" * 10_000, if_busy="enqueue")
    sent = [floor.sessions.send(LOCAL_TENANT, sid, wait) for _ in range(8)]
    answers = await asyncio.gather(*sent, return_exceptions=True)
    refused = [answer for answer in answers if isinstance(answer, LimitReached)]
    assert len(refused) == 5
    assert {str(answer).partition(":")[0] for answer in refused} == {limit}
    assert (await floor.services.quotas.used(LOCAL_TENANT)).bytes <= one + 35_000
    await floor.sessions.stop(LOCAL_TENANT, sid)  # is not refused, whatever there is room for
    gates.open("work here")


async def test_copies_that_are_made_at_once_fit_together_or_are_refused(floor: Floor) -> None:
    sid = await floor.begin()
    await run(floor, sid)
    one = (await floor.services.quotas.used(LOCAL_TENANT)).bytes
    await floor.services.quotas.limit(LOCAL_TENANT, Limits(bytes=3 * one))
    copies = [floor.sessions.fork(LOCAL_TENANT, sid, None) for _ in range(6)]
    answers = await asyncio.gather(*copies, return_exceptions=True)
    assert [isinstance(answer, LimitReached) for answer in answers].count(True) == 4
    assert (await floor.services.quotas.used(LOCAL_TENANT)).bytes == 3 * one


async def test_tenants_take_turns_and_who_waits_neither_fills_the_queue_of_others_nor_pays_for_it(
    floor: Floor, gates: Gates
) -> None:
    floor.sessions._dispatch._slots, floor.sessions._dispatch._depth = 1, 2
    greedy = [await floor.begin() for _ in range(4)]
    for number, sid in enumerate(greedy[:3]):
        await floor.sessions.send(LOCAL_TENANT, sid, Input(text=f"work {number}"))
    with pytest.raises(Overloaded):
        await floor.sessions.send(LOCAL_TENANT, greedy[3], HELLO)
    await floor.services.credentials.tenants.make("other")
    other = (await floor.sessions.begin("other", "floor", None)).id
    await floor.sessions.send("other", other, Input(text="work of another"))
    for what in ("work 0", "work of another", "work 1", "work 2"):
        await gates.reached(what, 1)
        assert sum(gates.passed.values()) == ["work 0", "work of another", "work 1", "work 2"].index(what) + 1
        gates.open(what)
    await floor.settled(greedy[2], {"status": "completed"})
    logs = [each for sid in greedy[:3] for each in await floor.log(sid)]
    span = max(each.ts for each in logs) - min(each.ts for each in logs)
    assert 0 < sum(row.seconds for row in await used(floor)) <= span + 0.01  # one after the other


async def test_use_is_known_after_the_session_is_deleted_and_after_a_restart(floor: Floor, gates: Gates) -> None:
    sid, other = await floor.begin(), await floor.begin()
    await run(floor, sid)
    await floor.sessions.send(LOCAL_TENANT, other, Input(text="work here"))
    await gates.reached("work here", 1)
    both = await told(floor, sid, other)
    await floor.sessions.delete(LOCAL_TENANT, sid)
    await floor.sessions.delete(LOCAL_TENANT, other)  # in the middle of its run
    rows = await used(floor)
    assert counted(rows) == both
    assert {(row.system, row.user, row.model) for row in rows} == {("floor", None, None), ("floor", None, "scripted")}
    assert sum(row.seconds for row in rows) > 0
    await floor.down()
    await floor.up()
    assert await used(floor) == rows
    now = await floor.services.quotas.used(LOCAL_TENANT)
    assert (now.steps, now.tokens) == both[:2]


async def test_a_crash_forgets_nothing_of_what_a_run_had_used(floor: Floor, gates: Gates) -> None:
    sid = await floor.begin()
    await floor.sessions.send(LOCAL_TENANT, sid, Input(text="work there"))
    await gates.reached("work there", 1)
    before = await told(floor, sid)
    gates.open("work there")  # so that the one that crashed need not wait for it; it comes too late for the log
    await floor.crash()
    await floor.up()
    now = await floor.services.quotas.used(LOCAL_TENANT)
    assert (now.steps, now.tokens, now.runs) == (*before[:2], 1)
    await gates.reached("work there", 2)
    gates.open("work there")
    await floor.settled(sid, {"status": "completed"})
    assert counted(await used(floor)) == await told(floor, sid)


async def test_only_so_many_runs_of_a_tenant_are_under_way(floor: Floor, gates: Gates) -> None:
    await floor.services.quotas.limit(LOCAL_TENANT, Limits(runs=2))
    sids = [await floor.begin() for _ in range(5)]
    sent = [floor.sessions.send(LOCAL_TENANT, sid, Input(text=f"work {sid}")) for sid in sids]
    answers = await asyncio.gather(*sent, return_exceptions=True)
    taken = [sid for sid, answer in zip(sids, answers, strict=True) if not isinstance(answer, StellwerkError)]
    assert len(taken) == 2
    assert {str(answer).partition(";")[0] for answer in answers if isinstance(answer, LimitReached)} == {
        "runs: 2 are used of the 2 runs that your tenant may have at the same time"
    }
    for sid in taken:
        await gates.reached(f"work {sid}", 1)
        gates.open(f"work {sid}")
        await floor.settled(sid, {"status": "completed"})
    assert (await run(floor, sids[-1])).payload.status == "completed"
