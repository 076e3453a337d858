"""The cache of workflows: always equal to the log, bounded, and cheap when nothing has changed."""

import asyncio
from collections import Counter

import pytest

from stellwerk.database.port import Database
from stellwerk.envelope.model import Envelope, Log
from stellwerk.envelope.payloads import Logged
from stellwerk.errors import NotFound
from stellwerk.log.durable import DurableLog
from stellwerk.log.log import CreateSession, Lease
from stellwerk.log.notify import WakeUps
from stellwerk.log.transactions import entry
from stellwerk.workflows.cache import WorkflowCache
from stellwerk.workflows.views.workflow import Workflow
from tests.samples import TENANT, message, place, run_end, run_start, token


class CachedLog:
    """A log with sessions, and a cache of their workflows."""

    def __init__(self, database: Database) -> None:
        self.database, self.wakes = database, WakeUps()
        self.log = DurableLog(database, self.wakes)
        self.cache = WorkflowCache(database, self.wakes)
        self._batches: Counter[str] = Counter()

    async def begin(self, session_id: str) -> None:
        await self.log.create(CreateSession(TENANT, session_id, "demo", 1.0, "7"))
        await self.say(session_id, run_start(), message())

    async def say(self, session_id: str, *envelopes: Envelope) -> None:
        self._batches[session_id] += 1
        entries = [entry(envelope) for envelope in envelopes]
        await self.log.append(Lease(TENANT, session_id, "run", 0), self._batches[session_id], entries)

    async def fresh(self, session_id: str) -> Workflow:
        return await WorkflowCache(self.database, WakeUps()).of(TENANT, session_id)


@pytest.fixture
def cached_log(database: Database) -> CachedLog:
    return CachedLog(database)


def progress(text: str, seq: int = 1) -> Log:
    return Log(**place("run", seq), payload=Logged(message=text))


def content(workflow: Workflow) -> tuple[object, ...]:
    return workflow.logs, workflow.messages, workflow.status, workflow.figures


async def test_new_envelopes_are_visible_at_once_few_or_many(cached_log: CachedLog) -> None:
    """A few are in the tail; with many, or large ones, it no longer reaches back."""
    await cached_log.begin("s1")
    assert (await cached_log.cache.of(TENANT, "s1")).user_id == 7
    for count in (1, 3, 700, 2000):
        await cached_log.say("s1", *(token("word", n) for n in range(count)), progress(f"{count} words"))
        assert (await cached_log.cache.of(TENANT, "s1")).logs[-1].message == f"{count} words"
    await cached_log.say("s1", run_end())
    assert content(await cached_log.cache.of(TENANT, "s1")) == content(await cached_log.fresh("s1"))


async def test_a_long_log_is_folded_page_by_page_once_for_all_requests(cached_log: CachedLog) -> None:
    await cached_log.begin("s1")
    await cached_log.say("s1", *(progress("x" * 200, n) for n in range(3000)))
    found = await asyncio.gather(*(cached_log.cache.of(TENANT, "s1") for _ in range(20)))
    assert len({id(workflow) for workflow in found}) == 1
    assert len(found[0].logs) == 3002


async def test_a_log_that_was_rewritten_also_by_another_process_is_folded_again(cached_log: CachedLog) -> None:
    """The heads that are read once a second say how often a log was rewritten."""
    await cached_log.begin("s1")
    before = await cached_log.cache.of(TENANT, "s1")
    assert await cached_log.cache.of(TENANT, "s1") is before
    head = (await cached_log.log.head(TENANT, "s1")).position
    cached_log.wakes.compare(["s1"], [("s1", head, 0)])
    assert await cached_log.cache.of(TENANT, "s1") is before
    cached_log.wakes.compare(["s1"], [("s1", head, 1)])
    after = await cached_log.cache.of(TENANT, "s1")
    assert after is not before
    assert content(after) == content(before)


async def test_a_cancelled_request_does_not_cancel_the_others(cached_log: CachedLog) -> None:
    await cached_log.begin("s1")
    await cached_log.say("s1", *(progress("x", n) for n in range(2500)))
    impatient = asyncio.create_task(cached_log.cache.of(TENANT, "s1"))
    await asyncio.sleep(0)
    impatient.cancel()
    assert content(await cached_log.cache.of(TENANT, "s1")) == content(await cached_log.fresh("s1"))


async def test_the_cache_is_bounded_in_number_and_in_bytes(cached_log: CachedLog) -> None:
    few, small = (
        WorkflowCache(cached_log.database, cached_log.wakes, most=2),
        WorkflowCache(cached_log.database, cached_log.wakes, bytes=3000),
    )
    for name in ("s1", "s2", "s3"):
        await cached_log.begin(name)
        for folds in (few, small):
            assert (await folds.of(TENANT, name)).status == "running"
    assert [key[1] for key in few._kept] == ["s2", "s3"]
    assert sum(kept.workflow.weight for kept in small._kept.values() if kept.workflow) <= 3000
    assert (await few.of(TENANT, "s1")).id == "s1"
    for folds in (few, small):
        for _, name in list(folds._kept):
            folds.forget(TENANT, name)
    assert cached_log.wakes.watched() == [], "nobody watches what is not kept"


async def test_a_deleted_foreign_or_empty_session_is_not_a_workflow(cached_log: CachedLog) -> None:
    await cached_log.begin("s1")
    await cached_log.log.create(CreateSession(TENANT, "empty", "demo", 1.0))
    await cached_log.cache.of(TENANT, "s1")
    await cached_log.log.delete(TENANT, "s1", at=2.0)
    for tenant, name in ((TENANT, "s1"), ("other", "empty"), (TENANT, "empty"), (TENANT, "nowhere")):
        with pytest.raises(NotFound, match="workflow"):
            await cached_log.cache.of(tenant, name)
    await cached_log.say("empty", run_start(), message())
    assert (await cached_log.cache.of(TENANT, "empty")).status == "running"
