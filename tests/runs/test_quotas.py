"""Limits of a tenant while its agents are at work, and what is known of their use afterwards."""

import asyncio
from functools import reduce

import pytest

from stellwerk.envelope.model import LlmEnd, RunEnd, encode
from stellwerk.errors import LimitReached, Overloaded, StellwerkError
from stellwerk.tenants.principals import LOCAL_TENANT
from stellwerk.tenants.quotas import Limits, UsageRow
from stellwerk.views import usage
from stellwerk.views.usage import UsageTotals
from tests.runs.in_process import Gates, InProcessServer

HELLO = "hello"


async def run(backend: InProcessServer, sid: str) -> RunEnd:
    """Send a message, and wait for the end of its run."""
    accepted = await backend.sessions.send(LOCAL_TENANT, sid, HELLO)
    await backend.settled(sid, {"round": accepted.round, "is_over": True})
    return [each for each in await backend.log(sid) if isinstance(each, RunEnd)][-1]


async def used(backend: InProcessServer) -> list[UsageRow]:
    return await backend.services.quotas.usage_page(LOCAL_TENANT, days=2, after=0, limit=500)


async def told(backend: InProcessServer, *sids: str) -> tuple[int, int, int, int]:
    """Model calls, tokens, tool calls and runs, as the logs tell them."""
    found = [reduce(usage.fold, await backend.log(sid), UsageTotals()) for sid in sids]
    tokens = sum(m.input_tokens + m.output_tokens for each in found for m in each.models.values())
    calls, tools = sum(each.model_calls for each in found), sum(each.tool_calls for each in found)
    return calls, tokens, tools, sum(each.runs for each in found)


def counted(rows: list[UsageRow]) -> tuple[int, int, int, int]:
    tokens = sum(row.input_tokens + row.output_tokens for row in rows)
    return sum(row.model_calls for row in rows), tokens, sum(r.tool_calls for r in rows), sum(r.runs for r in rows)


@pytest.mark.requirement("004.security.quotas")
async def test_parallel_runs_use_no_more_than_the_limit_and_what_each_had_begun(backend: InProcessServer) -> None:
    limit, clients = 400, 10
    await backend.services.quotas.limit(LOCAL_TENANT, Limits(tokens=limit))
    sids = [await backend.begin() for _ in range(clients)]

    async def talk(sid: str) -> RunEnd:
        end = await run(backend, sid)
        while end.payload.status == "completed":
            try:
                end = await run(backend, sid)
            except LimitReached:
                break
        return end

    async with asyncio.timeout(60):
        ends = await asyncio.gather(*map(talk, sids))
    failed = [end.payload for end in ends if end.payload.status == "failed"]
    assert {end.code for end in failed} <= {"quota_exceeded"}
    calls = [each.payload.usage for sid in sids for each in await backend.log(sid) if isinstance(each, LlmEnd)]
    sizes = [spent.input_tokens + spent.output_tokens for spent in calls if spent is not None]
    assert limit <= sum(sizes) < limit + clients * max(sizes)
    assert counted(await used(backend)) == await told(backend, *sids)


@pytest.mark.requirement("004.security.quotas")
async def test_a_run_that_reaches_a_limit_fails_and_says_what_was_used(backend: InProcessServer) -> None:
    await backend.services.quotas.limit(LOCAL_TENANT, Limits(session_steps=1))
    sid, another = await backend.begin(), await backend.begin()
    end = (await run(backend, sid)).payload
    assert (end.status, end.code) == ("failed", "quota_exceeded")
    assert end.reason == "session_steps: 1 are used of the 1 model calls that a session may make; begin another session"
    assert (
        sum(spent.input_tokens + spent.output_tokens for spent in end.usage or ()) == (await told(backend, sid))[1] > 0
    )
    with pytest.raises(LimitReached) as refused:
        await run(backend, sid)
    assert refused.value.headers() == {"Retry-After": "3600"}  # only somebody who raises it will help
    await backend.services.quotas.limit(LOCAL_TENANT, Limits(steps=5))
    assert (await run(backend, another)).payload.status == "completed"
    assert (await run(backend, another)).payload.status == "completed"
    with pytest.raises(LimitReached, match="steps: 5 are used of the 5 model calls"):
        await run(backend, another)
    assert (await told(backend, sid, another))[0] == 5


@pytest.mark.requirement("004.security.quotas", "trust.I17")
@pytest.mark.parametrize("limit", ["bytes", "session_bytes"])
async def test_a_run_ends_when_what_it_stores_reaches_the_limit(backend: InProcessServer, limit: str) -> None:
    sid = await backend.begin()
    await run(backend, sid)
    one = (await backend.services.quotas.used(LOCAL_TENANT)).bytes
    assert one == sum(len(encode(each)) for each in await backend.log(sid))
    await backend.services.quotas.limit(LOCAL_TENANT, Limits(**{limit: one + one // 3}))
    end = (await run(backend, sid)).payload
    assert (end.status, end.code) == ("failed", "quota_exceeded")
    said, *_ = (end.reason or "").split(" are used of the ")
    held = (await backend.services.quotas.used(LOCAL_TENANT)).bytes
    assert one + one // 3 <= int(said.removeprefix(f"{limit}: ")) < held < 2 * one
    with pytest.raises(LimitReached, match=f"{limit}: {held} are used"):
        await run(backend, sid)
    if limit == "bytes":  # a copy takes room as well
        with pytest.raises(LimitReached, match=f"{limit}: {held} are used"):
            await backend.sessions.fork(LOCAL_TENANT, sid, None)
    await backend.sessions.delete(LOCAL_TENANT, sid)
    assert (await backend.services.quotas.used(LOCAL_TENANT)).bytes == 0


@pytest.mark.parametrize("limit", ["bytes", "session_bytes"])
async def test_messages_that_come_at_once_fit_together_or_are_refused(
    backend: InProcessServer, gates: Gates, limit: str
) -> None:
    sid = await backend.begin()
    await backend.sessions.send(LOCAL_TENANT, sid, "work here")
    await gates.reached("work here", 1)
    one = (await backend.services.quotas.used(LOCAL_TENANT)).bytes
    await backend.services.quotas.limit(LOCAL_TENANT, Limits(**{limit: one + 35_000}))
    text = "x" * 10_000
    sent = [backend.sessions.send(LOCAL_TENANT, sid, text, if_busy="enqueue") for _ in range(8)]
    answers = await asyncio.gather(*sent, return_exceptions=True)
    refused = [answer for answer in answers if isinstance(answer, LimitReached)]
    assert len(refused) == 5
    assert {str(answer).partition(":")[0] for answer in refused} == {limit}
    assert (await backend.services.quotas.used(LOCAL_TENANT)).bytes <= one + 35_000
    await backend.sessions.stop(LOCAL_TENANT, sid)  # is not refused, whatever there is room for
    gates.open("work here")


async def test_copies_that_are_made_at_once_fit_together_or_are_refused(backend: InProcessServer) -> None:
    sid = await backend.begin()
    await run(backend, sid)
    one = (await backend.services.quotas.used(LOCAL_TENANT)).bytes
    await backend.services.quotas.limit(LOCAL_TENANT, Limits(bytes=3 * one))
    copies = [backend.sessions.fork(LOCAL_TENANT, sid, None) for _ in range(6)]
    answers = await asyncio.gather(*copies, return_exceptions=True)
    assert [isinstance(answer, LimitReached) for answer in answers].count(True) == 4
    assert (await backend.services.quotas.used(LOCAL_TENANT)).bytes == 3 * one


async def test_tenants_take_turns_and_who_waits_neither_fills_the_queue_of_others_nor_pays_for_it(
    backend: InProcessServer, gates: Gates
) -> None:
    backend.sessions._scheduler._slots, backend.sessions._scheduler._queue_limit = 1, 2
    greedy = [await backend.begin() for _ in range(4)]
    for number, sid in enumerate(greedy[:3]):
        await backend.sessions.send(LOCAL_TENANT, sid, f"work {number}")
    with pytest.raises(Overloaded):
        await backend.sessions.send(LOCAL_TENANT, greedy[3], HELLO)
    await backend.services.credentials.tenants.make("other")
    other = (await backend.sessions.begin("other", "backend", None)).id
    await backend.sessions.send("other", other, "work of another")
    for what in ("work 0", "work of another", "work 1", "work 2"):
        await gates.reached(what, 1)
        assert sum(gates.passed.values()) == ["work 0", "work of another", "work 1", "work 2"].index(what) + 1
        gates.open(what)
    await backend.settled(greedy[2], {"status": "completed"})
    logs = [each for sid in greedy[:3] for each in await backend.log(sid)]
    span = max(each.ts for each in logs) - min(each.ts for each in logs)
    assert 0 < sum(row.seconds for row in await used(backend)) <= span + 0.01  # one after the other


async def test_use_is_known_after_the_session_is_deleted_and_after_a_restart(
    backend: InProcessServer, gates: Gates
) -> None:
    sid, other = await backend.begin(), await backend.begin()
    await run(backend, sid)
    await backend.sessions.send(LOCAL_TENANT, other, "work here")
    await gates.reached("work here", 1)
    both = await told(backend, sid, other)
    await backend.sessions.delete(LOCAL_TENANT, sid)
    await backend.sessions.delete(LOCAL_TENANT, other)  # in the middle of its run
    rows = await used(backend)
    assert counted(rows) == both
    assert {(row.system, row.user, row.model) for row in rows} == {
        ("backend", None, None),
        ("backend", None, "scripted"),
    }
    assert sum(row.seconds for row in rows) > 0
    await backend.down()
    await backend.up()
    assert await used(backend) == rows
    now = await backend.services.quotas.used(LOCAL_TENANT)
    assert (now.steps, now.tokens) == both[:2]


async def test_a_crash_forgets_nothing_of_what_a_run_had_used(backend: InProcessServer, gates: Gates) -> None:
    sid = await backend.begin()
    await backend.sessions.send(LOCAL_TENANT, sid, "work there")
    await gates.reached("work there", 1)
    before = await told(backend, sid)
    gates.open("work there")  # so that the one that crashed need not wait for it; it comes too late for the log
    await backend.crash()
    await backend.up()
    now = await backend.services.quotas.used(LOCAL_TENANT)
    assert (now.steps, now.tokens, now.runs) == (*before[:2], 1)
    await gates.reached("work there", 2)
    gates.open("work there")
    await backend.settled(sid, {"status": "completed"})
    assert counted(await used(backend)) == await told(backend, sid)


async def test_only_so_many_runs_of_a_tenant_are_under_way(backend: InProcessServer, gates: Gates) -> None:
    await backend.services.quotas.limit(LOCAL_TENANT, Limits(runs=2))
    sids = [await backend.begin() for _ in range(5)]
    sent = [backend.sessions.send(LOCAL_TENANT, sid, f"work {sid}") for sid in sids]
    answers = await asyncio.gather(*sent, return_exceptions=True)
    taken = [sid for sid, answer in zip(sids, answers, strict=True) if not isinstance(answer, StellwerkError)]
    assert len(taken) == 2
    assert {str(answer).partition(";")[0] for answer in answers if isinstance(answer, LimitReached)} == {
        "runs: 2 are used of the 2 runs that your tenant may have at the same time"
    }
    for sid in taken:
        await gates.reached(f"work {sid}", 1)
        gates.open(f"work {sid}")
        await backend.settled(sid, {"status": "completed"})
    assert (await run(backend, sids[-1])).payload.status == "completed"
