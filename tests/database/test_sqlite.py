"""What SQLite alone has: its files, the ballast beside them, its schema and its statements."""

import re
import sqlite3
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from stellwerk.database import statements
from stellwerk.database.port import Transaction
from stellwerk.database.sqlite import Ballast, Sqlite
from stellwerk.errors import StorageFull
from tests import stores

pytestmark = pytest.mark.only_sqlite


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[Sqlite]:
    made = Sqlite(tmp_path / "test.db")
    await made.open()
    yield made
    await made.close()


async def test_deleted_text_leaves_the_files_when_they_are_truncated(tmp_path: Path, database: Sqlite) -> None:
    def write(tx: Transaction, items: Sequence[bytes]) -> list[None | Exception]:
        tx.run("create_session", "s", "local", "demo", None, 1, tx.flush, 1.0)
        tx.run("insert_event", "s", 1, "log", 0.0, items[0])
        return [None]

    def forget(tx: Transaction, items: Sequence[None]) -> list[None | Exception]:
        tx.run("forget_events", "local", "s", 10)
        return [None]

    await database.submit(write, b"canary" * 50)
    await database.submit(forget, None)
    await database.truncate()
    assert files_with(b"canarycanary", tmp_path) == []


def files_with(text: bytes, folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir() if text in path.read_bytes()]


async def test_a_full_disk_is_told_and_urgent_writes_use_the_ballast(tmp_path: Path, database: Sqlite) -> None:
    limit_pages(database, 60)
    with pytest.raises(StorageFull):
        for n in range(1000):
            await database.submit(put_large, f"s{n}")
    stored = count_events(tmp_path)
    limit_pages(database, 100)
    with pytest.raises(StorageFull):
        await database.submit(put_large, "ordinary work waits until the ballast is back")
    await database.submit(put_large, "urgent", urgent=True)
    assert count_events(tmp_path) == stored + 1


def put_large(tx: Transaction, items: Sequence[str]) -> list[None | Exception]:
    for item in items:
        tx.run("insert_event", item, 1, "log", 0.0, b"x" * 4000)
    return [None] * len(items)


def limit_pages(database: Sqlite, pages: int) -> None:
    """SQLite's own limit gives the same error as a full disk, without one."""
    database._connection.execute(f"PRAGMA max_page_count={pages}")


def count_events(folder: Path) -> int:
    with stores.beside(folder / "test.db") as stored:
        return int(stored.value("SELECT count(*) FROM event"))


def test_ballast_is_real_space_and_can_be_given_up(tmp_path: Path) -> None:
    ballast = Ballast(tmp_path / "ballast")
    assert ballast.restore()
    assert (tmp_path / "ballast").stat().st_blocks * 512 >= 1024 * 1024
    ballast.release()
    assert not (tmp_path / "ballast").exists()
    assert not ballast.restore(), "it is not tried again within a second"


def test_the_schema_is_what_the_migrations_make() -> None:
    migrated, fresh = sqlite3.connect(":memory:"), sqlite3.connect(":memory:")
    for _, script in statements.migrations():
        migrated.executescript(script)
    migrated.executescript(statements.script("derived.sql"))
    fresh.executescript(statements.script("schema.sql"))
    shape = "SELECT type, name, sql FROM sqlite_master ORDER BY type, name"
    assert _plain(migrated.execute(shape).fetchall()) == _plain(fresh.execute(shape).fetchall())


def test_migrations_are_numbered_without_a_gap_or_a_double() -> None:
    assert [number for number, _ in statements.migrations()] == list(range(1, len(list(statements.migrations())) + 1))


def _plain(rows: list[tuple[str, str, str | None]]) -> list[tuple[str, str, str]]:
    def plain(sql: str) -> str:
        return re.sub(r" ?([(),]) ?", r"\1", " ".join(sql.replace("IF NOT EXISTS ", "").split()))

    return [(kind, name, plain(sql or "")) for kind, name, sql in rows]


def test_every_table_that_names_a_session_is_emptied_when_it_is_deleted() -> None:
    connection = sqlite3.connect(":memory:")
    connection.executescript(statements.script("schema.sql"))
    queries, named = statements.queries(), set[str]()
    for (table,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'"):
        columns = {row[1] for row in connection.execute(f"PRAGMA table_info({table})")}
        if columns & {"session_id", "thread_id"}:
            named.add(table)
    emptied = {queries[name].split()[2] for name in statements.forgetting()}
    assert named == emptied


def test_every_statement_is_valid_against_the_schema_and_is_told_the_time() -> None:
    connection = sqlite3.connect(":memory:")
    connection.executescript(statements.script("schema.sql"))
    for sql in statements.queries().values():
        assert "'now'" not in sql, "there is one clock"
        numbered = [int(number) for number in re.findall(r"\?(\d+)", sql)]
        connection.execute(f"EXPLAIN {sql}", [None] * (max(numbered) if numbered else sql.count("?")))


@pytest.mark.parametrize(
    "name",
    """count_waiting count_runs_of runs_waiting runs_running leases_running runs_open insert_run bytes_of used_on
    tenant_is_locked used_in_session count_usage count_in_session move_heads last_audit number_document""".split(),
)
def test_what_is_asked_for_each_run_looks_at_no_more_the_longer_a_server_has_run(name: str) -> None:
    steps = _steps(name)
    grow = ("event", "run", "first", "other", "document", "usage", "session", "audit", "file_number", "tenant")
    scans = [step for step in steps if re.match(rf"SCAN ({'|'.join(grow)})\b", step)]
    assert all("INDEX run_unfinished" in step for step in scans), steps


@pytest.mark.parametrize(
    "name, index",
    [
        ("standings", r"session_active \(tenant=\? AND \(last_activity_at,id\)<\(\?,\?\)\)"),
        ("workflow_page", r"session_listed \(tenant=\? AND id<\?\)"),
        ("workflow_page_without_chats", r"session_workflow \(tenant=\? AND id<\?\)"),
    ],
)
def test_a_page_of_a_list_is_found_by_an_index_and_is_not_sorted_out_of_all_that_there_is(
    name: str, index: str
) -> None:
    found = next(step for step in _steps(name) if step.startswith("SEARCH session "))
    assert re.search(rf"INDEX {index}", found), found


def _steps(name: str) -> list[str]:
    """How SQLite goes about a statement."""
    connection = sqlite3.connect(":memory:")
    connection.executescript(statements.script("schema.sql"))
    sql = statements.queries()[name]
    numbered = [int(number) for number in re.findall(r"\?(\d+)", sql)]
    params = [None] * (max(numbered) if numbered else sql.count("?"))
    return [str(step) for *_, step in connection.execute(f"EXPLAIN QUERY PLAN {sql}", params)]


def test_two_statements_of_one_name_are_refused() -> None:
    with pytest.raises(ValueError, match="same name"):
        statements.parse("-- name: a\nSELECT 1;\n-- name: a\nSELECT 2;")
