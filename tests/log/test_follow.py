import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stellwerk.database.port import Database
from stellwerk.envelope.frames import Stored
from stellwerk.log.log import LogEntry
from stellwerk.log.notify import HEARTBEAT, SessionChannel, WakeUps
from tests.log.conftest import Kept, kept_in
from tests.samples import TENANT

pytestmark = pytest.mark.both_stores


def entries(count: int) -> list[LogEntry]:
    return [LogEntry("log", 1.0, b"{%d}" % n) for n in range(count)]


def reader(kept: Kept, after: int = 0) -> AsyncIterator[list[Stored]]:
    return kept.log.follow(TENANT, "s1", after=after)


async def positions(events: AsyncIterator[list[Stored]], until: int) -> list[int]:
    seen: list[int] = []
    async with asyncio.timeout(60):
        async for batch in events:
            seen += [stored.position for stored in batch]
            if seen and seen[-1] >= until:
                return seen
    return seen


async def test_a_follower_gets_history_then_what_comes(kept: Kept) -> None:
    lease = await kept.session()
    await kept.log.append(lease, 1, entries(3))
    following = asyncio.create_task(positions(reader(kept), until=5))
    await kept.log.append(lease, 2, entries(2))
    assert await following == [1, 2, 3, 4, 5]


async def test_a_history_longer_than_a_page_has_no_seam(kept: Kept) -> None:
    lease = await kept.session()
    await kept.log.append(lease, 1, entries(1203))
    assert await positions(reader(kept, after=2), until=1203) == list(range(3, 1204))


@pytest.mark.requirement("002.replay.no-duplicates")
async def test_a_reader_cut_off_anywhere_misses_nothing_and_sees_nothing_twice(kept: Kept) -> None:
    lease = await kept.session()
    await kept.log.append(lease, 1, entries(30))
    for seen in range(30):
        assert await positions(reader(kept, after=seen), until=30) == list(range(seen + 1, 31))


async def test_a_cursor_beyond_the_head_waits(kept: Kept) -> None:
    lease = await kept.session()
    await kept.log.append(lease, 1, entries(2))
    following = asyncio.create_task(positions(reader(kept, after=3), until=5))
    await kept.log.append(lease, 2, entries(3))
    assert await following == [4, 5]


async def test_silence_is_told(kept: Kept) -> None:
    await kept.session()
    waiting = asyncio.ensure_future(anext(reader(kept)))
    async with asyncio.timeout(60):
        for _ in range(100 * HEARTBEAT):
            kept.wakes.heartbeat()
            await asyncio.wait([waiting], timeout=0.001)
        assert await waiting == []


async def test_a_follower_of_a_deleted_session_comes_to_an_end(kept: Kept) -> None:
    lease = await kept.session()
    await kept.log.append(lease, 1, entries(1))
    events = reader(kept)
    assert [s.position for s in await anext(events)] == [1]
    waiting = asyncio.ensure_future(anext(events, None))
    await kept.log.delete(TENANT, "s1", at=2.0)
    assert await waiting is None
    assert kept.wakes.watched() == []


async def test_a_lost_wake_up_costs_time_and_no_event(database: Database) -> None:
    wakes = WakeUps()
    kept = replace(kept_in(database, WakeUps()), wakes=wakes)
    lease = await kept.session()
    following = asyncio.create_task(positions(reader(kept), until=2))
    await asyncio.sleep(0)
    await kept.log.append(lease, 1, entries(2))
    wakes.ring({"s1": 2})  # as the recheck of each second does
    assert await following == [1, 2]


@given(st.lists(st.integers(1, 4), min_size=1, max_size=12), st.integers(0, 12))
@settings(deadline=None)
def test_a_tail_says_nothing_or_all_behind_a_cursor(batches: list[int], after: int) -> None:
    async def check() -> None:
        channel, position = SessionChannel(), 0
        for size in batches:
            channel.show([Stored(position + n + 1, b"x") for n in range(size)])
            position += size
        found = [stored.position for stored in channel.since(after)]
        assert found == list(range(after + 1, position + 1))

    asyncio.run(check())


async def test_a_tail_with_a_hole_forgets_what_lies_before_it() -> None:
    channel = SessionChannel()
    channel.show([Stored(1, b"x"), Stored(2, b"x")])
    channel.show([Stored(4, b"x")])
    assert channel.since(1) == []
    assert [s.position for s in channel.since(3)] == [4]


async def test_a_tail_is_bounded() -> None:
    channel = SessionChannel()
    for n in range(3000):
        channel.show([Stored(n + 1, b"x" * 1000)])
    held = channel.since(2999 - 50)
    assert len(held) == 51
    assert channel.since(1000) == []
