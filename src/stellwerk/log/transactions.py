"""Log transactions: append, rewrite, create and delete, each within the transaction of its caller.

``runs`` composes them with its own, so that an input, its run and its
envelopes are stored together or not at all.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from stellwerk.database import statements
from stellwerk.database.port import DOCUMENTS, Transaction, id_lock, locking, session_lock, usage_lock
from stellwerk.envelope.frames import Stored
from stellwerk.envelope.model import FORMAT, Envelope, encode, type_of
from stellwerk.envelope.packing import is_pack, packed, unpacked
from stellwerk.errors import Conflict, Fenced, NotFound, StellwerkError
from stellwerk.log.log import CreateSession, Lease, LogEntry
from stellwerk.redaction.redactor import Redactor

_NOTHING_SECRET = Redactor()
_SLICE = 200
"""Rows of each table that one transaction removes."""


@dataclass(frozen=True, slots=True)
class Append:
    lease: Lease
    batch_no: int
    entries: Sequence[LogEntry]


class _Fence(NamedTuple):
    """Who may write to a session, and where the next batch goes."""

    session_id: str
    tenant: str
    epoch: int
    batch_no: int
    batch_end: int
    last_position: int
    grown_by: int = 0
    """Bytes of what is appended."""
    last_ts: float = 0.0
    """When the last of it happened."""
    run_ends: bool = False
    """A run ends with it."""


@dataclass(frozen=True, slots=True)
class Deletion:
    tenant: str
    session_id: str
    at: float
    position: int | None = None
    """Where the log must end; anywhere, if it is not said."""


class Overtaken(StellwerkError):
    """The log of the session no longer ends where the caller saw its end."""


def unknown_session(session_id: str) -> NotFound:
    return NotFound("session", session_id, remedy="POST /sessions makes one")


def entry(envelope: Envelope, redactor: Redactor = _NOTHING_SECRET) -> LogEntry:
    """The last moment before the log: known secrets must not get in, as they never get out."""
    body = encode(envelope)
    if redactor and redactor.may_occur_in(body.decode()):
        payload = redactor.redact(envelope.payload)
        body = body if payload == envelope.payload else encode(replace(envelope, payload=payload))
    return LogEntry(type_of(envelope), envelope.ts, body)


def placed(last: int, entries: Sequence[LogEntry]) -> list[Stored]:
    """The entries at the positions they were given."""
    return [Stored(position, e.body) for position, e in enumerate(entries, last - len(entries) + 1)]


@locking(lambda append: [session_lock(append.lease.session_id)])
def append_many(tx: Transaction, appends: Sequence[Append]) -> list[int | Exception]:
    """Append to many sessions at once: one look at the fences, one move of heads, one insertion."""
    fences = _fences(tx, appends)
    outcomes: list[int | Exception] = []
    rows: list[tuple[str, int, str, float, bytes]] = []
    moved: dict[str, _Fence] = {}
    for item in appends:
        lease, fence = item.lease, fences.get(item.lease.session_id)
        if fence is None or (fence.tenant, fence.epoch) != (lease.tenant, lease.epoch):
            outcomes.append(Fenced(lease.session_id, lease.epoch))
        elif fence.batch_no == item.batch_no:  # stored already
            outcomes.append(fence.batch_end)
        elif fence.batch_no != item.batch_no - 1:
            outcomes.append(Fenced(lease.session_id, lease.epoch))
        else:
            last = fence.last_position + len(item.entries)
            rows += _rows(lease.session_id, last, item.entries)
            newest = item.entries[-1:]  # a batch whose number alone is stored has none
            moved[lease.session_id] = fences[lease.session_id] = fence._replace(
                batch_no=item.batch_no,
                batch_end=last,
                last_position=last,
                grown_by=fence.grown_by + _size(item.entries),
                last_ts=newest[0].ts if newest else fence.last_ts,
                run_ends=fence.run_ends or any(each.type == "run_end" for each in newest),
            )
            outcomes.append(last)
    if moved:
        tx.run_many("insert_event", rows)
        tx.write("move_heads", msgspec.json.encode(list(moved.values())).decode(), tx.flush)
    return outcomes


def append_unfenced(tx: Transaction, tenant: str, session_id: str, entries: Sequence[LogEntry]) -> int:
    """For inputs, which come from outside of any run: no lease, the tenant instead."""
    claimed = tx.row("claim_positions", len(entries), _size(entries), tx.flush, entries[-1].ts, session_id, tenant)
    if claimed is None:
        raise unknown_session(session_id)
    tx.run_many("insert_event", _rows(session_id, claimed[0], entries))
    return int(claimed[0])


def rewrite(tx: Transaction, tenant: str, session_id: str, stubs: Sequence[Stored]) -> None:
    """Replace erased envelopes by empty ones, also inside packs. Nothing else is ever rewritten."""
    bodies = {stub.position: stub.body for stub in stubs}
    packs: list[Stored] = []
    for stub in stubs:
        if stub.position in bodies:  # else it was in the pack of another
            (row,) = tx.rows("read_events", session_id, stub.position - 1, tenant, 1)
            if is_pack(found := Stored(*row)):
                packs.append(packed([Stored(at, bodies.pop(at, old)) for at, old in unpacked(found)]))
    rewritten = [*(Stored(*item) for item in bodies.items()), *packs]
    tx.run_many("rewrite_event", [(body, session_id, position, tenant) for position, body in rewritten])


@locking(lambda new: [id_lock(new.session_id)])
def create_many(tx: Transaction, sessions: Sequence[CreateSession]) -> list[None | Exception]:
    return [_create(tx, session) for session in sessions]


@locking(lambda deletion: [session_lock(deletion.session_id), usage_lock(deletion.tenant)])
def delete_many(tx: Transaction, deletions: Sequence[Deletion]) -> list[None | Exception]:
    return [_delete(tx, deletion) for deletion in deletions]


@locking(lambda grave: [id_lock(grave[1]), DOCUMENTS])
def sweep_many(tx: Transaction, graves: Sequence[tuple[str, str]]) -> list[bool | Exception]:
    """Remove a part of what deleted sessions (tenant, session) left; False when nothing is left.

    In slices, because a session may be larger than what the disk has room for in one transaction.
    """
    return [_sweep(tx, tenant, session_id) for tenant, session_id in graves]


def _sweep(tx: Transaction, tenant: str, session_id: str) -> bool:
    removed = sum(tx.run(statement, tenant, session_id, _SLICE) for statement in statements.forgetting())
    if not removed:
        tx.run("swept", _grave(session_id))
    return removed > 0


def _size(entries: Sequence[LogEntry]) -> int:
    return sum(len(entry.body) for entry in entries)


def _rows(session_id: str, last: int, entries: Sequence[LogEntry]) -> list[tuple[str, int, str, float, bytes]]:
    first = last - len(entries) + 1
    return [(session_id, first + n, e.type, e.ts, e.body) for n, e in enumerate(entries)]


def _fences(tx: Transaction, appends: Sequence[Append]) -> dict[str, _Fence]:
    """As one row, because each row costs the writer a turn at Python's lock."""
    names = msgspec.json.encode([item.lease.session_id for item in appends]).decode()
    ((found,),) = tx.rows("fences_of", names)
    return {fence.session_id: fence for fence in msgspec.json.decode(found, type=list[_Fence])}


def _create(tx: Transaction, new: CreateSession) -> None | Exception:
    if tx.row("is_taken", new.session_id) or tx.row("is_buried", _grave(new.session_id)):
        return Conflict(f"the session id {new.session_id!r} is in use or was deleted; take another", code="id_taken")
    tx.run("create_session", new.session_id, new.tenant, new.system, new.user, FORMAT, tx.flush, new.created_at)
    if new.is_workflow:
        tx.run("mark_workflow", new.session_id, new.tenant)
    if new.defaults is not None:
        tx.run("set_session_defaults", new.defaults, new.session_id, new.tenant)
    if new.is_ephemeral:
        tx.run("mark_ephemeral", new.session_id, new.tenant)
    return None


def _delete(tx: Transaction, item: Deletion) -> None | Exception:
    head = tx.row("head", item.session_id, item.tenant)
    if head is None:
        return unknown_session(item.session_id)
    if item.position not in (None, head[0]):
        return Overtaken("something has happened in the session meanwhile")
    if (run := tx.row("unfinished_run", item.session_id, item.tenant)) is not None:
        tx.write("count_usage", run[0], item.tenant)  # what it has used stays known
    tx.run("bury", _grave(item.session_id), item.tenant, item.at, tx.flush, head[0], item.session_id)
    tx.run("delete_session", item.session_id, item.tenant)
    tx.run("forget_threads", item.tenant, item.session_id, 1)  # at once: a client may use its id again
    tx.run("end_runs_of", item.session_id, item.tenant)  # a run without a session cannot be claimed
    return None


def _grave(session_id: str) -> str:
    return hashlib.sha256(session_id.encode()).hexdigest()
