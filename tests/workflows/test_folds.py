"""Folds that are kept for those who poll: always as the log is, within bounds, and cheap when nothing has happened."""

import asyncio
from collections import Counter

import pytest

from stellwerk.database.sqlite import Sqlite
from stellwerk.envelope.model import Envelope, Log
from stellwerk.envelope.payloads import Logged
from stellwerk.errors import NotFound
from stellwerk.log.durable import DurableLog
from stellwerk.log.log import Lease, NewSession, entry
from stellwerk.log.wake import Wakes
from stellwerk.views.workflow import Workflow
from stellwerk.workflows.folds import Bodies, Folds
from tests.samples import TENANT, message, place, run_end, run_start, token


class House:
    """A log with sessions in it, and folds of them."""

    def __init__(self, database: Sqlite) -> None:
        self.database, self.wakes = database, Wakes()
        self.log = DurableLog(database, self.wakes)
        self.folds = Folds(database, self.wakes)
        self._batches: Counter[str] = Counter()

    async def begin(self, session_id: str) -> None:
        await self.log.create(NewSession(TENANT, session_id, "demo", 1.0, "7"))
        await self.say(session_id, run_start(), message())

    async def say(self, session_id: str, *envelopes: Envelope) -> None:
        self._batches[session_id] += 1
        entries = [entry(envelope) for envelope in envelopes]
        await self.log.append(Lease(TENANT, session_id, "run", 0), self._batches[session_id], entries)

    async def fresh(self, session_id: str) -> Workflow:
        return await Folds(self.database, Wakes()).of(TENANT, session_id)


@pytest.fixture
def house(database: Sqlite) -> House:
    return House(database)


def progress(text: str, seq: int = 1) -> Log:
    return Log(**place("run", seq), payload=Logged(message=text))


def told(workflow: Workflow) -> tuple[object, ...]:
    return workflow.logs, workflow.messages, workflow.status, workflow.figures


async def test_news_are_seen_at_once_whether_few_or_many(house: House) -> None:
    """A few are in the tail; with many, or large ones, it no longer reaches back."""
    await house.begin("s1")
    assert (await house.folds.of(TENANT, "s1")).user_id == 7
    for count in (1, 3, 700, 2000):
        await house.say("s1", *(token("word", n) for n in range(count)), progress(f"{count} words"))
        assert (await house.folds.of(TENANT, "s1")).logs[-1].message == f"{count} words"
    await house.say("s1", run_end())
    assert told(await house.folds.of(TENANT, "s1")) == told(await house.fresh("s1"))


async def test_a_long_log_is_folded_page_by_page_once_for_all_who_ask(house: House) -> None:
    await house.begin("s1")
    await house.say("s1", *(progress("x" * 200, n) for n in range(3000)))
    found = await asyncio.gather(*(house.folds.of(TENANT, "s1") for _ in range(20)))
    assert len({id(workflow) for workflow in found}) == 1
    assert len(found[0].logs) == 3002


async def test_whoever_leaves_early_does_no_harm_to_the_others(house: House) -> None:
    await house.begin("s1")
    await house.say("s1", *(progress("x", n) for n in range(2500)))
    impatient = asyncio.create_task(house.folds.of(TENANT, "s1"))
    await asyncio.sleep(0)
    impatient.cancel()
    assert told(await house.folds.of(TENANT, "s1")) == told(await house.fresh("s1"))


async def test_what_is_kept_is_bounded_in_number_and_in_bytes(house: House) -> None:
    few, small = Folds(house.database, house.wakes, most=2), Folds(house.database, house.wakes, bytes=3000)
    for name in ("s1", "s2", "s3"):
        await house.begin(name)
        for folds in (few, small):
            assert (await folds.of(TENANT, name)).status == "running"
    assert [key[1] for key in few._kept] == ["s2", "s3"]
    assert sum(kept.workflow.weight for kept in small._kept.values() if kept.workflow) <= 3000
    assert (await few.of(TENANT, "s1")).id == "s1"
    for folds in (few, small):
        for _, name in list(folds._kept):
            folds.forget(TENANT, name)
    assert house.wakes.watched() == [], "nobody watches what is not kept"


async def test_a_session_that_is_gone_or_foreign_or_empty_is_no_workflow(house: House) -> None:
    await house.begin("s1")
    await house.log.create(NewSession(TENANT, "empty", "demo", 1.0))
    await house.folds.of(TENANT, "s1")
    await house.log.delete(TENANT, "s1", at=2.0)
    for tenant, name in ((TENANT, "s1"), ("other", "empty"), (TENANT, "empty"), (TENANT, "nowhere")):
        with pytest.raises(NotFound, match="workflow"):
            await house.folds.of(tenant, name)
    await house.say("empty", run_start(), message())
    assert (await house.folds.of(TENANT, "empty")).status == "running"


def test_bodies_are_kept_and_the_oldest_go_first() -> None:
    bodies, missed = Bodies(most=8 * 1000), list[int]()
    for n in (1, 1, 2, 1, *range(3, 10), 2):
        if bodies.get((n,)) is None:
            missed.append(n)
            bodies.keep((n,), b"x" * 600)
    assert missed == [1, 2, *range(3, 10), 2]
    bodies.keep(("large",), b"x" * 1001)
    assert bodies.get(("large",)) is None
