"""The database in one SQLite file: one writer thread with group commit, a few reader threads.

All bookkeeping happens on the event loop; the threads only ever see a batch that was handed to them.
So there is no lock, and a batch that fails on the writer thread fails its own jobs and nothing else.
"""

import asyncio
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future as Flight
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import structlog

from stellwerk.database import statements
from stellwerk.database.folder import begin_for_owner, for_owner
from stellwerk.database.locks import NamedLocks
from stellwerk.database.port import Operation, P, R, Row
from stellwerk.errors import SettingsError, StorageClosed, StorageFull, StorageGone
from stellwerk.metrics import Histogram

logger = structlog.get_logger(__name__)

_READERS = 4
_BUSY_TIMEOUT = 5000
_BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5)
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

    def run_many(self, query: str, rows: Iterable[Sequence[Any]]) -> None:
        self._connection.executemany(self._queries[query], rows)


@dataclass(frozen=True, slots=True)
class _Job:
    operation: Operation[Any, Any]
    item: Any
    future: "asyncio.Future[Any]"
    urgent: bool


class Sqlite:
    """``open`` it on the loop that uses it; ``close`` it there, too."""

    def __init__(self, path: Path) -> None:
        self.commit_seconds = Histogram("stellwerk_commit_seconds", "Seconds that a commit took.", bounds=_BOUNDS)
        self._path = path.absolute()  # a tool may change the folder of the process
        self._ballast = Ballast(path.with_suffix(".ballast"))
        self._queries = statements.queries()
        self._pending: list[_Job] = []
        self._waiting: list[Callable[[], None]] = []
        self._in_flight = False
        self._closing: asyncio.Future[None] | None = None
        self._writer = ThreadPoolExecutor(1, "sqlite-writer")
        self._readers = ThreadPoolExecutor(_READERS, "sqlite-reader")
        self._local = threading.local()
        self._opened: list[sqlite3.Connection] = []
        self.locked = NamedLocks().locked

    async def open(self) -> None:
        self._loop = asyncio.get_running_loop()
        try:
            await self._loop.run_in_executor(self._writer, self._open_writer)
        except (sqlite3.Error, OSError) as error:
            remedy = "restore it from a backup, or name another folder with --data"
            raise SettingsError(f"cannot open the database {self._path}: {error}; {remedy}") from error

    def submit(self, operation: Operation[P, R], item: P, *, urgent: bool = False) -> "asyncio.Future[R]":
        future: asyncio.Future[R] = self._loop.create_future()
        if self._closing is not None:
            future.set_exception(StorageClosed())
            return future
        if not self._pending and not self._in_flight:
            # Not at once: what else this turn of the loop submits shares the commit.
            self._loop.call_soon(self._take_off)
        self._pending.append(_Job(operation, item, future, urgent))
        return future

    def when_free(self, call: Callable[[], None]) -> None:
        if self._in_flight:
            self._waiting.append(call)
        else:
            self._loop.call_soon(call)

    async def check(self) -> None:
        """
        Raises:
            StorageGone: the database's files were deleted or replaced; writes fail from then on.
        """
        await self._loop.run_in_executor(self._readers, self._check_files)

    async def read(self, query: Callable[[SqliteTransaction], R]) -> R:
        return await self._loop.run_in_executor(self._readers, self._read, query)

    async def truncate(self) -> bool:
        return await self._loop.run_in_executor(self._writer, self._truncate)

    async def close(self) -> None:
        if self._closing is None:
            self._closing = self._loop.create_future()
            if not self._pending and not self._in_flight:
                self._closing.set_result(None)
        await asyncio.shield(self._closing)
        self._readers.shutdown()
        await self._loop.run_in_executor(self._writer, self._close_connections)
        self._writer.shutdown()

    # On the loop.

    def _take_off(self) -> None:
        if self._in_flight or not self._pending:
            return
        batch, self._pending = self._pending, []
        self._launch(batch)

    def _launch(self, batch: list[_Job]) -> None:
        self._in_flight, self._took_off = True, self._loop.time()
        on_loop = self._loop.call_soon_threadsafe
        flight = self._writer.submit(self._commit, batch)
        flight.add_done_callback(lambda done: on_loop(self._landed, batch, done))

    def _landed(self, batch: list[_Job], flight: Flight[list[Any]]) -> None:
        self._in_flight = False
        self.commit_seconds.add(self._loop.time() - self._took_off)
        failure = flight.exception()
        if failure is None:
            for job, outcome in zip(batch, flight.result(), strict=True):
                _settle(job, outcome)
        elif len(batch) > 1 and not isinstance(failure, StorageFull | StorageGone):
            # One bad item must not fail its neighbours: each again, alone.
            self._pending[:0] = batch[1:]
            self._launch(batch[:1])
            return
        else:
            for job in batch:
                _settle(job, failure)
        waiting, self._waiting = self._waiting, []
        for call in waiting:
            self._loop.call_soon(call)  # each for itself: one that raises must not stop the others
        # Behind them: what they hand over shares the next commit.
        self._loop.call_soon(self._take_off)
        if self._closing is not None and not self._pending and not self._closing.done():
            self._closing.set_result(None)

    # On the writer thread.

    def _open_writer(self) -> None:
        begin_for_owner(self._path)
        self._connection = self._connect()
        self._migrate()
        self._flush = int(self._connection.execute(self._queries["last_flush"]).fetchone()[0])
        self._files = {path: _identity(path) for path in (str(self._path), f"{self._path}-wal")}
        self._ballast.restore()

    def _check_files(self) -> None:
        """Check that the open files are still at their paths. Reader threads call it, too."""
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

    def _commit(self, batch: list[_Job]) -> list[Any]:
        """All jobs in one transaction; an outcome per job, or an exception for the whole batch."""
        self._check_files()
        full = self._ballast.released and not self._ballast.restore()
        try:
            outcomes = self._transact(batch, full)
        except StorageFull:
            if not any(job.urgent for job in batch):
                raise
            # There is room again, if only a little: for what is urgent.
            outcomes = self._transact(batch, full=True)
        self._check_files()  # if the files are gone, the commit must not be acknowledged
        return outcomes

    def _transact(self, batch: list[_Job], full: bool) -> list[Any]:
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            outcomes = self._apply(batch, full)
            self._connection.execute("COMMIT")
        except sqlite3.Error as error:
            raise self._storage_error(error) from error
        finally:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
        return outcomes

    def _apply(self, batch: list[_Job], full: bool) -> list[Any]:
        self._flush += 1
        transaction = SqliteTransaction(self._connection, self._queries, self._flush)
        outcomes: list[Any] = []
        for (operation, admitted), jobs in groupby(batch, key=lambda job: (job.operation, job.urgent or not full)):
            items = [job.item for job in jobs]
            outcomes += operation(transaction, items) if admitted else [StorageFull() for _ in items]
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
            self._check_files()  # another file at the path is not our database
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


def _settle(job: _Job, outcome: Any) -> None:
    if job.future.done():  # the caller was cancelled; the write is committed
        return
    if isinstance(outcome, BaseException):
        job.future.set_exception(outcome)
    else:
        job.future.set_result(outcome)
