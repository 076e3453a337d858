"""The database in one SQLite file: one writer thread with group commit, a few reader threads."""

import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import structlog

from stellwerk.database import statements
from stellwerk.database.folder import begin_for_owner, for_owner
from stellwerk.database.group import GroupCommit, Job, applied
from stellwerk.database.locks import NamedLocks
from stellwerk.database.port import R, Row
from stellwerk.errors import SettingsError, StorageFull, StorageGone

logger = structlog.get_logger(__name__)

_READERS = 4
_BUSY_TIMEOUT = 5000
_CACHE_KIB = 16_000
"""Of pages, per connection: the tails of all sessions that grow at the same time."""
_PRAGMAS = (
    "journal_mode=WAL",
    "synchronous=FULL",
    "secure_delete=ON",
    f"busy_timeout={_BUSY_TIMEOUT}",
    "temp_store=MEMORY",
    f"cache_size=-{_CACHE_KIB}",
)
_BALLAST = 8 * 1024 * 1024
"""More than the size of SQLite's write-ahead log, which must be copied to free its space."""
_HEADROOM = 1024 * 1024
_BALLAST_RETRY = 1.0


class Ballast:
    """Disk space held back for stop and delete on a full disk: SQLite needs room to delete.

    When a write finds the disk full, the ballast is dropped; until it is restored only urgent
    writes are admitted.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._tried = 0.0
        self.released = False

    def release(self) -> None:
        self._path.unlink(missing_ok=True)
        self.released = True
        self._tried = time.monotonic()

    def restore(self) -> bool:
        """Take the space back, at most once a second; True if it is held."""
        if self.released:
            if time.monotonic() - self._tried < _BALLAST_RETRY:
                return False
            self._tried = time.monotonic()
            disk = os.statvfs(self._path.parent)
            if disk.f_bavail * disk.f_frsize < _BALLAST + _HEADROOM:
                return False  # it could be held, but nothing else would fit beside it
        try:
            with open(self._path, "wb", opener=for_owner) as file:
                # posix_fallocate really takes the blocks; a sparse file would hold nothing back.
                os.posix_fallocate(file.fileno(), 0, _BALLAST)
        except OSError:
            self._path.unlink(missing_ok=True)
            self.released = True
            return False
        self.released = False
        return True


class SqliteTransaction:
    """Named statements on one connection."""

    def __init__(self, connection: sqlite3.Connection, queries: dict[str, str], flush: int) -> None:
        self._connection, self._queries = connection, queries
        self.flush = flush

    def rows(self, query: str, *params: object) -> list[Row]:
        return self._connection.execute(self._queries[query], params).fetchall()

    def rows_within(self, budget: int, query: str, *params: object) -> list[Row]:
        found: list[Row] = []
        for row in self._connection.execute(self._queries[query], params):
            found.append(row)
            budget -= len(row[-1])
            if budget <= 0:
                break
        return found

    def row(self, query: str, *params: object) -> Row | None:
        # fetchall, not fetchone: RETURNING takes effect when a statement is read to its end.
        found = self._connection.execute(self._queries[query], params).fetchall()
        return found[0] if found else None

    def run(self, query: str, *params: object) -> int:
        return self._connection.execute(self._queries[query], params).rowcount

    def write(self, query: str, *params: object) -> None:
        self._connection.execute(self._queries[query], params)

    def run_many(self, query: str, rows: Iterable[Sequence[Any]]) -> None:
        self._connection.executemany(self._queries[query], rows)

    def lock_free(self, sessions: Iterable[str]) -> set[str]:
        return set(sessions)  # there is one writer


class Sqlite(GroupCommit):
    def __init__(self, path: Path) -> None:
        super().__init__("sqlite", readers=_READERS)
        self._path = path.absolute()  # a tool may change the folder of the process
        self.where = str(self._path)
        self._ballast = Ballast(path.with_suffix(".ballast"))
        self._queries = statements.queries()
        self._local = threading.local()
        self._opened: list[sqlite3.Connection] = []
        self.locked = NamedLocks().locked

    async def open(self) -> None:
        try:
            await super().open()
        except (sqlite3.Error, OSError) as error:
            remedy = "restore it from a backup, or name another folder with --data"
            raise SettingsError(f"cannot open the database {self._path}: {error}; {remedy}") from error

    async def truncate(self) -> bool:
        return await self._loop.run_in_executor(self._writer, self._truncate)

    # On the writer thread.

    def _open_writer(self) -> None:
        begin_for_owner(self._path)
        self._connection = self._connect()
        self._migrate()
        self._flush = int(self._connection.execute(self._queries["last_flush"]).fetchone()[0])
        self._files = {path: _identity(path) for path in (str(self._path), f"{self._path}-wal")}
        self._ballast.restore()

    def _check(self) -> None:
        """Check that the open files are still at their paths. Reader threads call it, too.

        Raises:
            StorageGone: the files were deleted or replaced; writes fail from then on.
        """
        try:
            is_there = all(_identity(path) == known for path, known in self._files.items())
        except OSError:
            is_there = False
        if not is_there:
            raise StorageGone(
                "the database was deleted or replaced while the server runs, and nothing more is stored; "
                "its operator stops the server, restores a backup and starts it again"
            )

    def _connect(self) -> sqlite3.Connection:
        place = f"{self._path.as_uri()}?mode=rw"  # never makes a new file for a missing one
        connection = sqlite3.connect(
            place, uri=True, isolation_level=None, check_same_thread=False, cached_statements=256
        )
        for pragma in _PRAGMAS:
            connection.execute(f"PRAGMA {pragma}")
        self._opened.append(connection)
        return connection

    def _migrate(self) -> None:
        version = int(self._connection.execute("PRAGMA user_version").fetchone()[0])
        for number, script in statements.migrations():
            if number > version:
                self._connection.executescript(f"BEGIN IMMEDIATE; {script}; PRAGMA user_version={number}; COMMIT;")
        self._connection.executescript(statements.script("derived.sql"))

    def _commit(self, batch: list[Job]) -> list[Any]:
        self._check()
        full = self._ballast.released and not self._ballast.restore()
        try:
            outcomes = self._transact(batch, full)
        except StorageFull:
            if not any(job.urgent for job in batch):
                raise
            # There is room again, if only a little: for what is urgent.
            outcomes = self._transact(batch, full=True)
        self._check()  # if the files are gone, the commit must not be acknowledged
        return outcomes

    def _transact(self, batch: list[Job], full: bool) -> list[Any]:
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            self._flush += 1
            transaction = SqliteTransaction(self._connection, self._queries, self._flush)
            outcomes = [*applied(transaction, batch, full=full)]
            self._connection.execute("COMMIT")
        except sqlite3.Error as error:
            raise self._storage_error(error) from error
        finally:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
        return outcomes

    def _storage_error(self, error: sqlite3.Error) -> Exception:
        if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            self._ballast.release()
            self._truncate()  # what the log of the database holds twice is room, too
            return StorageFull()
        if isinstance(error, sqlite3.OperationalError):  # locked, unreadable, gone
            return StorageGone(f"the database cannot be used: {error}; look at the disk and send this again")
        return error

    def _truncate(self) -> bool:
        """False if a reader blocks it, or there is no room even for that; to be retried."""
        self._connection.execute("PRAGMA busy_timeout=0")
        try:
            ((busy, _, _),) = self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        except sqlite3.OperationalError as error:
            logger.warning("checkpoint_failed", error=str(error))
            return False
        finally:
            self._connection.execute(f"PRAGMA busy_timeout={_BUSY_TIMEOUT}")
        return not busy

    def _close_connections(self) -> None:
        for connection in reversed(self._opened):
            connection.close()

    # On a reader thread.

    def _read(self, query: Callable[[SqliteTransaction], R]) -> R:
        connection: sqlite3.Connection | None = getattr(self._local, "connection", None)
        if connection is None:
            self._check()  # another file at the path is not our database
            connection = self._local.connection = self._connect()
            connection.execute("PRAGMA query_only=ON")
        try:
            connection.execute("BEGIN")
            return query(SqliteTransaction(connection, self._queries, 0))
        except sqlite3.OperationalError as error:
            raise StorageGone(f"the database cannot be read: {error}; look at the disk") from error
        finally:
            if connection.in_transaction:
                connection.execute("COMMIT")


def _identity(path: str) -> tuple[int, int]:
    """No other file has the same while this one is open."""
    found = os.stat(path)
    return found.st_dev, found.st_ino
