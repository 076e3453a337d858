"""What every database promises: group commit, outcomes for each item, snapshots for readers."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from stellwerk.database.port import Database, Transaction, locking, session_lock
from stellwerk.errors import StellwerkError, StorageGone
from tests import stores

pytestmark = [pytest.mark.both_stores, pytest.mark.requirement("nodes.store.one-contract")]


@locking(lambda item: [session_lock(item)])
def put(tx: Transaction, items: Sequence[str]) -> list[int | Exception]:
    """One event per item; an item called 'refused' is refused in its place."""
    outcomes: list[int | Exception] = []
    for item in items:
        if item == "refused":
            outcomes.append(ValueError(item))
            continue
        tx.run("insert_event", item, 1, "log", 0.0, b"{}")
        outcomes.append(tx.flush)
    return outcomes


@locking(lambda item: [session_lock(item)])
def make_session(tx: Transaction, items: Sequence[str]) -> list[None | Exception]:
    for item in items:
        tx.run("create_session", item, "local", "demo", None, 1, tx.flush, 1.0)
    return [None] * len(items)


def events(folder: Path) -> list[str]:
    with stores.beside(folder / "test.db") as stored:
        return sorted(session_id for (session_id,) in stored.rows("SELECT session_id FROM event"))


async def test_writes_of_one_turn_share_one_commit(database: Database) -> None:
    flushes = await asyncio.gather(*(database.submit(put, f"s{n}") for n in range(50)))
    assert len(set(flushes)) == 1


async def test_commits_are_numbered_on_over_a_restart(tmp_path: Path) -> None:
    numbers = []
    for name in ("a", "b"):
        async with stores.opened(tmp_path / "test.db") as database:
            await database.submit(make_session, name)
            numbers.append(await database.submit(put, name))
    assert numbers[0] < numbers[1]


async def test_a_refused_item_fails_alone(database: Database, tmp_path: Path) -> None:
    outcomes = await asyncio.gather(
        *(database.submit(put, name) for name in ("a", "refused", "b")), return_exceptions=True
    )
    assert isinstance(outcomes[1], ValueError)
    assert events(tmp_path) == ["a", "b"]


async def test_an_item_that_breaks_the_transaction_does_not_fail_its_neighbours(
    database: Database, tmp_path: Path
) -> None:
    await database.submit(put, "twice")
    outcomes = await asyncio.gather(
        *(database.submit(put, name) for name in ("a", "twice", "b")), return_exceptions=True
    )
    assert isinstance(outcomes[1], Exception)
    assert not isinstance(outcomes[1], StellwerkError), "it is a mistake of ours, and not of the disk"
    assert events(tmp_path) == ["a", "b", "twice"]


async def test_a_write_whose_waiter_was_cancelled_still_stands(database: Database, tmp_path: Path) -> None:
    future = database.submit(put, "a")
    future.cancel()
    await database.submit(put, "b")
    assert events(tmp_path) == ["a", "b"]


async def test_closing_finishes_what_was_submitted_and_refuses_what_comes_later(tmp_path: Path) -> None:
    async with stores.opened(tmp_path / "test.db") as database:
        submitted = [database.submit(put, f"s{n}") for n in range(10)]
    assert all(future.done() and not future.exception() for future in submitted)
    with pytest.raises(StorageGone):
        await database.submit(put, "late")


async def test_a_reader_cannot_write(database: Database, tmp_path: Path) -> None:
    with pytest.raises(StorageGone, match="read-?only"):
        await database.read(lambda tx: tx.run("insert_event", "x", 1, "log", 0.0, b"{}"))
    assert events(tmp_path) == []


@locking(lambda item: [session_lock("s")])
def write_ten(tx: Transaction, items: Sequence[None]) -> list[None | Exception]:
    tx.run("create_session", "s", "local", "demo", None, 1, tx.flush, 1.0)
    tx.run_many("insert_event", [("s", n, "log", 0.0, b"x" * n) for n in range(1, 11)])
    return [None]


async def test_a_page_ends_with_the_row_that_fills_it_and_has_at_least_one(database: Database) -> None:
    await database.submit(write_ten, None)

    def pages(tx: Transaction) -> list[list[int]]:
        found = (tx.rows_within(budget, "read_events", "s", 0, "local", 9) for budget in (1, 3, 4, 1000))
        return [[position for position, _ in page] for page in found]

    assert await database.read(pages) == [[1], [1, 2], [1, 2, 3], [*range(1, 10)]]
