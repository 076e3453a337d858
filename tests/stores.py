"""The store of a test: opened, read and changed beside the server that uses it, and copied as a crash would leave it.

A store is named by its data folder, or by the path of its file.
"""

import shutil
import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from pathlib import Path
from typing import Any

from stellwerk.database.folder import DATABASE
from stellwerk.database.port import Database
from stellwerk.database.sqlite import Sqlite

Row = tuple[Any, ...]


class Tables:
    """The tables of a store, on a connection of the test's own; parameters are ``?``."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def rows(self, statement: str, *params: object) -> list[Row]:
        return self._connection.execute(statement, params).fetchall()

    def value(self, statement: str, *params: object) -> Any:
        """The only value of the only row."""
        ((found,),) = self.rows(statement, *params)
        return found

    def change(self, statement: str, *params: object) -> int:
        """Execute and return how many rows it touched."""
        return self._connection.execute(statement, params).rowcount

    def names(self) -> list[str]:
        return [name for (name,) in self.rows("SELECT name FROM sqlite_schema WHERE type = 'table'")]

    def integrity(self) -> list[str]:
        """What the store itself finds when it checks its files; ``["ok"]`` if they are whole."""
        return [str(row[0]) for row in self.rows("PRAGMA integrity_check")]

    def refuse_rows(self, table: str, reason: str) -> None:
        """From now on nothing can be inserted into a table."""
        self.change(f"CREATE TRIGGER no_rows BEFORE INSERT ON {table} BEGIN SELECT RAISE(ABORT, '{reason}'); END")

    def accept_rows(self, table: str) -> None:
        self.change("DROP TRIGGER no_rows")


@asynccontextmanager
async def opened(place: Path) -> AsyncIterator[Database]:
    """The store as the server opens it, for this loop."""
    database = Sqlite(path_of(place))
    await database.open()
    try:
        yield database
    finally:
        await database.close()


@contextmanager
def beside(place: Path) -> Iterator[Tables]:
    """The tables as they are committed; what is changed is committed at the end."""
    with closing(sqlite3.connect(path_of(place), timeout=60)) as connection, connection:
        yield Tables(connection)


@contextmanager
def untouched(place: Path, scratch: Path) -> Iterator[Tables]:
    """The tables of a store that no server uses, read from a copy of its files: to open them would recover them."""
    scratch.mkdir(parents=True, exist_ok=True)
    for suffix in ("", "-wal"):
        here, there = (Path(f"{path_of(folder)}{suffix}") for folder in (place, scratch))
        there.unlink(missing_ok=True)
        if here.exists():
            shutil.copyfile(here, there)
    with beside(scratch) as tables:
        yield tables


def copy(here: Path, there: Path) -> None:
    """What is committed at this moment and nothing else, as another store."""
    with closing(sqlite3.connect(path_of(here))) as now, closing(sqlite3.connect(path_of(there))) as then:
        now.backup(then)


def path_of(place: Path) -> Path:
    return place if place.suffix == ".db" else place / DATABASE
