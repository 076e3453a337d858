"""The store of a test on PostgreSQL: a database for each path that would be a file of SQLite's.

Not a schema, because notifications and advisory locks belong to databases. Each is copied from a template, which costs
20 ms, and is dropped with the test that asked for it.
"""

import asyncio
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cached_property
from itertools import count
from pathlib import Path

import psycopg
from psycopg import sql
from pydantic import SecretStr

from stellwerk.database.postgres import Postgres
from stellwerk.settings import Settings
from tests.stores import Row, Tables, files_below, path_of

LOCKS = Path(__file__).parent / "database/locks.sql"
"""An operation that writes without its lock fails, here and in every test."""


class PostgresTables(Tables):
    def __init__(self, connection: "psycopg.Connection[Row]") -> None:
        self._connection, self._is_locked = connection, False

    def _execute(self, statement: str, params: tuple[object, ...]) -> "psycopg.Cursor[Row]":
        text = statement.replace("%", "%%").replace("?", "%s") if params else statement
        return self._connection.execute(text.encode(), params or None)

    def rows(self, statement: str, *params: object) -> list[Row]:
        return self._execute(statement, params).fetchall()

    def change(self, statement: str, *params: object) -> int:
        if not self._is_locked:
            self._connection.execute("SELECT lock_sessions(ARRAY(SELECT id FROM session)), pg_advisory_xact_lock(0)")
            self._is_locked = True
        return self._execute(statement, params).rowcount

    def names(self) -> list[str]:
        return [name for (name,) in self.rows("SELECT tablename FROM pg_tables WHERE schemaname = current_schema()")]

    def integrity(self) -> list[str]:
        return ["ok"]

    def hide(self, table: str) -> None:
        self.change(f"REVOKE ALL ON {table} FROM CURRENT_USER")

    def refuse_rows(self, table: str, reason: str) -> None:
        raising = f"BEGIN RAISE EXCEPTION '{reason}'; END"
        self.change(f"CREATE FUNCTION no_rows() RETURNS trigger LANGUAGE plpgsql AS $body${raising}$body$")
        self.change(f"CREATE TRIGGER no_rows BEFORE INSERT ON {table} FOR EACH ROW EXECUTE FUNCTION no_rows()")

    def accept_rows(self, table: str) -> None:
        self.change(f"DROP TRIGGER no_rows ON {table}")
        self.change("DROP FUNCTION no_rows")


class PostgresStore:
    """The databases of one process that runs tests."""

    def __init__(self, server: Callable[[str], str], *, only: str | None = None) -> None:
        """``server`` gives the URL of a database by its name."""
        self._server, self._numbers, self._only = server, count(), only
        self._urls, self._made = dict[Path, str](), list[str]()
        self._unnamed: str | None = None

    @classmethod
    def of_url(cls, url: str) -> "PostgresStore":
        """A store that is one database, whatever path is named."""
        return cls(lambda _: url, only=url)

    def url(self, place: Path) -> str:
        """The database of a path; the first path that a test names gets the one of its environment."""
        if self._only is not None:
            return self._only
        path = path_of(place)
        if path not in self._urls:
            self._urls[path], self._unnamed = self._unnamed or self._new(), None
        return self._urls[path]

    @contextmanager
    def scope(self) -> Iterator[dict[str, str]]:
        """What is asked for meanwhile is dropped at the end; yields variables for the environment."""
        before = self._urls, self._made, self._unnamed
        self._urls, self._made = {**self._urls}, []
        try:
            self._unnamed = self._new()
            yield {"STELLWERK_DATABASE": self._unnamed}
        finally:
            made = self._made
            self._urls, self._made, self._unnamed = before
            for name in made:
                self._admin.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))

    def database(self, path: Path) -> Postgres:
        return Postgres(self.url(path))

    def settings(self, settings: Settings) -> Settings:
        return settings.model_copy(update={"database": SecretStr(self.url(settings.data))})

    def environment(self, data: Path) -> dict[str, str]:
        return {"STELLWERK_DATABASE": self.url(data)}

    def secret_url(self, data: Path) -> SecretStr:
        return SecretStr(self.url(data))

    @contextmanager
    def beside(self, place: Path) -> Iterator[PostgresTables]:
        with psycopg.connect(self.url(place)) as connection:
            yield PostgresTables(connection)

    @contextmanager
    def untouched(self, place: Path, scratch: Path) -> Iterator[PostgresTables]:
        """As of one moment, whatever others write meanwhile."""
        with psycopg.connect(self.url(place)) as connection:
            connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            yield PostgresTables(connection)

    def contents(self, folder: Path) -> dict[str, bytes]:
        found = files_below(folder)
        for path in self._urls:
            if path.is_relative_to(folder):
                with self.beside(path) as tables:
                    for name in tables.names():
                        values = [value for row in tables.rows(f"SELECT * FROM {name}") for value in row]
                        found[f"table {name}"] = b"\n".join(
                            value if isinstance(value, bytes) else str(value).encode() for value in values
                        )
        return found

    def copy(self, here: Path, there: Path) -> None:
        with psycopg.connect(self.url(here)) as now, psycopg.connect(self.url(there)) as then:
            now.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            for name in PostgresTables(then).names():  # the tables of LangGraph's store come later, and stay behind
                table = sql.Identifier(name)
                then.execute(sql.SQL("ALTER TABLE {} DISABLE TRIGGER USER").format(table))
                then.execute(sql.SQL("DELETE FROM {}").format(table))
                _copy_rows(now, then, table)
                then.execute(sql.SQL("ALTER TABLE {} ENABLE TRIGGER USER").format(table))
            for name, last in now.execute("SELECT sequencename::text, last_value FROM pg_sequences").fetchall():
                if last is not None:
                    then.execute("SELECT setval(%s::regclass, %s)", (name, last))

    def close(self) -> None:
        """Drop what is left, for a server that outlives the run."""
        if "_admin" in vars(self):
            self._admin.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(self._template)))
            self._admin.close()

    @cached_property
    def _admin(self) -> "psycopg.Connection[Row]":
        return psycopg.connect(self._server("postgres"), autocommit=True)

    @cached_property
    def _template(self) -> str:
        name = f"template_{os.getpid()}"
        self._admin.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        with ThreadPoolExecutor(1) as thread:  # a loop may be running in this one
            thread.submit(asyncio.run, _migrated(self._server(name))).result()
        with psycopg.connect(self._server(name)) as connection:
            connection.execute(LOCKS.read_bytes())
        return name

    def _new(self) -> str:
        name = f"test_{os.getpid()}_{next(self._numbers)}"
        making = "CREATE DATABASE {} TEMPLATE {}"
        if self._admin.info.server_version >= 150000:
            making += " STRATEGY file_copy"  # older ones know no other
        self._admin.execute(sql.SQL(making).format(sql.Identifier(name), sql.Identifier(self._template)))
        self._made.append(name)
        return self._server(name)


async def _migrated(url: str) -> None:
    database = Postgres(url)
    await database.open()
    await database.close()


def _copy_rows(now: "psycopg.Connection[Row]", then: "psycopg.Connection[Row]", table: sql.Identifier) -> None:
    reading = sql.SQL("COPY {} TO STDOUT (FORMAT binary)").format(table)
    writing = sql.SQL("COPY {} FROM STDIN (FORMAT binary)").format(table)
    with now.cursor().copy(reading) as rows, then.cursor().copy(writing) as copied:
        for data in rows:
            copied.write(data)
