"""A write takes its entry along: once, if it is done, and in the chain that it belongs to."""

import asyncio
from collections.abc import Sequence

import pytest

from stellwerk.database.port import Database, Transaction
from stellwerk.errors import Conflict
from stellwerk.tenants.audit import (
    Action,
    Audit,
    AuditedDatabase,
    PendingEntry,
    about,
    check_chain,
    recording,
    without_audit,
)
from stellwerk.tenants.principals import Principal
from tests.samples import StillClock

ADA = Principal("acme", "admin", "ada")


def do_many(tx: Transaction, items: Sequence[str]) -> list[str | bool | Exception]:
    """Refuses and overlooks some, as operations do."""
    answers: dict[str, bool | Exception] = {"refused": Conflict("no", code="no"), "overlooked": False}
    return [answers[item] if item in answers else item for item in items]


def also_many(tx: Transaction, items: Sequence[str]) -> list[str | Exception]:
    return list(items)


class Desk:
    def __init__(self, database: Database) -> None:
        self.database = AuditedDatabase(database, {do_many: lambda item: item, also_many: None})
        self.audit = Audit(self.database, StillClock())

    def due(self, what: str = "POST /things") -> PendingEntry:
        return self.audit.due(Action(ADA, what, {}), 201)

    async def entries(self) -> list[tuple[str, dict[str, str]]]:
        return [(each.what, each.on) for each in await self.audit.page("acme", after=0, limit=500)]


@pytest.fixture
def desk(database: Database) -> Desk:
    return Desk(database)


async def test_the_first_write_that_is_done_takes_the_entry_along_and_no_other(desk: Desk) -> None:
    with recording(due := desk.due()):
        with pytest.raises(Conflict):
            await desk.database.submit(do_many, "refused")
        assert await desk.database.submit(do_many, "overlooked") is False
        about(room="7")
        await desk.database.submit(do_many, "one")
        await desk.database.submit(do_many, "two")
    assert due.is_written
    assert await desk.entries() == [("POST /things", {"made": "one", "room": "7"})]


async def test_parts_of_something_else_and_what_comes_later_take_nothing_along(desk: Desk) -> None:
    begun, over = asyncio.Event(), asyncio.Event()

    async def later() -> None:
        begun.set()
        await over.wait()
        await desk.database.submit(do_many, "later")

    with recording(due := desk.due()):
        with without_audit():
            await desk.database.submit(do_many, "part")
            about(room="7")
        task = asyncio.create_task(later())
        await begun.wait()
    over.set()
    await task
    assert (due.is_written, await desk.entries()) == (False, [])


async def test_a_task_of_its_own_takes_it_along_though_nobody_waits_for_it(desk: Desk) -> None:
    with recording(desk.due()):
        doing = asyncio.create_task(asyncio.wait_for(desk.database.submit(do_many, "one"), 60))
        await asyncio.sleep(0)
        doing.cancel()
        await asyncio.wait([doing])
    await desk.database.submit(also_many, "behind it")
    assert await desk.entries() == [("POST /things", {"made": "one"})]


async def test_the_chain_is_whole_whatever_is_done_at_once(desk: Desk) -> None:
    async def work(number: int) -> None:
        with recording(desk.due(f"POST /things/{number}")):
            outcome = "refused" if number % 5 == 0 else f"{number}"
            operation = do_many if number % 2 else also_many
            await asyncio.gather(desk.database.submit(operation, outcome), return_exceptions=True)
        if number % 3 == 0:
            await desk.audit.record(Action(ADA, "by itself", {}), 409)

    await asyncio.gather(*map(work, range(60)))
    told = [what for what, _ in await desk.entries()]
    refused = [number for number in range(60) if number % 5 == 0 and number % 2]
    assert sorted(told) == sorted(
        [*(f"POST /things/{n}" for n in range(60) if n not in refused), *(["by itself"] * 20)]
    )
    found = await desk.database.read(lambda tx: check_chain(tx, "acme"))
    assert (found.entries, found.whole) == (len(told), True)
