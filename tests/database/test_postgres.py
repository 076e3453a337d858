"""PostgreSQL behind the port: what happens when it is full, away, restarted, or used by other processes, too."""

import asyncio
import signal
import threading
import time
from collections.abc import AsyncIterator, Sequence

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from stellwerk.database.arrays import array
from stellwerk.database.port import Transaction, locking, session_lock
from stellwerk.database.postgres import Postgres, connected
from stellwerk.errors import InvalidField, StorageFull, StorageGone
from stellwerk.log import transactions
from stellwerk.log.log import CreateSession, LogEntry
from stellwerk.runs.transactions import end_connections_of_gone_nodes
from tests.database.conftest import LOCKS, Postgresql

ENTRY = LogEntry("message", 2.0, b'{"type":"message"}')


@pytest.fixture
def url(postgresql: Postgresql) -> str:
    return postgresql.new()


@pytest.fixture
async def database(url: str) -> AsyncIterator[Postgres]:
    found = Postgres(url)
    await found.open()
    yield found
    await found.close()


@pytest.fixture
async def other(url: str, database: Postgres) -> AsyncIterator[Postgres]:
    """The same database, as another process has it."""
    found = Postgres(url)
    await found.open()
    yield found
    await found.close()


def change(url: str, statement: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(statement)


async def create(database: Postgres, session_id: str = "s1") -> None:
    await database.submit(transactions.create_many, CreateSession("local", session_id, "demo", 1.0))


@locking(lambda session_id: [session_lock(session_id)])
def append(tx: Transaction, sessions: Sequence[str]) -> list[int | Exception]:
    return [transactions.append_unfenced(tx, "local", session_id, [ENTRY]) for session_id in sessions]


def append_without_a_lock(tx: Transaction, sessions: Sequence[str]) -> list[int | Exception]:
    return append(tx, sessions)


async def test_two_processes_append_to_the_same_sessions_without_a_gap(database: Postgres, other: Postgres) -> None:
    sessions = [f"s{n}" for n in range(5)]
    for session_id in sessions:
        await create(database, session_id)
    turns = [*zip([database, other] * 50, sessions * 20, strict=True)]
    positions = await asyncio.gather(*(each.submit(append, session_id) for each, session_id in turns))
    given = {
        session_id: sorted(p for p, (_, s) in zip(positions, turns, strict=True) if s == session_id)
        for session_id in sessions
    }
    assert given == {session_id: [*range(1, 21)] for session_id in sessions}
    size = len(ENTRY.body) * len(turns)
    assert await database.read(lambda tx: tx.row("bytes_of", "local")) == (size,)


async def test_an_operation_that_does_not_name_its_lock_fails_in_tests(url: str, database: Postgres) -> None:
    await create(database)
    await asyncio.to_thread(change, url, LOCKS)
    assert await database.submit(append, "s1") == 1
    with pytest.raises(psycopg.errors.RaiseException, match="the session s1 is not locked for this UPDATE of session"):
        await database.submit(append_without_a_lock, "s1")


async def test_an_item_that_fails_does_not_fail_its_neighbours(database: Postgres) -> None:
    await create(database)
    found = await asyncio.gather(
        database.submit(append, "s1"),
        database.submit(append, "unknown"),
        database.submit(append, "s1"),
        return_exceptions=True,
    )
    assert [type(each).__name__ for each in found] == ["int", "NotFound", "int"]


async def test_nothing_is_found_by_a_nul_and_none_is_stored(database: Postgres) -> None:
    assert await database.read(lambda tx: tx.row("head", "s\0", "local")) is None
    assert await database.read(lambda tx: tx.rows("heads", '["s\\u0000"]')) == []
    with pytest.raises(InvalidField, match="NUL"):
        await create(database, "s\0")
    await create(database)


async def test_a_full_disk_stores_nothing_and_says_so(url: str, database: Postgres) -> None:
    await create(database)
    full = "CREATE FUNCTION full_() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE SQLSTATE '53100'; END $$; "
    await asyncio.to_thread(change, url, full + "CREATE TRIGGER full_ BEFORE INSERT ON event EXECUTE FUNCTION full_()")
    with pytest.raises(StorageFull):
        await database.submit(append, "s1")
    await asyncio.to_thread(change, url, "DROP TRIGGER full_ ON event")
    assert await database.submit(append, "s1") == 1


async def test_a_restart_of_the_server_is_waited_for_by_the_caller_and_needs_no_restart_of_ours(
    postgresql: Postgresql, database: Postgres
) -> None:
    await create(database)
    await database.read(lambda tx: tx.row("head", "s1", "local"))
    await asyncio.to_thread(postgresql.server.stop, signal.SIGINT)
    with pytest.raises(StorageGone, match="the database cannot be used"):
        await database.submit(append, "s1")
    with pytest.raises(StorageGone):
        await database.check()
    await asyncio.to_thread(postgresql.server.start)
    assert await database.submit(append, "s1") == 1
    await database.check()


async def test_connections_that_were_cut_while_nothing_was_done_are_replaced_unseen(
    postgresql: Postgresql, database: Postgres
) -> None:
    await create(database)
    await database.read(lambda tx: tx.row("head", "s1", "local"))
    cut = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'stellwerk'"
    await asyncio.to_thread(postgresql.run, "postgres", cut)
    assert await database.submit(append, "s1") == 1
    head = await database.read(lambda tx: tx.row("head", "s1", "local"))
    assert head is not None and head[0] == 1


async def test_a_commit_whose_answer_is_lost_is_not_repeated(url: str, database: Postgres) -> None:
    """It may be stored: whoever submitted it finds out, by the number of the batch or a key."""
    await create(database)
    cut = (
        "CREATE FUNCTION cut() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
        "PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NULL; END $$; "
        "CREATE CONSTRAINT TRIGGER cut AFTER INSERT ON event DEFERRABLE INITIALLY DEFERRED "
        "FOR EACH ROW EXECUTE FUNCTION cut()"
    )
    await asyncio.to_thread(change, url, cut)
    with pytest.raises(StorageGone):
        await database.submit(append, "s1")
    await asyncio.to_thread(change, url, "DROP TRIGGER cut ON event")
    assert await database.submit(append, "s1") == 1


async def test_a_database_that_takes_no_writes_is_away_until_it_takes_them_again(
    postgresql: Postgresql, url: str, database: Postgres
) -> None:
    await create(database)
    name = str(conninfo_to_dict(url)["dbname"])
    read_only = "default_transaction_read_only"
    await asyncio.to_thread(postgresql.run, name, f"ALTER DATABASE {name} SET {read_only} = on")
    cut = f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}' AND pid <> pg_backend_pid()"
    await asyncio.to_thread(postgresql.run, "postgres", cut)
    with pytest.raises(StorageGone, match="read-only"):
        await database.submit(append, "s1")
    await asyncio.to_thread(postgresql.run, "postgres", f"ALTER DATABASE {name} RESET {read_only}")
    assert await database.submit(append, "s1") == 1


async def test_two_transactions_that_wait_for_each_other_are_both_stored(database: Postgres, other: Postgres) -> None:
    await create(database, "s1")
    await create(database, "s2")
    meeting = threading.Barrier(2)
    turns = {"s1": 0, "s2": 0}

    def cross(tx: Transaction, starts: Sequence[str]) -> list[int | Exception]:
        (start,) = starts
        tx.run("mark_workflow", start, "local")
        turns[start] += 1
        if turns[start] == 1:
            meeting.wait(30)
        return [tx.run("mark_workflow", "s2" if start == "s1" else "s1", "local")]

    done = await asyncio.gather(database.submit(cross, "s1"), other.submit(cross, "s2"))
    assert list(done) == [1, 1]
    assert sum(turns.values()) >= 3


async def test_a_process_that_is_stopped_in_a_transaction_loses_its_locks(database: Postgres, other: Postgres) -> None:
    await create(database)
    begun, turns = threading.Event(), list[int]()

    @locking(lambda session_id: [session_lock(session_id)])
    def stopped(tx: Transaction, sessions: Sequence[str]) -> list[int | Exception]:
        turns.append(1)
        begun.set()
        if len(turns) == 1:
            time.sleep(3)
        return append(tx, sessions)

    late = database.submit(stopped, "s1")
    await asyncio.to_thread(begun.wait)
    assert await other.submit(append, "s1") == 1
    assert await late == 2  # nothing of it was stored, so it was applied again


def free(tx: Transaction, sessions: Sequence[str]) -> list[set[str] | Exception]:
    return [tx.lock_free([session_id]) for session_id in sessions]


async def test_a_node_that_is_gone_loses_its_locks_even_in_the_middle_of_a_pipeline(
    url: str, database: Postgres, other: Postgres
) -> None:
    await create(database)
    change(url, f"INSERT INTO node (id, role, version, slots, until) VALUES ('{other.node}', 'all', '1', 1, 0)")
    connection = other.beside({})
    pipeline = connection.pipeline()
    pipeline.__enter__()
    # Sent, and not followed by a Sync: the server does not take this connection for idle.
    connection.execute("SELECT 1 FROM session WHERE id = 's1' FOR NO KEY UPDATE")
    while await database.submit(free, "s1"):
        pass  # the server has not read it yet
    assert await database.submit(end_connections_of_gone_nodes, None) > 0
    assert await database.submit(append, "s1") == 1
    with pytest.raises(psycopg.OperationalError):
        pipeline.__exit__(None, None, None)
    assert await other.submit(append, "s1") == 2  # over another connection


async def test_an_id_that_two_processes_give_at_once_is_given_once(database: Postgres, other: Postgres) -> None:
    found = await asyncio.gather(create(database), create(other), return_exceptions=True)
    assert sorted(type(each).__name__ for each in found) == ["Conflict", "NoneType"]


@pytest.mark.parametrize(
    ("type_", "values"),
    [
        ("text", ["", "a", "Grüße 👋", "x" * 10_000]),
        ("bytea", [b"", b"\0\1", b"y" * 10_000]),
        ("bigint", [0, -1, 2**63 - 1, -(2**63)]),
        ("double precision", [0.0, -1.5, 1e300, float("inf")]),
    ],
)
async def test_columns_of_many_rows_arrive_as_they_are(
    url: str, database: Postgres, type_: str, values: list[object]
) -> None:
    def arrived() -> list[object]:
        with connected(conninfo_to_dict(url), {}) as connection, connection.cursor(binary=True) as cursor:
            return [each for (each,) in cursor.execute(f"SELECT unnest($1::{type_}[])", [array(values)])]

    assert await asyncio.to_thread(arrived) == values
