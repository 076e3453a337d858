"""The store of a test: opened, read and changed beside the server that uses it, and copied as a crash would leave it.

SQLite, or PostgreSQL with ``--store=postgres`` and in modules that are marked ``both_stores``. A store is named by its
data folder, or by the path that SQLite's file has or would have.
"""

import shutil
import sqlite3
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AbstractContextManager, asynccontextmanager, closing, contextmanager
from pathlib import Path
from typing import Any, Protocol

from pydantic import SecretStr

from stellwerk.database.folder import DATABASE
from stellwerk.database.port import OpenableDatabase
from stellwerk.database.sqlite import Sqlite
from stellwerk.settings import Settings

Row = tuple[Any, ...]


class Tables(Protocol):
    """The tables of a store, on a connection of the test's own; parameters are ``?``."""

    def rows(self, statement: str, *params: object) -> list[Row]: ...

    def value(self, statement: str, *params: object) -> Any:
        """The only value of the only row."""
        ((found,),) = self.rows(statement, *params)
        return found

    def change(self, statement: str, *params: object) -> int:
        """Execute and return how many rows it touched."""

    def names(self) -> list[str]: ...

    def integrity(self) -> list[str]:
        """What the store itself finds when it checks its files; ``["ok"]`` if they are whole."""

    def hide(self, table: str) -> None:
        """From now on the server cannot read a table."""

    def refuse_rows(self, table: str, reason: str) -> None:
        """From now on nothing can be inserted into a table."""

    def accept_rows(self, table: str) -> None: ...


class Store(Protocol):
    def scope(self) -> AbstractContextManager[Mapping[str, str]]:
        """What is made meanwhile goes at the end; yields variables for the environment of servers."""

    def database(self, place: Path) -> OpenableDatabase:
        """The store as the server opens it."""

    def beside(self, place: Path) -> AbstractContextManager[Tables]:
        """The tables as they are committed; what is changed is committed at the end."""

    def untouched(self, place: Path, scratch: Path) -> AbstractContextManager[Tables]:
        """The tables of a store that no server uses, which finds them as they were."""

    def contents(self, folder: Path) -> dict[str, bytes]:
        """What is kept in a folder and in the stores that belong to it, by the name of its place."""

    def copy(self, here: Path, there: Path) -> None:
        """What is committed at this moment and nothing else, as another store."""

    def settings(self, settings: Settings) -> Settings:
        """The settings of a server with this store."""

    def environment(self, data: Path) -> Mapping[str, str]:
        """The same for a server that is a process of its own."""

    def secret_url(self, data: Path) -> SecretStr | None:
        """The same as one setting."""


class SqliteTables(Tables):
    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def rows(self, statement: str, *params: object) -> list[Row]:
        return self._connection.execute(statement, params).fetchall()

    def change(self, statement: str, *params: object) -> int:
        return self._connection.execute(statement, params).rowcount

    def names(self) -> list[str]:
        return [name for (name,) in self.rows("SELECT name FROM sqlite_schema WHERE type = 'table'")]

    def integrity(self) -> list[str]:
        return [str(row[0]) for row in self.rows("PRAGMA integrity_check")]

    def hide(self, table: str) -> None:
        self.change(f"ALTER TABLE {table} RENAME TO lost")

    def refuse_rows(self, table: str, reason: str) -> None:
        self.change(f"CREATE TRIGGER no_rows BEFORE INSERT ON {table} BEGIN SELECT RAISE(ABORT, '{reason}'); END")

    def accept_rows(self, table: str) -> None:
        self.change("DROP TRIGGER no_rows")


class SqliteStore:
    @contextmanager
    def scope(self) -> Iterator[Mapping[str, str]]:
        yield {}

    def database(self, place: Path) -> Sqlite:
        return Sqlite(path_of(place))

    @contextmanager
    def beside(self, place: Path) -> Iterator[SqliteTables]:
        with closing(sqlite3.connect(path_of(place), timeout=60)) as connection, connection:
            yield SqliteTables(connection)

    @contextmanager
    def untouched(self, place: Path, scratch: Path) -> Iterator[SqliteTables]:
        """From a copy of its files: to open them would recover them."""
        scratch.mkdir(parents=True, exist_ok=True)
        for suffix in ("", "-wal"):
            here, there = (Path(f"{path_of(folder)}{suffix}") for folder in (place, scratch))
            there.unlink(missing_ok=True)
            if here.exists():
                shutil.copyfile(here, there)
        with self.beside(scratch) as tables:
            yield tables

    def contents(self, folder: Path) -> dict[str, bytes]:
        return files_below(folder)

    def copy(self, here: Path, there: Path) -> None:
        with closing(sqlite3.connect(path_of(here))) as now, closing(sqlite3.connect(path_of(there))) as then:
            now.backup(then)

    def settings(self, settings: Settings) -> Settings:
        return settings

    def environment(self, data: Path) -> Mapping[str, str]:
        return {}

    def secret_url(self, data: Path) -> SecretStr | None:
        return None


class _Chosen:
    store: Store | None = None


@contextmanager
def using(store: Store) -> Iterator[None]:
    """The functions below are about this store meanwhile."""
    before, _Chosen.store = _Chosen.store, store
    try:
        yield
    finally:
        _Chosen.store = before


def current() -> Store:
    """The chosen one; in a process that a test has started, the one of its environment."""
    if _Chosen.store is None:
        url = Settings().database
        if url is None:
            return SqliteStore()
        from tests.postgres_store import PostgresStore  # needs the extra

        return PostgresStore.of_url(url.get_secret_value())
    return _Chosen.store


def database(place: Path) -> OpenableDatabase:
    """Still to be opened."""
    return current().database(place)


@asynccontextmanager
async def opened(place: Path) -> AsyncIterator[OpenableDatabase]:
    found = database(place)
    await found.open()
    try:
        yield found
    finally:
        await found.close()


def beside(place: Path) -> AbstractContextManager[Tables]:
    return current().beside(place)


def untouched(place: Path, scratch: Path) -> AbstractContextManager[Tables]:
    return current().untouched(place, scratch)


def contents(folder: Path) -> dict[str, bytes]:
    return current().contents(folder)


def copy(here: Path, there: Path) -> None:
    current().copy(here, there)


def settings(settings: Settings) -> Settings:
    return current().settings(settings)


def environment(data: Path) -> Mapping[str, str]:
    return current().environment(data)


def secret_url(data: Path) -> SecretStr | None:
    return current().secret_url(data)


def files_below(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def path_of(place: Path) -> Path:
    return place.absolute() if place.suffix == ".db" else place.absolute() / DATABASE
