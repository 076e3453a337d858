"""What comes from outside stands between the batches of a run, and confuses neither."""

import asyncio
import threading
from collections.abc import Sequence
from typing import Any

import pytest

from stellwerk.database.port import Database, Transaction, locking, session_lock
from stellwerk.envelope.payloads import Answered
from stellwerk.errors import NotFound
from stellwerk.log import transactions
from stellwerk.log.durable import DurableLog
from stellwerk.log.log import CreateSession, Lease, LogEntry
from stellwerk.log.notify import WakeUps
from stellwerk.redaction.redactor import Redactor, Redactors
from tests.samples import TENANT

pytestmark = pytest.mark.both_stores

LEASE = Lease(TENANT, "s1", "run", 0)


def entries(texts: str) -> list[LogEntry]:
    return [LogEntry("log", 1.0, b'{"n":"%b"}' % text.encode()) for text in texts]


@locking(lambda item: [session_lock(item[1])])
def input_many(tx: Transaction, sessions: Sequence[tuple[str, str]]) -> list[int | Exception]:
    try:
        return [transactions.append_unfenced(tx, tenant, session_id, entries("i")) for tenant, session_id in sessions]
    except NotFound as error:
        return [error]


async def test_positions_go_on_behind_an_input_and_a_repeated_batch_is_told_its_own(database: Database) -> None:
    log = DurableLog(database, WakeUps())
    await log.create(CreateSession(TENANT, "s1", "demo", 1.0))
    await log.append(LEASE, 1, entries("ab"))
    assert await database.submit(input_many, (TENANT, "s1")) == 3
    assert await log.append(LEASE, 1, entries("ab")) == 2
    assert await log.append(LEASE, 2, entries("c")) == 4
    assert [s.body for s in await log.read(TENANT, "s1", after=0, limit=9)] == [e.body for e in entries("abic")]


async def test_an_input_finds_only_sessions_of_its_tenant(database: Database) -> None:
    log = DurableLog(database, WakeUps())
    await log.create(CreateSession(TENANT, "s1", "demo", 1.0))
    for stranger in (("other", "s1"), (TENANT, "nobody")):
        with pytest.raises(NotFound):
            await database.submit(input_many, stranger)
    assert (await log.head(TENANT, "s1")).position == 0


async def test_the_event_loop_goes_on_while_a_long_input_is_searched_for_secrets(database: Database) -> None:
    redactors = Redactors()
    redactors.set_secrets(TENANT, ["a" * 8000 + f"X{n}" for n in range(100)])
    log, turns = DurableLog(database, WakeUps(), redactors), 0
    cleaning = asyncio.create_task(log.cleaned(TENANT, *["a" * 60_000] * 16))
    redacting = asyncio.create_task(log.redacted(TENANT, Answered(ask_id="q", text="a" * 960_000)))
    while not (cleaning.done() and redacting.done()):
        await asyncio.sleep(0)
        turns += 1
    assert turns > 20
    assert "".join(await cleaning) == (await redacting).text == "a" * 960_000


class ThreadNotingRedactor(Redactor):
    def __init__(self) -> None:
        super().__init__()
        self.threads: list[int] = []

    def redact(self, value: Any) -> Any:
        self.threads.append(threading.get_ident())
        return value


class OneRedactor(Redactors):
    def __init__(self, redactor: Redactor) -> None:
        super().__init__()
        self._one = redactor

    def of(self, tenant: str) -> Redactor:
        return self._one


async def test_texts_of_16_kib_are_searched_in_a_thread(database: Database) -> None:
    redactor = ThreadNotingRedactor()
    log = DurableLog(database, WakeUps(), OneRedactor(redactor))
    await log.cleaned(TENANT, "a" * (16 * 1024 - 1))
    await log.cleaned(TENANT, "a" * (8 * 1024), "b" * (8 * 1024))
    short, long = redactor.threads
    assert short == threading.get_ident() != long
