"""The named statements, on PostgreSQL: each can be prepared there, and takes what it takes on SQLite."""

import asyncio
import re
import sqlite3
from contextlib import closing

import psycopg
import pytest

from stellwerk.database import dialect, statements
from stellwerk.database.postgres import Postgres
from tests.database.conftest import Postgresql

COLUMNS = "SELECT table_name::text, column_name::text FROM information_schema.columns WHERE table_schema = 'public'"
# What all processes would write is counted by each in tenant_tally; the other is no row.
ONLY_ON_SQLITE = {("tenant", "held"), ("tenant", "served_at"), ("readiness", "id"), ("readiness", "writes")}


async def test_every_statement_can_be_prepared_on_a_schema_with_the_same_columns(postgresql: Postgresql) -> None:
    url = postgresql.new()
    database = Postgres(url)
    await database.open()
    await database.close()

    def prepare() -> set[tuple[str, str]]:
        with psycopg.connect(url, autocommit=True) as connection:
            for name, text in dialect.queries().items():
                connection.execute(f"PREPARE {name} AS {text}")
            return set(connection.execute(COLUMNS).fetchall())

    columns = await asyncio.to_thread(prepare)
    with closing(sqlite3.connect(":memory:")) as own:
        own.executescript(statements.script("schema.sql"))
        tables = [name for (name,) in own.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
        on_sqlite = {(table, row[1]) for table in tables for row in own.execute(f"PRAGMA table_info({table})")}
    on_sqlite = {(table, "log_bytes" if column == "told" else column) for table, column in on_sqlite}
    assert {(t, c) for t, c in on_sqlite - columns if not t.startswith("sqlite_")} == ONLY_ON_SQLITE


def test_every_statement_takes_the_same_parameters_as_on_sqlite() -> None:
    own = statements.queries()
    there = dialect.queries()
    of_nodes = statements.parse(statements.script("postgres/cluster.sql")).keys() - own.keys()
    taken = {name: numbers(dialect.translated(text)) for name, text in own.items()}
    for name in there.keys() - own.keys() - of_nodes:
        base, _, form = name.rpartition("_")
        budget = {len(taken[base]) + 1} if form == "within" else set()
        assert form in ("within", "many")
        taken[name] = taken[base] | budget
    assert {name: numbers(text) for name, text in there.items() if name not in of_nodes} == taken


def numbers(text: str) -> set[int]:
    return {int(number) for number in re.findall(r"\$(\d+)", text)}


@pytest.mark.parametrize(
    ("text", "translated"),
    [
        ("SELECT a FROM t WHERE b = ? AND c = ?", "SELECT a FROM t WHERE b = $1 AND c = $2"),
        ("SELECT ?2, '?', ?1", "SELECT $2, '?', $1"),
        ("id IN (SELECT value FROM json_each(?1))", "id IN (SELECT json_array_elements_text($1::json))"),
        ("UPDATE t SET a = ? WHERE a IS NOT ?", "UPDATE t SET a = $1 WHERE a IS DISTINCT FROM $2"),
        ("SELECT max(a), max(b, coalesce(c, d))", "SELECT max(a), greatest(b, coalesce(c, d))"),
        ("SELECT max(coalesce(a, b))", "SELECT max(coalesce(a, b))"),
    ],
)
def test_what_differs_is_translated(text: str, translated: str) -> None:
    assert dialect.translated(text) == translated


def test_no_statement_asks_for_the_user_of_the_database_in_place_of_a_column() -> None:
    bare = re.compile(r"""(?<!["'\w:])user\b(?!["'])""")
    assert [name for name, text in dialect.queries().items() if bare.search(text)] == []
