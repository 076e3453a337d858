"""What every log promises."""

import asyncio

import pytest

from stellwerk.envelope.model import decode
from stellwerk.errors import Conflict, Fenced, NotFound
from stellwerk.log.log import PAGE_BYTES, CreateSession, LogEntry
from stellwerk.log.transactions import entry
from tests.log.conftest import Kept
from tests.samples import TENANT, whole_run

pytestmark = [pytest.mark.both_stores, pytest.mark.requirement("nodes.store.one-contract")]


def entries(*texts: str) -> list[LogEntry]:
    return [LogEntry("log", 1.0, b'{"n":"%b"}' % text.encode()) for text in texts]


async def bodies(kept: Kept, session_id: str = "s1", after: int = 0) -> list[tuple[int, bytes]]:
    return [(s.position, s.body) for s in await kept.log.read(TENANT, session_id, after=after, limit=1000)]


async def test_what_is_appended_is_read_back_byte_for_byte_in_order(kept: Kept) -> None:
    lease = await kept.session()
    story = [entry(envelope) for envelope in whole_run()]
    assert await kept.log.append(lease, 1, story) == len(story)
    assert await bodies(kept) == [(n, e.body) for n, e in enumerate(story, 1)]
    assert [decode(body) for _, body in await bodies(kept)] == whole_run()


@pytest.mark.requirement("trust.I1")
async def test_positions_are_one_two_three_over_all_writers(kept: Kept) -> None:
    lease = await kept.session()
    await kept.log.append(lease, 1, entries("a", "b"))
    await kept.log.append(lease, 2, entries("c"))
    await kept.log.append(await kept.take_over(), 1, entries("d"))
    assert [position for position, _ in await bodies(kept)] == [1, 2, 3, 4]


async def test_many_sessions_in_one_flush_do_not_mix(kept: Kept) -> None:
    leases = [await kept.session(f"s{n}") for n in range(20)]
    await asyncio.gather(*(kept.log.append(lease, 1, entries(lease.session_id)) for lease in leases))
    for lease in leases:
        assert await bodies(kept, lease.session_id) == [(1, b'{"n":"%b"}' % lease.session_id.encode())]


async def test_a_page_begins_behind_its_cursor_and_has_its_limit(kept: Kept) -> None:
    lease = await kept.session()
    await kept.log.append(lease, 1, entries(*"abcde"))
    page = await kept.log.read(TENANT, "s1", after=1, limit=2)
    assert [stored.position for stored in page] == [2, 3]
    assert await kept.log.read(TENANT, "s1", after=5, limit=2) == []


@pytest.mark.requirement("trust.I7")
async def test_a_lease_that_moved_on_writes_nothing(kept: Kept) -> None:
    old = await kept.session()
    await kept.log.append(old, 1, entries("a"))
    new = await kept.take_over()
    with pytest.raises(Fenced):
        await kept.log.append(old, 2, entries("zombie"))
    await kept.log.append(new, 1, entries("b"))
    assert [body for _, body in await bodies(kept)] == [e.body for e in entries("a", "b")]


async def test_a_fenced_session_does_not_fail_its_neighbours(kept: Kept) -> None:
    old, other = await kept.session("s1"), await kept.session("s2")
    await kept.take_over("s1")
    outcomes = await asyncio.gather(
        kept.log.append(old, 1, entries("zombie")),
        kept.log.append(other, 1, entries("fine")),
        return_exceptions=True,
    )
    assert isinstance(outcomes[0], Fenced)
    assert outcomes[1] == 1


async def test_a_batch_sent_twice_is_stored_once(kept: Kept) -> None:
    lease = await kept.session()
    assert await kept.log.append(lease, 1, entries("a", "b")) == 2
    assert await kept.log.append(lease, 1, entries("a", "b")) == 2
    assert len(await bodies(kept)) == 2


async def test_a_page_is_bounded_in_bytes_and_always_goes_on(kept: Kept) -> None:
    lease = await kept.session()
    await kept.log.append(lease, 1, [LogEntry("log", 1.0, b"x" * 200_000) for _ in range(5)])
    assert [s.position for s in await kept.log.read(TENANT, "s1", after=0, limit=100)] == [1, 2]
    await kept.log.append(lease, 2, [LogEntry("log", 1.0, b"x" * 3 * PAGE_BYTES)])
    assert [s.position for s in await kept.log.read(TENANT, "s1", after=5, limit=100)] == [6]


async def test_batches_of_one_session_in_one_flush_follow_each_other_and_a_repeated_one_is_stored_once(
    kept: Kept,
) -> None:
    lease = await kept.session()
    batches = [(1, "ab"), (2, "c"), (2, "c"), (4, "x"), (3, "de")]
    appended = (kept.log.append(lease, number, entries(*texts)) for number, texts in batches)
    outcomes = await asyncio.gather(*appended, return_exceptions=True)
    assert [*outcomes[:3], outcomes[4]] == [2, 3, 3, 5]
    assert isinstance(outcomes[3], Fenced)
    assert [position for position, _ in await bodies(kept)] == [1, 2, 3, 4, 5]


async def test_a_batch_out_of_turn_is_refused(kept: Kept) -> None:
    lease = await kept.session()
    with pytest.raises(Fenced):
        await kept.log.append(lease, 3, entries("a"))


async def test_an_unknown_session_is_not_found(kept: Kept) -> None:
    with pytest.raises(NotFound):
        await kept.log.head(TENANT, "nobody")
    with pytest.raises(NotFound):
        await kept.log.delete(TENANT, "nobody", at=1.0)
    assert await kept.log.read(TENANT, "nobody", after=0, limit=10) == []


async def test_the_session_of_another_tenant_is_like_an_unknown_one(kept: Kept) -> None:
    lease = await kept.session()
    await kept.log.append(lease, 1, entries("secret"))
    assert await kept.log.read("other", "s1", after=0, limit=10) == []
    for attempt in (
        kept.log.head("other", "s1"),
        kept.log.delete("other", "s1", at=1.0),
    ):
        with pytest.raises(NotFound, match="s1"):
            await attempt
    assert len(await bodies(kept)) == 1


async def test_a_deleted_session_is_gone_and_its_id_is_never_used_again(kept: Kept) -> None:
    lease = await kept.session()
    await kept.log.append(lease, 1, entries("a"))
    await kept.log.delete(TENANT, "s1", at=2.0)
    with pytest.raises(NotFound):
        await kept.log.head(TENANT, "s1")
    with pytest.raises(Fenced):
        await kept.log.append(lease, 2, entries("late"))
    with pytest.raises(Conflict):
        await kept.log.create(CreateSession(TENANT, "s1", "demo", 3.0))
    assert await bodies(kept) == []


async def test_a_long_session_is_deleted_whole(kept: Kept) -> None:
    lease = await kept.session()
    await kept.log.append(lease, 1, entries(*map(str, range(700))))
    await kept.log.delete(TENANT, "s1", at=2.0)
    with pytest.raises(NotFound):
        await kept.log.delete(TENANT, "s1", at=3.0)
    assert await bodies(kept) == []


async def test_an_id_in_use_is_refused(kept: Kept) -> None:
    await kept.session()
    with pytest.raises(Conflict, match="take another|in use"):
        await kept.log.create(CreateSession("other", "s1", "demo", 1.0))


async def test_a_batch_of_which_only_the_number_is_left_counts(kept: Kept) -> None:
    lease = await kept.session()
    assert await kept.log.append(lease, 1, []) == 0
    assert await kept.log.append(lease, 2, entries("a")) == 1
    assert await kept.log.append(lease, 3, []) == 1
