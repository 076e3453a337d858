"""A slow disk makes batches larger, not more numerous; nothing is lost, nobody starves."""

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path

import httpx2
import pytest

from stellwerk.app import Parts
from stellwerk.database.folder import DATABASE
from stellwerk.envelope.model import Envelope, LlmToken, Message, decode
from stellwerk.envelope.payloads import TextPart
from stellwerk.log.log import Lease, LogEntry
from stellwerk.settings import Settings
from stellwerk.testing.order import order_problems
from tests.crash import many_readers, wire
from tests.crash.disks import TENANT, Recording, SlowSqlite, StandingSqlite, WitnessedSqlite, begin_run, opened
from tests.crash.inside import serving

pytestmark = pytest.mark.only_sqlite

WORDS = [f"word{n} " for n in range(4000)]
SESSIONS = 10


def tokens(story: Sequence[Envelope]) -> list[str]:
    return [e.payload.text for e in story if isinstance(e, LlmToken)]


async def test_what_waits_for_a_disk_that_stands_still_is_one_envelope(tmp_path: Path) -> None:
    database = StandingSqlite(tmp_path / "test.db")
    async with opened(database) as (log, wakes):
        run = await begin_run(log, wakes, "run", window=0.001)
        for n, word in enumerate(WORDS[:50]):  # the disk moves: each word is stored before the next comes
            run.say(word)
            await run.shown(4 + n)
        database.moving.clear()
        await say_all(run, WORDS[50:])
        assert (await log.head(TENANT, run.session_id)).position == 3 + 50, "shown, but not committed"
        database.moving.set()
        story = await run.finish()
    assert len(tokens(story)) <= 50 + 2, "one batch under way and one that waits, each a single envelope"
    assert "".join(tokens(story)) == "".join(WORDS)
    assert order_problems(story) == []


async def test_a_slow_disk_lengthens_the_windows_and_loses_no_word(tmp_path: Path) -> None:
    database = SlowSqlite(tmp_path / "test.db")
    async with opened(database) as (log, wakes):
        run = await begin_run(log, wakes, "run", window=0.001)
        began = time.monotonic()
        await say_all(run, WORDS)
        story = await run.finish()
        seconds = time.monotonic() - began
    assert len(tokens(story)) <= seconds / SlowSqlite.delay + 1, "a window is as long as a commit"
    assert "".join(tokens(story)) == "".join(WORDS)
    assert order_problems(story) == []


async def say_all(run: Recording, words: Sequence[str]) -> None:
    """As fast as the loop turns; each hundred words it has a turn, in which it reads."""
    for n, word in enumerate(words):
        run.say(word)
        if n % 100 == 0:
            await run.log.head(TENANT, run.session_id)


async def test_a_flood_in_one_session_does_not_starve_another(tmp_path: Path) -> None:
    database = SlowSqlite(tmp_path / "test.db")
    async with opened(database) as (log, wakes):
        loud = await begin_run(log, wakes, "loud", window=0.001)
        quiet = await begin_run(log, wakes, "quiet", window=0.001)
        lease = Lease(TENANT, quiet.session_id, "quiet", (await log.head(TENANT, quiet.session_id)).epoch)
        flood = asyncio.create_task(say_for_ever(loud))
        waited = []
        for number in range(2, 8):  # the first batch was the start of its model call
            before = database.commits
            await log.append(lease, number, [LogEntry("log", 0.0, b"{}")])
            waited.append(database.commits - before)
        flood.cancel()
        await asyncio.wait([flood])
        await loud.finish()
    assert max(waited) <= 3, "the commit under way, its own, and the next, which begins before we are told"


async def say_for_ever(run: Recording) -> None:
    while True:
        await say_all(run, WORDS)


async def test_every_session_says_all_and_at_every_commit_log_and_checkpoints_agree(
    tmp_path: Path,
) -> None:
    database = WitnessedSqlite(tmp_path / "data" / DATABASE)
    async with serving(Settings(data=tmp_path / "data"), Parts(database=lambda _: database)) as server:
        async with httpx2.AsyncClient(base_url=server.address, timeout=60) as client:
            sessions = [await many_readers.begin(client) for _ in range(SESSIONS)]
            runs = await asyncio.gather(*(many_readers.run(client, session_id, "Go on.") for session_id in sessions))
    for session_id, lines in zip(sessions, runs, strict=True):
        story = [decode(wire.frame(line).body(session_id)) for line in lines]
        assert order_problems(story) == []
        assert "".join(tokens(story)) == answer(story)
    assert database.checkpoints, "nothing was checkpointed"
    assert database.disagreements == []


def answer(story: Sequence[Envelope]) -> str:
    (last,) = (e for e in story if isinstance(e, Message) and e.payload.status == "last")
    return "".join(part.text for part in last.payload.content if isinstance(part, TextPart))
