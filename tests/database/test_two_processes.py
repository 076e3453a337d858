"""Two processes on one PostgreSQL: whatever they do at the same moment, in whatever order, the store stays whole."""

import asyncio
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import count, cycle
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stellwerk.database.port import Database, Operation, P, R, Row, Transaction, locking, locks_of
from stellwerk.documents.files import FolderFiles
from stellwerk.documents.store import DocumentStore
from stellwerk.envelope.introspection import make_blob
from stellwerk.envelope.model import Message, decode
from stellwerk.envelope.payloads import RunStatus
from stellwerk.errors import Conflict, Fenced, NotFound
from stellwerk.log.durable import DurableLog
from stellwerk.log.log import CreateSession, Lease, LogEntry
from stellwerk.log.notify import WakeUps
from stellwerk.log.transactions import Append, entry, placed
from stellwerk.runs.accept import accept_many, stop_many
from stellwerk.runs.commands import Send, Stop
from stellwerk.runs.fork import Fork, fork_many
from stellwerk.runs.systems import Registration, digest, register_many
from stellwerk.runs.transactions import ClaimedRun, Finish, claim_many, finish_many
from stellwerk.tenants.audit import Action, Audit, AuditedDatabase, check_chain, recording
from stellwerk.tenants.keys import ApiKeys
from stellwerk.tenants.principals import Principal
from stellwerk.tenants.tenants import Tenants
from tests import stores
from tests.crash.waiting import eventually
from tests.samples import SteadyClock, run_end, token

pytestmark = pytest.mark.only_postgres

TENANTS = ("acme", "other")
CLOCK = SteadyClock()
FAR = 1e9
VERSIONS = "SELECT tenant, name, version, digest FROM system"
KEYS = "SELECT count(*) FROM api_key WHERE revoked_at IS NULL GROUP BY tenant, name"
CONNECTED = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
DEADLOCKS = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
DOINGS = (
    *["say"] * 4,
    *["write"] * 6,
    *["finish", "claim"] * 2,
    *["stop", "repeat", "file", "fork", "delete", "begin", "register", "audited", "key"],
)
STEP = st.tuples(st.integers(0, 1), st.sampled_from(DOINGS), st.integers(0, 2))
BURSTS = st.lists(st.lists(STEP, min_size=2, max_size=10), min_size=2, max_size=6)
PAUSES = st.lists(st.sampled_from((0, 0, 0, 1, 3)), min_size=1, max_size=20)
"""Milliseconds before each statement, so that transactions overlap in other ways each time."""


class Hesitating:
    """A database whose operations wait now and then between their statements, in their transaction."""

    def __init__(self, database: Database, pauses: Iterator[int]) -> None:
        self._database, self._pauses = database, pauses
        self.read, self.when_free = database.read, database.when_free
        self.truncate, self.close, self.locked = database.truncate, database.close, database.locked
        self.commit_seconds = database.commit_seconds
        self._hesitating = cache(self._with_pauses)

    def submit(self, operation: Operation[P, R], item: P, *, urgent: bool = False) -> "asyncio.Future[R]":
        return self._database.submit(self._hesitating(operation), item, urgent=urgent)

    def _with_pauses(self, operation: Operation[Any, Any]) -> Operation[Any, Any]:
        @locking(lambda item: locks_of(operation, item))
        def slowly(tx: Transaction, items: Sequence[Any]) -> Sequence[Any]:
            return operation(_Slowly(tx, self._pauses), items)

        return slowly


class _Slowly(Transaction):
    def __init__(self, tx: Transaction, pauses: Iterator[int]) -> None:
        self._tx, self._pauses, self.flush = tx, pauses, tx.flush

    def _paused(self) -> Transaction:
        time.sleep(next(self._pauses) / 1000)
        return self._tx

    def rows(self, query: str, *params: object) -> list[Row]:
        return self._paused().rows(query, *params)

    def rows_within(self, budget: int, query: str, *params: object) -> list[Row]:
        return self._paused().rows_within(budget, query, *params)

    def row(self, query: str, *params: object) -> Row | None:
        return self._paused().row(query, *params)

    def run(self, query: str, *params: object) -> int:
        return self._paused().run(query, *params)

    def write(self, query: str, *params: object) -> None:
        self._paused().write(query, *params)

    def run_many(self, query: str, rows: Iterable[Sequence[object]]) -> None:
        self._paused().run_many(query, rows)

    def lock_free(self, sessions: Iterable[str]) -> set[str]:
        return self._paused().lock_free(sessions)


@dataclass
class Driven:
    """A run that a process believes it drives."""

    lease: Lease
    batch: int = 0
    entries: Sequence[LogEntry] = ()
    last: int = 0


class Ledger:
    """What was acknowledged to any process of the test."""

    def __init__(self) -> None:
        self.stored = defaultdict[str, dict[int, bytes]](dict)
        """By session: what is to be found at which position."""
        self.refused = set[bytes]()
        self.messages = dict[str, str]()
        """The session of each accepted message."""
        self.deleted = set[str]()
        self.versions = dict[tuple[str, str, int], str]()
        self.audited = Counter[str]()
        self.numbers = count(1)


class Process:
    """One of two: its connection, and what it believes."""

    def __init__(self, database: Database, folder: Path, pauses: Iterator[int], ledger: Ledger) -> None:
        hesitating = Hesitating(database, pauses)
        self.audit = Audit(hesitating, CLOCK)
        self.database = AuditedDatabase(hesitating, {accept_many: None})
        self.log = DurableLog(self.database, WakeUps(), unaudited=hesitating)
        self.documents = DocumentStore(hesitating, FolderFiles(folder), CLOCK)
        self.keys = ApiKeys(hesitating, CLOCK)
        self.ledger, self.sessions = ledger, list[str]()
        self.driven = dict[str, Driven]()
        self.driving = defaultdict[str, asyncio.Lock](asyncio.Lock)

    async def do(self, doing: str, which: int) -> None:
        tenant, session_id = TENANTS[which % 2], self.sessions[which]
        try:
            await getattr(self, doing)(tenant, session_id, next(self.ledger.numbers))
        except (Fenced, Conflict, NotFound):  # the other process was first
            pass

    async def say(self, tenant: str, session_id: str, number: int) -> None:
        place: dict[str, Any] = {
            "tenant": tenant,
            "session_id": session_id,
            "run_id": f"run-{number}",
            "at": 1.0 * number,
        }
        send = Send(
            **place,
            system="demo",
            system_version=1,
            text=f"say {number}",
            message_id=f"message-{number}",
            claim=number % 2 == 0,
            if_busy="enqueue" if number % 3 else "reject",
        )
        due = self.audit.due(Action(Principal(tenant, "admin"), "POST /messages", {}), 202)
        with recording(due):
            accepted = await self.log.commit(accept_many, send, session_id, lambda done: done.stored)
        self.ledger.audited[tenant] += 1
        self.ledger.messages[send.message_id] = session_id
        self.take([accepted.claimed] if accepted.claimed else [])

    def take(self, claimed: Iterable[ClaimedRun]) -> None:
        for each in claimed:
            self.driven[each.lease.session_id] = Driven(each.lease)

    async def claim(self, _tenant: str, _session_id: str, _: int) -> None:
        self.take(await self.database.submit(claim_many, (2, FAR)))

    async def write(self, _: str, session_id: str, number: int) -> None:
        async with self.driving[session_id]:
            if (run := self.driven.get(session_id)) is None:
                return
            entries = [entry(token(f"{session_id} {number} {n}")) for n in range(1 + number % 3)]
            try:
                last = await self.log.append(run.lease, run.batch + 1, entries)
            except Fenced:
                self.ledger.refused |= {each.body for each in entries}
                self.driven.pop(session_id)
                raise
            self.driven[session_id] = Driven(run.lease, run.batch + 1, entries, last)
            stored = {each.position: each.body for each in placed(last, entries)}
            assert not stored.keys() & self.ledger.stored[session_id].keys(), "a position was given twice"
            self.ledger.stored[session_id] |= stored

    async def repeat(self, _: str, session_id: str, _number: int) -> None:
        """The acknowledgement of the last batch was lost."""
        async with self.driving[session_id]:
            run = self.driven.get(session_id)
            if run is not None and run.entries:
                assert await self.log.append(run.lease, run.batch, run.entries) == run.last

    async def finish(self, _: str, session_id: str, _number: int) -> None:
        async with self.driving[session_id]:
            run = self.driven.pop(session_id, None)
            if run is not None:
                await self._end(run.lease, run.batch + 1, "completed")

    async def _end(self, lease: Lease, batch: int, status: RunStatus) -> None:
        end = run_end(run=lease.run_id, status=status)
        finish = Finish(Append(lease, batch, [entry(end)]), [end])
        await self.log.commit(finish_many, finish, lease.session_id, lambda done: done.stored)

    async def stop(self, tenant: str, session_id: str, number: int) -> None:
        stop = Stop(tenant=tenant, session_id=session_id, run_id=f"stop-{number}", at=1.0 * number, system="demo")
        stopped = await self.log.commit(stop_many, stop, session_id, lambda done: done.stored)
        if stopped.claimed is not None:
            await self._end(stopped.claimed.lease, 1, "stopped")

    async def file(self, tenant: str, session_id: str, number: int) -> None:
        blob = make_blob(b"x" * (1 + number % 5), mime="text/plain", filename="a.txt")
        await self.documents.keep(tenant, session_id, [blob])

    async def fork(self, tenant: str, session_id: str, number: int) -> None:
        await self.database.submit(fork_many, Fork(tenant, session_id, f"{session_id}-fork-{number}", None, 1.0))

    async def delete(self, tenant: str, session_id: str, number: int) -> None:
        await self.log.delete(tenant, session_id, at=1.0 * number)
        self.ledger.deleted.add(session_id)

    async def begin(self, tenant: str, session_id: str, _: int) -> None:
        """The same id that the other process takes, if it begins one just now."""
        await self.log.create(CreateSession(tenant, f"{session_id}+", "demo", 1.0))

    async def register(self, tenant: str, _: str, number: int) -> None:
        text = f"text {number % 4}"
        version = await self.database.submit(register_many, Registration(tenant, "desk", text, 1.0))
        assert self.ledger.versions.setdefault((tenant, "desk", version), text) == text, "a version was given twice"

    async def audited(self, tenant: str, _: str, _number: int) -> None:
        """In the chains of both tenants, in the order in which it concerns them."""
        other = TENANTS[1 - TENANTS.index(tenant)]
        await self.audit.record(Action(Principal(tenant, "admin"), "PUT /limits", {}, tenant=other), 200)
        self.ledger.audited += Counter([tenant, other])

    async def key(self, tenant: str, _: str, number: int) -> None:
        await self.keys.make(tenant=tenant, name=f"key {number % 2}", role="admin")


def asked(place: Path, statement: str) -> Any:
    """In a transaction of its own, which alone sees what has changed."""
    with stores.beside(place) as stored:
        return stored.value(statement)


@pytest.fixture
def ledger() -> Ledger:
    """Of all examples of a test: tenants, their systems and their chains live on."""
    return Ledger()


@pytest.fixture
async def databases(tmp_path: Path) -> AsyncIterator[tuple[Database, Database]]:
    place = tmp_path / "test.db"
    async with stores.opened(place) as first, stores.opened(place) as second:
        tenants = Tenants(first, CLOCK)
        for name in TENANTS:
            await tenants.make(name)
        yield first, second
    await eventually(lambda: asked(place, CONNECTED) == 1, within=60, what="a connection stays open")
    assert asked(place, DEADLOCKS) == 0


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=settings().max_examples // 2)
@given(bursts=BURSTS, pauses=PAUSES)
@pytest.mark.requirement(
    "nodes.writes.no-gap",
    "nodes.writes.fence",
    "nodes.writes.numbers",
    "nodes.writes.audit",
    "nodes.writes.no-deadlock",
)
async def test_whatever_two_processes_do_at_once_is_stored_once_and_in_order(
    databases: tuple[Database, Database],
    ledger: Ledger,
    tmp_path: Path,
    bursts: list[list[tuple[int, str, int]]],
    pauses: list[int],
) -> None:
    waits = cycle(pauses)
    both = [Process(each, tmp_path / "documents", waits, ledger) for each in databases]
    sessions = [f"s{next(ledger.numbers)}" for _ in range(3)]
    for which, session_id in enumerate(sessions):
        await both[0].log.create(CreateSession(TENANTS[which % 2], session_id, "demo", 1.0))
    for each in both:
        each.sessions = sessions
    for burst in bursts:
        await asyncio.gather(*(both[node].do(doing, which) for node, doing, which in burst))
    with stores.beside(tmp_path / "test.db") as stored:
        check_logs(stored, ledger, sessions)
        check_runs(stored, ledger, sessions)
        check_tenants(stored, ledger)
    for tenant in TENANTS:
        chain = await databases[0].read(lambda tx, tenant=tenant: check_chain(tx, tenant))  # type: ignore[misc]
        assert (chain.whole or not chain.entries, chain.entries) == (True, ledger.audited[tenant])


def check_logs(stored: stores.Tables, ledger: Ledger, sessions: Sequence[str]) -> None:
    for session_id, head in stored.rows("SELECT id, last_position FROM session"):
        story = stored.rows("SELECT position, body FROM event WHERE session_id = ? ORDER BY position", session_id)
        assert [position for position, _ in story] == list(range(1, head + 1))
        assert not ledger.refused & {body for _, body in story}, "a driver wrote behind its fence"
        if session_id in sessions:
            expected = ledger.stored[session_id]
            assert {position: body for position, body in story if position in expected} == expected
    living = {session_id for (session_id,) in stored.rows("SELECT id FROM session")}
    assert living.isdisjoint(ledger.deleted)
    assert {each for each in sessions if each not in ledger.deleted} <= living


def check_runs(stored: stores.Tables, ledger: Ledger, sessions: Sequence[str]) -> None:
    rounds = defaultdict[str, list[int]](list)
    open_runs = Counter[str]()
    for session_id, round_, state in stored.rows("SELECT session_id, round, state FROM run ORDER BY round"):
        rounds[session_id].append(round_)
        open_runs[session_id] += state != "ended"
    living = [each for each in sessions if each not in ledger.deleted]
    assert [rounds[each] for each in living] == [[*range(1, len(rounds[each]) + 1)] for each in living]
    assert max(open_runs.values(), default=0) <= 1
    for message_id, session_id in ledger.messages.items():
        if session_id in living:
            said = stored.rows("SELECT body FROM event WHERE session_id = ? AND type = 'message'", session_id)
            found = [each.payload for each in (decode(body) for (body,) in said) if isinstance(each, Message)]
            first = [each for each in found if each.message_id == message_id and each.action == "added"]
            assert len(first) == 1, "an accepted message is in the log, once"


def check_tenants(stored: stores.Tables, ledger: Ledger) -> None:
    numbered = defaultdict[str, list[int]](list)
    for tenant, number in stored.rows("SELECT tenant, number FROM file_number ORDER BY number"):
        numbered[tenant].append(number)
    assert [*numbered.values()] == [[*range(1, len(each) + 1)] for each in numbered.values()]
    unnumbered = (
        "SELECT count(*) FROM document WHERE NOT EXISTS (SELECT 1 FROM file_number "
        "WHERE file_number.tenant = document.tenant AND file_number.document_id = document.document_id)"
    )
    assert stored.value(unnumbered) == 0
    versions = {(tenant, name, version): digest_ for tenant, name, version, digest_ in stored.rows(VERSIONS)}
    assert versions == {place: digest(text) for place, text in ledger.versions.items()}
    latest = {(tenant, name): version for tenant, name, version in sorted(versions)}
    assert sum(latest.values()) == len(versions), "versions are 1, 2, 3 …"
    assert [count_ for (count_,) in stored.rows(KEYS) if count_ > 2] == []
