"""Threads: sessions under ids that clients mint, as other protocols have them.

A thread may exist before its session: some clients create it before they name an agent system. The
id of its session is decided with the thread, so two first messages at once begin the same session.
The id of a session is also the id of a thread, without a row of its own.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from stellwerk.database.port import Database, Lock, Row, Transaction, locking
from stellwerk.errors import InvalidField, NotFound
from stellwerk.ids import Clock, SortableIds
from stellwerk.log.durable import DurableLog
from stellwerk.runs.transactions import each
from stellwerk.tenants.tenants import refuse_locked

LONGEST_ID = 200
METADATA_LIMIT = 32 * 1024  # bytes


class Thread(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    session_id: str
    metadata: dict[str, Any] = {}
    """The client's."""
    created_at: float
    updated_at: float


class NewThread(NamedTuple):
    tenant: str
    thread_id: str
    session_id: str
    metadata: bytes
    at: float


class CreatedThread(NamedTuple):
    thread: Thread
    is_new: bool


class ChangeMetadata(NamedTuple):
    tenant: str
    thread_id: str
    changes: Mapping[str, Any]
    at: float


@locking(lambda new: [_lock(new.tenant, new.thread_id)])
def create_threads_many(tx: Transaction, threads: Sequence[NewThread]) -> list[CreatedThread | Exception]:
    return each(_create, tx, threads)


@locking(lambda change: [_lock(change.tenant, change.thread_id)])
def change_metadata_many(tx: Transaction, changes: Sequence[ChangeMetadata]) -> list[Thread | Exception]:
    return each(_change, tx, changes)


@locking(lambda thread: [_lock(*thread)])
def delete_threads_many(tx: Transaction, threads: Sequence[tuple[str, str]]) -> list[None | Exception]:
    """Delete threads (tenant, id) that have no session; one that has goes with its session."""
    return each(_delete, tx, threads)


class ClientThreads:
    def __init__(self, database: Database, log: DurableLog, clock: Clock, ids: SortableIds) -> None:
        self._database = database
        self._log = log
        self._clock = clock
        self._ids = ids

    async def find(self, tenant: str, thread_id: str) -> Thread:
        """
        Raises:
            NotFound: the tenant has neither a thread nor a session with this id.
        """
        found = await self._database.read(lambda tx: _found(tx, tenant, thread_id))
        if found is None:
            raise unknown_thread(thread_id)
        return found

    async def create(
        self, tenant: str, thread_id: str | None = None, metadata: Mapping[str, Any] | None = None
    ) -> CreatedThread:
        """The thread with this id, which is created if there is none; its metadata is not changed."""
        session_id = self._ids.new()
        encoded = await self._encoded(tenant, metadata or {})
        name = session_id if thread_id is None else checked_id(thread_id)
        (name,) = await self._log.cleaned(tenant, name)
        new = NewThread(tenant, name, session_id, encoded, self._clock.now())
        return await self._database.submit(create_threads_many, new)

    async def change_metadata(self, tenant: str, thread_id: str, changes: Mapping[str, Any]) -> Thread:
        """Set keys of the metadata; null is a value like any other."""
        clean = msgspec.json.decode(await self._encoded(tenant, changes))
        change = ChangeMetadata(tenant, thread_id, clean, self._clock.now())
        return await self._database.submit(change_metadata_many, change)

    async def delete(self, tenant: str, thread_id: str) -> None:
        await self._database.submit(delete_threads_many, (tenant, thread_id))

    async def of_sessions(self, tenant: str, session_ids: Sequence[str]) -> dict[str, Thread]:
        """By session; sessions that are known by their own id alone are left out."""
        names = msgspec.json.encode(session_ids).decode()
        rows = await self._database.read(lambda tx: tx.rows("threads_of_sessions", tenant, names))
        return {thread.session_id: thread for thread in map(_thread, rows)}

    async def without_session(self, tenant: str, *, limit: int) -> list[Thread]:
        """Threads to which nothing has been sent yet, the newest first."""
        rows = await self._database.read(lambda tx: tx.rows("threads_without_session", tenant, limit))
        return [_thread(row) for row in rows]

    async def _encoded(self, tenant: str, metadata: Mapping[str, Any]) -> bytes:
        clean = await self._log.redacted(tenant, _Metadata(metadata=dict(metadata)))
        encoded = msgspec.json.encode(clean.metadata)
        _check_size(encoded)
        return encoded


class _Metadata(msgspec.Struct):
    metadata: dict[str, Any]


def checked_id(thread_id: str) -> str:
    """Raises ``InvalidField`` if clients may not use such an id."""
    if not 0 < len(thread_id) <= LONGEST_ID or not thread_id.isprintable():
        said = f"the id of a thread has 1 to {LONGEST_ID} printable characters"
        raise InvalidField(said, field="thread_id")
    return thread_id


def unknown_thread(thread_id: str) -> NotFound:
    return NotFound("thread", thread_id, remedy="the first message to a new id begins one")


def _lock(tenant: str, thread_id: str) -> Lock:
    return Lock("thread", f"{tenant}\n{thread_id}")


def _create(tx: Transaction, new: NewThread) -> CreatedThread:
    refuse_locked(tx, new.tenant)
    found = _found(tx, new.tenant, new.thread_id)
    if found is not None:
        return CreatedThread(found, is_new=False)
    tx.run("insert_thread", *new)
    return CreatedThread(_thread((new.thread_id, new.session_id, new.metadata, new.at, new.at)), is_new=True)


def _change(tx: Transaction, change: ChangeMetadata) -> Thread:
    refuse_locked(tx, change.tenant)
    found = _found(tx, change.tenant, change.thread_id)
    if found is None:
        raise unknown_thread(change.thread_id)
    if tx.row("thread", change.tenant, found.id) is None:  # a session that is known by its own id
        tx.run("insert_thread", change.tenant, found.id, found.session_id, b"{}", found.created_at)
    encoded = msgspec.json.encode({**found.metadata, **change.changes})
    _check_size(encoded)
    tx.run("set_thread_metadata", change.tenant, found.id, encoded, change.at)
    return _thread((found.id, found.session_id, encoded, found.created_at, change.at))


def _delete(tx: Transaction, thread: tuple[str, str]) -> None:
    found = tx.row("thread", *thread)
    if found is None or tx.row("is_taken", found[1]) is not None:
        raise unknown_thread(thread[1])
    tx.run("delete_thread", *thread)


def _found(tx: Transaction, tenant: str, thread_id: str) -> Thread | None:
    """By its id, or by the id of its session."""
    row = tx.row("thread", tenant, thread_id)
    if row is not None:
        return _thread(row)
    session = tx.row("session_standing", thread_id, tenant)
    if session is None:
        return None
    named = tx.row("thread_of_session", tenant, thread_id)
    if named is not None:
        return _thread(named)
    _, _, _, created_at, last_activity_at, *_ = session
    return Thread(id=thread_id, session_id=thread_id, created_at=created_at, updated_at=last_activity_at)


def _check_size(metadata: bytes) -> None:
    if len(metadata) > METADATA_LIMIT:
        said = f"metadata: this must not have more than {METADATA_LIMIT // 1024} KiB"
        raise InvalidField(said, field="metadata")


def _thread(row: Row) -> Thread:
    thread_id, session_id, metadata, created_at, updated_at = row
    return Thread(
        id=thread_id,
        session_id=session_id,
        metadata=msgspec.json.decode(metadata),
        created_at=created_at,
        updated_at=updated_at,
    )
