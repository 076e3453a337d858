"""Compaction in the database: in small pieces, never where somebody works, and no reader sees a difference."""

from collections.abc import Sequence

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stellwerk.database.port import Database, Row, Transaction, locking, session_lock
from stellwerk.envelope.frames import Stored
from stellwerk.envelope.model import Envelope, decode, encode
from stellwerk.log import transactions
from stellwerk.log.compaction import Piece, compact_many
from stellwerk.log.durable import DurableLog
from stellwerk.log.log import PAGE_BYTES, CreateSession, Lease, LogEntry
from stellwerk.log.notify import WakeUps
from stellwerk.log.transactions import entry
from tests.golden.files import stored
from tests.samples import TENANT, llm_end, llm_start, run_end, run_start, token

pytestmark = pytest.mark.both_stores

LONG: list[Envelope] = [
    run_start(),
    llm_start(),
    *(token(f"word {n} ", n) for n in range(2, 1200)),
    llm_end(1200),
    run_end(),
]


async def written(database: Database, session_id: str, story: list[Envelope]) -> DurableLog:
    log = DurableLog(database, WakeUps())
    await log.create(CreateSession(TENANT, session_id, "demo", 1.0))
    await log.append(Lease(TENANT, session_id, "run", 0), 1, [entry(envelope) for envelope in story])
    return log


async def compact(database: Database, session_id: str, before: float = 1e12) -> list[int]:
    saved: list[int] = []
    while (piece := await database.submit(compact_many, Piece(TENANT, session_id, before))) is not None:
        saved.append(piece)
    return saved


async def whole(log: DurableLog, session_id: str, after: int = 0, limit: int = 500) -> list[Stored]:
    found: list[Stored] = []
    while page := await log.read(TENANT, session_id, after=after, limit=limit):
        found, after = found + page, page[-1].position
    return found


async def rows(database: Database, session_id: str) -> list[Row]:
    return await database.read(lambda tx: tx.rows("read_events", session_id, 0, TENANT, 10_000))


@pytest.mark.requirement("trust.I4", "trust.I6")
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=15)
@given(seen=st.integers(0, len(LONG)), limit=st.integers(200, 700))
async def test_a_reader_who_comes_back_after_compaction_ends_up_with_the_uncut_text(
    database: Database, seen: int, limit: int
) -> None:
    session_id = "long"
    if await database.read(lambda tx: tx.row("head", session_id, TENANT)) is None:
        await written(database, session_id, LONG)
        pieces = await compact(database, session_id)
        assert len(pieces) > 2, "nobody waits for a long session to be compacted at once"
    log = DurableLog(database, WakeUps())
    rest = await whole(log, session_id, seen, limit)
    assert rest == [Stored(n, encode(e)) for n, e in enumerate(LONG, start=1)][seen:]
    page = await log.read(TENANT, session_id, after=seen, limit=limit)
    assert len(page) == min(limit, len(LONG) - seen) or sum(len(s.body) for s in page) >= PAGE_BYTES


async def test_bytes_fall_and_a_second_time_there_is_nothing_to_do(database: Database) -> None:
    await written(database, "s1", LONG)
    before = sum(len(body) for _, body in await rows(database, "s1"))
    saved = sum(await compact(database, "s1"))
    after = await rows(database, "s1")
    assert before - saved == sum(len(body) for _, body in after) < before / 8
    assert len(after) < 20
    *_, held = await database.read(lambda tx: tx.row("used_in_session", "s1", TENANT)) or ()
    assert held == before - saved, "whoever has a limit gets the room back"
    assert await compact(database, "s1") == []


async def test_what_is_young_waits_and_so_does_a_session_at_work(database: Database) -> None:
    log = await written(database, "s1", LONG)
    young = [LogEntry("llm_token", 500.0, encode(token(f"young {n}", n))) for n in range(2, 5)]
    await log.append(Lease(TENANT, "s1", "run", 0), 2, young)
    assert sum(await compact(database, "s1", before=400.0)) > 0
    assert [body for _, body in (await rows(database, "s1"))[-3:]] == [e.body for e in young]
    await database.submit(_begin_run, "s1")
    assert await compact(database, "s1") == []
    assert await compact(database, "nobody") == []


@locking(lambda session_id: [session_lock(session_id)])
def _begin_run(tx: Transaction, sessions: Sequence[str]) -> list[None | Exception]:
    for session_id in sessions:
        tx.run("insert_run", "r", session_id, TENANT, "t", 1, 1, "running", 1, 1.0)
    return [None] * len(sessions)


@pytest.mark.parametrize("story", [LONG, stored("parallel-agents")], ids=["long", "parallel"])
async def test_a_removal_reaches_into_packs(database: Database, story: list[Envelope]) -> None:
    log = await written(database, "s1", story)
    told = await whole(log, "s1")
    pieces = [s for s in told if s.body.startswith(b'{"type":"llm_token"')]
    stubs = [Stored(s.position, encode(decode(s.body))[:-1] + b" }") for s in (*pieces[:3], *pieces[-2:], told[0])]
    await compact(database, "s1")
    before = await rows(database, "s1")
    await database.submit(_rewrite, stubs)
    expected = {s.position: s.body for s in told} | {s.position: s.body for s in stubs}
    assert {s.position: s.body for s in await whole(log, "s1")} == expected
    assert [position for position, _ in await rows(database, "s1")] == [position for position, _ in before]


@locking(lambda _: [session_lock("s1")])
def _rewrite(tx: Transaction, items: Sequence[list[Stored]]) -> list[None | Exception]:
    for stubs in items:
        transactions.rewrite(tx, TENANT, "s1", stubs)
    return [None] * len(items)


async def test_a_page_of_packs_is_no_larger_than_any_other(database: Database) -> None:
    envelopes: list[Envelope] = [run_start(), llm_start(), *(token(f"word {n} ", n) for n in range(2, 3000))]
    log = await written(database, "s1", envelopes)
    await compact(database, "s1")
    page = await log.read(TENANT, "s1", after=0, limit=5000)
    assert PAGE_BYTES <= sum(len(s.body) for s in page) < PAGE_BYTES + 1000
    assert await whole(log, "s1", limit=5000) == [Stored(n, encode(e)) for n, e in enumerate(envelopes, start=1)]
