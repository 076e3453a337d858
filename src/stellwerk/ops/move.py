"""Move a data folder to PostgreSQL: documents, every row, and LangGraph's store; compared before it counts.

The rows go over in one transaction, which is committed only when each session has the same digest on
both sides. A move that is interrupted is begun again: documents that are there already are not sent again.
The folder stays as it was.
"""

import hashlib
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql

from stellwerk.agents.store.index import Index
from stellwerk.agents.store.operations import label
from stellwerk.agents.store.postgres import open_postgres_store
from stellwerk.agents.store.tenant_store import OF_USERS, SHARED
from stellwerk.database.dialect import translated
from stellwerk.database.folder import DATABASE, DOCUMENTS, locked
from stellwerk.database.port import OpenableDatabase
from stellwerk.database.postgres import Postgres, connected, options_of
from stellwerk.database.sqlite import Sqlite
from stellwerk.documents.places import files_at
from stellwerk.documents.port import place_of
from stellwerk.envelope.introspection import document_id_of
from stellwerk.errors import SettingsError
from stellwerk.tenants.tenants import folder_of

Say = Callable[[str], None]
_ONLY_SQLITE = {"readiness"}
_NO_INDEX: Index | None = None
_SETTINGS = {"statement_timeout": "0", "idle_in_transaction_session_timeout": "0"}
_NEXT_TENANT = "SELECT setval(pg_get_serial_sequence('tenant', 'number'), (SELECT max(number) FROM tenant))"
_EVENTS = "SELECT session_id, position, body FROM event ORDER BY session_id, position"
_ITEMS = "SELECT prefix, key, value, created_at, updated_at, expires_at, ttl_minutes FROM store ORDER BY rowid"
_ADD_ITEM = """
    INSERT INTO store (prefix, key, value, created_at, updated_at, expires_at, ttl_minutes)
    VALUES (%s, %s, %s::jsonb, %s::timestamp AT TIME ZONE 'UTC', %s::timestamp AT TIME ZONE 'UTC',
        %s::timestamp AT TIME ZONE 'UTC', %s)
    ON CONFLICT DO NOTHING
"""
_SHOWN = 100_000
"""Rows between two lines of progress."""


@dataclass(frozen=True, slots=True)
class Moved:
    sessions: int
    rows: int
    documents: int
    items: int


async def move(data: Path, url: str, documents: str | None, say: Say) -> Moved:
    """
    Raises:
        SettingsError: a server has the folder, the database is not empty, or something differs; nothing was moved.
    """
    if not (data / DATABASE).is_file():
        raise SettingsError(f"there is no database in {data}; name the data folder with --data")
    with locked(data, remedy="stop it before its data is moved"):
        await _opened_once(Sqlite(data / DATABASE))  # it gets the tables of this version
        await _opened_once(Postgres(url))
        with closing(sqlite3.connect(f"{(data / DATABASE).absolute().as_uri()}?mode=ro", uri=True)) as source:
            _refuse_used(url)
            count = await _move_documents(source, data, documents, say)
            items = await _move_store(source, data, url, say)
            sessions, rows = _move_rows(source, url, say)
    return Moved(sessions, rows, count, items)


async def _opened_once(database: OpenableDatabase) -> None:
    await database.open()
    await database.close()


def _refuse_used(url: str) -> None:
    with connected(options_of(url), {}) as connection:
        for table in ("session", "event", "api_key", "secret", "system", "document", "audit", "thread"):
            if connection.execute(f"SELECT 1 FROM {table} LIMIT 1").fetchone() is not None:
                raise SettingsError("the database has been used; name an empty one, so that nothing is mixed")


async def _move_documents(source: sqlite3.Connection, data: Path, documents: str | None, say: Say) -> int:
    """Each is compared with its digest on its way."""
    named = source.execute("SELECT DISTINCT tenant, document_id FROM document ORDER BY 1, 2").fetchall()
    if documents is None:
        return 0
    files = files_at(documents, data / DOCUMENTS)
    await files.open()
    for number, (tenant, document_id) in enumerate(named, 1):
        place = place_of(tenant, document_id)
        path = data.joinpath(DOCUMENTS, *place)
        try:
            content = path.read_bytes()
        except FileNotFoundError as error:
            raise SettingsError(f"the document {path} is gone; restore it from a backup") from error
        if document_id_of(hashlib.sha256(content).digest()) != document_id:
            raise SettingsError(f"the document {path} is damaged; restore it from a backup")
        await files.write(place, content)
        if number % 1000 == 0 or number == len(named):
            say(f"documents: {number} of {len(named)}")
    return len(named)


async def _move_store(source: sqlite3.Connection, data: Path, url: str, say: Say) -> int:
    """The items of all tenants and their users, each below its labels."""
    count = 0
    tenants = [str(name) for (name,) in source.execute("SELECT name FROM tenant ORDER BY number")]
    postgres = Postgres(url)
    await postgres.open()
    try:
        async with open_postgres_store(options_of(url), postgres.locked, _NO_INDEX) as store:
            async with store._cursor(pipeline=True) as cursor:
                for tenant in tenants:
                    for prefix, rest in _items(data, tenant):
                        await cursor.execute(_ADD_ITEM, (prefix, *rest))
                        count += 1
    finally:
        await postgres.close()
    say(f"items of the store: {count}")
    return count


def _items(data: Path, tenant: str) -> Iterator[tuple[str, Sequence[Any]]]:
    for name, labels in ((SHARED, (label("t-", tenant), "-")), (OF_USERS, (label("t-", tenant),))):
        path = folder_of(data, tenant) / name
        if not path.is_file():
            continue
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as store:
            for prefix, key, value, *times in store.execute(_ITEMS):
                text = value.decode() if isinstance(value, bytes) else value
                yield ".".join((*labels, prefix)), (key, text, *times)


def _move_rows(source: sqlite3.Connection, url: str, say: Say) -> tuple[int, int]:
    rows = 0
    with connected(options_of(url), _SETTINGS) as target:
        for table, columns in _tables(source, target):
            rows += _copy(source, target, table, columns, say)
        held = source.execute("SELECT name, held, served_at FROM tenant").fetchall()
        with target.cursor() as cursor:
            cursor.execute("DELETE FROM tenant_tally")
            cursor.executemany("INSERT INTO tenant_tally (tenant, node, held, served_at) VALUES ($1, '', $2, $3)", held)
            cursor.execute(_NEXT_TENANT)
        say("comparing every session")
        before, after = _digests(source.execute(_EVENTS)), _digests(iter(target.cursor().execute(_EVENTS)))
        different = sorted(each for each in before.keys() | after.keys() if before.get(each) != after.get(each))
        if different:
            raise SettingsError(f"{len(different)} sessions differ after the copy, the first is {different[0]}")
        target.commit()
    return len(before), rows


def _tables(source: sqlite3.Connection, target: psycopg.Connection[Any]) -> Iterator[tuple[str, dict[str, str]]]:
    """Tables of both, with the columns to copy and their types there."""
    there: dict[str, dict[str, str]] = {}
    for table, column, kind in target.execute(
        "SELECT table_name::text, column_name::text, data_type::text FROM information_schema.columns "
        "WHERE table_schema = current_schema()"
    ):
        there.setdefault(table, {})[column] = kind
    for (table,) in source.execute("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name").fetchall():
        if table.startswith("sqlite_") or table in _ONLY_SQLITE:
            continue
        own = [row[1] for row in source.execute(f"PRAGMA table_info({table})")]
        types = {name: there[table].get(translated(name)) for name in own}
        yield table, {name: kind for name, kind in types.items() if kind is not None}


def _copy(
    source: sqlite3.Connection, target: psycopg.Connection[Any], table: str, columns: dict[str, str], say: Say
) -> int:
    own = ", ".join(f'"{name}"' for name in columns)
    has_rowid = table in ("checkpoint", "checkpoint_item")
    names = sql.SQL(", ").join(sql.Identifier(translated(name)) for name in columns)
    statement = sql.SQL("COPY {} ({}) FROM STDIN (FORMAT BINARY)").format(sql.Identifier(table), names)
    kinds, now = list(columns.values()), 0
    touched = list(columns).index("touched") if table == "session" else None
    count = 0
    target.execute(sql.SQL("ALTER TABLE {} DISABLE TRIGGER USER").format(sql.Identifier(table)).as_string())
    target.execute(sql.SQL("DELETE FROM {}").format(sql.Identifier(table)).as_string())
    (now,) = target.execute("SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint").fetchone() or (now,)
    with target.cursor().copy(statement.as_string()) as copy:
        copy.set_types(kinds)
        for row in source.execute(f"SELECT {own} FROM {table}{' ORDER BY rowid' if has_rowid else ''}"):
            values = [_value(value, kind) for value, kind in zip(row, kinds, strict=True)]
            if touched is not None:
                values[touched] = now
            copy.write_row(values)
            count += 1
            if count % _SHOWN == 0:
                say(f"{table}: {count} rows")
    target.execute(sql.SQL("ALTER TABLE {} ENABLE TRIGGER USER").format(sql.Identifier(table)).as_string())
    return count


def _value(value: Any, kind: str) -> Any:
    """SQLite keeps what it is given; here a column has one type."""
    match kind, value:
        case (_, None):
            return None
        case ("bytea", str(text)):
            return text.encode()
        case ("text", bytes(content)):
            return content.decode()
        case ("double precision", int(number)):
            return float(number)
    return value


def _digests(events: Iterator[Any]) -> dict[str, bytes]:
    found: dict[str, Any] = {}
    for session_id, position, body in events:
        digest = found.setdefault(session_id, hashlib.sha256())
        digest.update(f"{position} {len(body)}\n".encode() + bytes(body))
    return {session_id: digest.digest() for session_id, digest in found.items()}
