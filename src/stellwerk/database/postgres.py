"""The database on PostgreSQL: one writer thread with group commit, a few reader threads.

Several processes may write. What is read before it is written is locked first: a batch begins with
the locks of all its items, each kind in one order, so two batches never wait for each other.
"""

import os
import random
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from hashlib import blake2b
from itertools import chain
from typing import Any

import psycopg
import structlog
from psycopg import errors
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import TransactionStatus
from psycopg.types import numeric

from stellwerk.database import arrays, dialect, statements
from stellwerk.database.arrays import array
from stellwerk.database.group import GroupCommit, Job, applied
from stellwerk.database.port import SESSION, Lock, R, Row, Transaction, locks_of
from stellwerk.database.postgres_locks import PostgresLocks
from stellwerk.errors import InvalidField, SettingsError, StorageFull, StorageGone
from stellwerk.ids import random_token

logger = structlog.get_logger(__name__)

_READERS = 3
_ATTEMPTS = 5
_OLDEST = 14
_CLIENT = {
    "connect_timeout": "3",
    "keepalives_idle": "1",
    "keepalives_interval": "1",
    "keepalives_count": "2",
    "tcp_user_timeout": "3000",
    "target_session_attrs": "read-write",
    "application_name": "stellwerk",
}
"""A host that is cut off is noticed within seconds; of several hosts, the one that takes writes is found."""
_SESSION = {
    "statement_timeout": "20s",
    "lock_timeout": "5s",
    "tcp_keepalives_idle": "1",
    "tcp_keepalives_interval": "1",
    "tcp_keepalives_count": "2",
}
_WRITER = {"idle_in_transaction_session_timeout": "2s"}
"""A process that is stopped in a transaction loses it, and its locks with it."""
_READER = {"idle_in_transaction_session_timeout": "30s"}
_LOCK_SESSIONS = "SELECT lock_sessions($1::text[])"
_LOCK_FREE = "SELECT lock_free_sessions($1::text[])"
_NAME_LENGTH = 50
"""Characters of a node's id, from its end, in the names of its connections; the server keeps 63 of a name."""
_LOCK_NAMES = "SELECT pg_advisory_xact_lock(key) FROM unnest($1::bigint[]) AS key"
_GONE = ("08", "25", "40", "42501", "53", "55", "57", "58", "XX")
"""The classes of errors that say that the database cannot be used now, and not that a statement is wrong."""
_DISK_FULL = "53100"
_ADD_UP = """
WITH gone AS (
    DELETE FROM tenant_tally WHERE (tenant, node) IN (
        SELECT tenant, node FROM tenant_tally WHERE node <> '' AND NOT EXISTS (SELECT 1 FROM node
            WHERE node.id = tenant_tally.node AND node.until > extract(epoch FROM clock_timestamp()))
        FOR UPDATE SKIP LOCKED
    ) RETURNING tenant, held, served_at
)
INSERT INTO tenant_tally (tenant, node, held, served_at)
SELECT tenant, '', sum(held), max(served_at) FROM gone GROUP BY tenant
ON CONFLICT (tenant, node) DO UPDATE SET held = tenant_tally.held + excluded.held,
    served_at = greatest(tenant_tally.served_at, excluded.served_at)
"""

Connection = psycopg.Connection[Row]
Cursor = psycopg.Cursor[Row]


class _WholeNumber(numeric.NumericBinaryLoader):
    """Sums of whole numbers are numeric here, and are whole."""

    def load(self, data: Any) -> int:  # type: ignore[override]
        return int(super().load(data))


class PostgresTransaction:
    """Named statements on one connection. Writes without a result go to the server with the next statement."""

    def __init__(self, cursor: Cursor, flush: int) -> None:
        self._cursor, self._queries = cursor, dialect.queries()
        self._later: list[tuple[str, Sequence[object]]] = []
        self.flush = flush

    def rows(self, query: str, *params: object) -> list[Row]:
        if self._has_nul(query, params):  # no text here has one
            return []
        return self._executed(self._queries[query], params).fetchall()

    def rows_within(self, budget: int, query: str, *params: object) -> list[Row]:
        return self.rows(f"{query}_within", *params, budget)

    def row(self, query: str, *params: object) -> Row | None:
        if self._has_nul(query, params):
            return None
        return self._executed(self._queries[query], params).fetchone()

    def run(self, query: str, *params: object) -> int:
        if self._has_nul(query, params):
            raise _nul_refused()
        return self._executed(self._queries[query], params).rowcount

    def write(self, query: str, *params: object) -> None:
        if self._has_nul(query, params):
            raise _nul_refused()
        self._later.append((self._queries[query], params))

    def run_many(self, query: str, rows: Iterable[Sequence[Any]]) -> None:
        found = list(rows)
        many = self._queries.get(f"{query}_many")
        if not found:
            return
        if any(self._has_nul(query, row) for row in found) if many is None else _texts_have_nul(found):
            raise _nul_refused()
        if many is None:
            self.finish()
            self._cursor.executemany(self._queries[query], found)
        else:
            self._later.append((many, [array(column) for column in zip(*found, strict=True)]))

    def _has_nul(self, query: str, params: Iterable[object]) -> bool:
        """Whether there is a NUL in a text, or in a list of texts: PostgreSQL has none."""
        nul = ("\0", "\\u0000") if query in dialect.with_lists() else ("\0",)
        return any(isinstance(each, str) and any(form in each for form in nul) for each in params)

    def lock_free(self, sessions: Iterable[str]) -> set[str]:
        return {session_id for (session_id,) in self._executed(_LOCK_FREE, [sorted(sessions)])}

    def finish(self) -> None:
        """Execute what still waits for a next statement."""
        if self._later:
            self._executed(*self._later.pop())

    def _executed(self, text: str, params: Sequence[object]) -> Cursor:
        if self._later:
            before, self._later = self._later, []
            connection = self._cursor.connection
            with connection.pipeline():
                for each in before:
                    connection.execute(*each)
                self._cursor.execute(text, params)
        else:
            self._cursor.execute(text, params)
        return self._cursor


class Postgres(GroupCommit):
    """``node`` is the name of this process in the database; a new one for each start."""

    def __init__(self, url: str, *, node: str | None = None) -> None:
        super().__init__("postgres", readers=_READERS)
        self.node = node or f"{socket.gethostname()}-{os.getpid()}-{random_token(6)}"
        self._options = options_of(url)
        self.where = _place(self._options)
        self._connection: Connection | None = None
        self._is_committing = False
        self._flush = 0
        self._local = threading.local()
        self._opened: set[Connection] = set()
        self._locks = PostgresLocks(self._connect_alone, lambda name: advisory_key(Lock("name", name)), storage_error)
        self.locked = self._locks.locked

    def beside(self, settings: dict[str, str]) -> Connection:
        """Another connection, for a thread of its own; its owner closes it."""
        named = {"stellwerk.node": self.node, "application_name": f"stellwerk {self.node[-_NAME_LENGTH:]}"}
        return connected(self._options, {**settings, **named})

    async def truncate(self) -> bool:
        return True  # the space of deleted rows is used again; autovacuum clears it

    # On the writer thread.

    def _open_writer(self) -> None:
        with _as_settings_errors(self._options):
            self._connection = connection = self._connect(_WRITER)
            _refuse_unusable(connection)
            _migrate(connection)
            _refuse_missing_rights(connection)
            connection.execute(_ADD_UP)
            connection.commit()

    def _connect(self, settings: dict[str, str]) -> Connection:
        connection = self.beside(settings)
        self._opened.add(connection)
        return connection

    def _connect_alone(self) -> Connection:
        """Without transactions, for what outlasts them."""
        connection = self._connect({})
        connection.autocommit = True
        return connection

    def _commit(self, batch: list[Job]) -> list[Any]:
        for left in reversed(range(_ATTEMPTS)):
            self._is_committing = False
            try:
                return self._transact(batch)
            except psycopg.Error as error:
                is_lost = self._connection is None
                # Before the commit nothing is stored: what only came at a bad moment is tried again.
                is_certain = not (is_lost and self._is_committing)
                is_deadlock = isinstance(error, errors.DeadlockDetected)
                if left and is_certain and (is_lost or is_deadlock):
                    if is_deadlock:
                        time.sleep(random.uniform(0, 0.05))  # or both would meet again
                    continue
                raise storage_error(error) from error
        raise AssertionError("the last attempt returns or raises")

    def _transact(self, batch: list[Job]) -> list[Any]:
        connection = self._connection = self._connection or self._connect(_WRITER)
        try:
            with connection.cursor(binary=True) as cursor:
                self._flush = max(self._flush + 1, _locked(cursor, batch))
                transaction = PostgresTransaction(cursor, self._flush)
                outcomes = [*applied(transaction, batch)]
                transaction.finish()
            self._is_committing = True
            connection.commit()
        finally:
            if not self._is_idle(connection):
                self._connection = None
        return outcomes

    def _is_idle(self, connection: Connection) -> bool:
        """True if the connection can be used again; what it has begun is rolled back, else it is closed."""
        if connection.info.transaction_status != TransactionStatus.IDLE:
            with suppress(psycopg.Error):
                connection.rollback()
        if connection.info.transaction_status == TransactionStatus.IDLE:
            return True
        self._opened.discard(connection)
        with suppress(psycopg.Error):
            connection.close()
        return False

    def _close_connections(self) -> None:
        self._locks.close()
        for connection in self._opened:
            connection.close()

    # On a reader thread.

    def _check(self) -> None:
        self._read(lambda tx: tx.row("last_change", ""))

    def _read(self, query: Callable[[Transaction], R]) -> R:
        is_known = getattr(self._local, "connection", None) is not None
        try:
            return self._queried(query)
        except (psycopg.OperationalError, psycopg.InterfaceError) as error:
            if not is_known:
                raise storage_error(error) from error
        except psycopg.Error as error:
            raise storage_error(error) from error
        # A connection that was open may have been lost long ago: another one decides.
        try:
            return self._queried(query)
        except psycopg.Error as error:
            raise storage_error(error) from error

    def _queried(self, query: Callable[[Transaction], R]) -> R:
        connection: Connection | None = getattr(self._local, "connection", None)
        if connection is None:
            connection = self._local.connection = self._connect(_READER)
            connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            connection.read_only = True
        try:
            with connection.cursor(binary=True) as cursor:
                found = query(PostgresTransaction(cursor, 0))
            connection.commit()
        finally:
            if not self._is_idle(connection):
                self._local.connection = None
        return found


@contextmanager
def reading(url: str) -> Iterator[PostgresTransaction | None]:
    """One look at a database that may not be set up yet, which is not changed; None if it is not set up."""
    options = options_of(url)
    with _as_settings_errors(options), connected(options, _READER) as connection:
        connection.read_only = True
        _refuse_unusable(connection)
        with connection.cursor(binary=True) as cursor:
            yield PostgresTransaction(cursor, 0) if _version(connection) else None


def connected(options: dict[str, Any], settings: dict[str, str]) -> Connection:
    """A connection with our settings, which do not go through its options: a pooler would refuse them."""
    connection: Connection = psycopg.connect(**options, autocommit=True, cursor_factory=psycopg.RawCursor)
    with ExitStack() as on_failure:
        on_failure.callback(connection.close)
        connection.prepare_threshold = 0
        connection.prepared_max = 2000
        for type_ in (int, bool):  # one type for all numbers: each further one would be another statement to prepare
            connection.adapters.register_dumper(type_, numeric.Int8BinaryDumper)
            connection.adapters.register_dumper(type_, numeric.Int8Dumper)
        connection.adapters.register_loader("numeric", _WholeNumber)
        arrays.register(connection)
        names = {**_SESSION, **settings}
        calls = ", ".join(f"set_config(${2 * n + 1}, ${2 * n + 2}, false)" for n in range(len(names)))
        connection.execute(f"SELECT {calls}", [*chain.from_iterable(names.items())], prepare=False)
        connection.autocommit = False
        on_failure.pop_all()
    return connection


def storage_error(error: psycopg.Error) -> Exception:
    """What a caller can do something about: the disk is full, or the database is away. Others are mistakes."""
    if error.sqlstate == _DISK_FULL:
        return StorageFull()
    is_lost = error.sqlstate is None and isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)
    if is_lost or (error.sqlstate or "").startswith(_GONE):
        return StorageGone(f"the database cannot be used: {_first_line(error)}; send this again")
    return error


def _locked(cursor: Cursor, batch: Sequence[Job]) -> int:
    """Take the locks of all jobs, each kind in one order; returns the time of the database in milliseconds."""
    locks = {lock for job in batch for lock in locks_of(job.operation, job.item)}
    keys = sorted({advisory_key(lock) for lock in locks if lock.what != SESSION})
    if keys:
        cursor.execute(_LOCK_NAMES, [keys])
    sessions = sorted(lock.name for lock in locks if lock.what == SESSION and "\0" not in lock.name)
    row = cursor.execute(_LOCK_SESSIONS, [sessions]).fetchone()
    return int(row[0]) if row else 0


def advisory_key(lock: Lock) -> int:
    digest = blake2b(f"{lock.what}\n{lock.name}".encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)


def _texts_have_nul(rows: Sequence[Sequence[Any]]) -> bool:
    return any(isinstance(column[0], str) and "\0" in "".join(column) for column in zip(*rows, strict=True))


def _nul_refused() -> InvalidField:
    return InvalidField("there is a character NUL in a text, which cannot be stored; leave it out")


# Opening.


def options_of(url: str) -> dict[str, Any]:
    """Of a connection, as psycopg takes them."""
    try:
        given = conninfo_to_dict(url)
    except psycopg.ProgrammingError:
        given = {}
    ports = str(given.get("port", "")).split(",")
    is_whole = all(port.isdigit() or not port for port in ports)  # else a part of the password is taken for it
    if not url.startswith(("postgresql://", "postgres://")) or not given or not is_whole:
        # Without the text and without the problem: a part of the password may be in both.
        raise SettingsError(
            "the setting database (STELLWERK_DATABASE, --database) is no URL of PostgreSQL; it has the form "
            "postgresql://user:password@host:5432/name, with special characters of the password as in %40 for @"
        )
    return {**_CLIENT, "client_encoding": "utf8", **given}


def _place(options: dict[str, Any]) -> str:
    return f"{options.get('dbname') or options.get('user') or 'postgres'} on {options.get('host') or 'this machine'}"


@contextmanager
def _as_settings_errors(options: dict[str, Any]) -> Iterator[None]:
    where = _place(options)
    try:
        yield
    except errors.InsufficientPrivilege as error:
        raise SettingsError(
            f"the user of the database {where} lacks a right: {_first_line(error)}; "
            "make it the owner of the schema, or GRANT CREATE, USAGE on it and ALL on its tables"
        ) from error
    except (errors.DuplicateTable, errors.DuplicateFunction, errors.UndefinedColumn) as error:
        raise SettingsError(
            f"the database {where} has tables of another program: {_first_line(error)}; name a database of its own"
        ) from error
    except psycopg.Error as error:
        raise SettingsError(
            f"cannot open the database {where}: {_first_line(error)}; look at the setting database "
            "(STELLWERK_DATABASE, --database), and at the server"
        ) from error


def refuse_version(version: int) -> None:
    """``version`` is as the server says it: 150018 is 15.18."""
    if version < _OLDEST * 10000:
        raise SettingsError(
            f"the database is of PostgreSQL {version // 10000}; version {_OLDEST} or a newer one is needed: upgrade it"
        )


def _refuse_unusable(connection: Connection) -> None:
    refuse_version(connection.info.server_version)
    encoding = connection.info.parameter_status("server_encoding")
    if encoding != "UTF8":
        raise SettingsError(f"the database has the encoding {encoding}; make one with ENCODING 'UTF8'")


def _version(connection: Connection) -> int:
    """0 if the database is not set up."""
    (is_there,) = connection.execute("SELECT to_regclass('schema') IS NOT NULL").fetchone() or (False,)
    row = connection.execute("SELECT version, readable_by FROM schema").fetchone() if is_there else None
    if row is None:
        return 0
    newest = statements.migrations("postgres/migrations")[-1][0]
    if row[1] > newest:
        raise SettingsError(
            f"the database was set up by a newer Stellwerk (schema {row[0]}, this one knows {newest}); "
            "start that version, or restore a backup from before the upgrade"
        )
    return int(row[0])


def _migrate(connection: Connection) -> None:
    """All in one transaction; of several processes that start, one does it and the others wait."""
    connection.execute("SET LOCAL lock_timeout = '60s'")
    connection.execute("SET LOCAL statement_timeout = '0'")
    connection.execute(_LOCK_NAMES, [[advisory_key(Lock("schema"))]])
    version = _version(connection)
    for number, script in statements.migrations("postgres/migrations"):
        if number > version:
            connection.execute(script, prepare=False)
            logger.info("schema_changed", version=number)
    connection.commit()


def _refuse_missing_rights(connection: Connection) -> None:
    ((lacking, user),) = connection.execute(
        "SELECT string_agg(relname, ', ' ORDER BY relname), current_user FROM pg_class WHERE relkind = 'r' "
        "AND relnamespace = (SELECT relnamespace FROM pg_class WHERE oid = to_regclass('session')) "
        "AND NOT (has_table_privilege(oid, 'SELECT') AND has_table_privilege(oid, 'INSERT') "
        "AND has_table_privilege(oid, 'UPDATE') AND has_table_privilege(oid, 'DELETE'))"
    ).fetchall()
    if lacking is not None:
        raise SettingsError(f"the user {user} of the database has not all rights on these tables: {lacking}; GRANT ALL")


def _first_line(error: psycopg.Error) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
