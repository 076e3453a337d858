"""The audit log, tamper-evident: who did what, when, from where, with which outcome; never message texts.

Each tenant has one hash chain, which outlives its sessions: a changed, removed or inserted
entry breaks it from there on. An entry is committed in the transaction of what it records,
or by itself where nothing was stored.
"""

import asyncio
import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

import msgspec
import structlog

from stellwerk.database.port import Database, Lock, Operation, P, R, Row, Transaction, locking, locks_of
from stellwerk.errors import StorageFull, StorageGone
from stellwerk.ids import Clock
from stellwerk.redaction.redactor import Redactors
from stellwerk.tenants.principals import Principal

Made = Callable[[Any], str]  # the id of what an operation makes of an item

logger = structlog.get_logger(__name__)

OPERATOR = "operator"
REFUSALS = 60
"""Rejections of a tenant that are recorded in a minute, so that they cannot fill the disk."""
_BEGIN = bytes(32)
_PAGE = 500
_LONGEST = 200  # characters of an id: a request can name anything


class Entry(msgspec.Struct, frozen=True, omit_defaults=True):
    at: float
    who: str  # the user, or the key if it has none
    what: str
    """Method and route: ``DELETE /sessions/{sid}``."""
    outcome: int  # the status of the answer
    on: dict[str, str] = {}  # the ids that it was about
    origin: str = ""  # the address that asked
    key_id: str | None = None


class AuditRecord(Entry, frozen=True, kw_only=True):
    number: int
    hash: str


@dataclass(frozen=True, slots=True)
class Action:
    """What an entry records, before its outcome is known."""

    who: Principal
    what: str
    on: Mapping[str, str]
    origin: str = ""
    tenant: str | None = None
    """The tenant that is affected, if it may be another than the principal's."""


Entries = Sequence[tuple[str, Entry]]  # each with the tenant in whose chain it is


class PendingEntry:
    """The audit entry of a request, to be written with the first thing that the request stores."""

    def __init__(self, compose: Callable[[Mapping[str, str]], Entries]) -> None:
        self._compose = compose
        self.ids: dict[str, str] = {}  # the ids that it is about, as far as they are known
        self.is_taken = False  # a write includes it
        self.is_written = False
        self.is_over = False  # the request has ended

    def take(self) -> Entries:
        self.is_taken = True
        return self._compose(self.ids)

    def settle(self, done: "asyncio.Future[Any]") -> None:
        """A rejected write has not included the entry; a commit whose request was cancelled has."""
        self.is_written = done.cancelled() or (done.exception() is None and done.result() is not False)
        self.is_taken = self.is_written


_due: ContextVar[PendingEntry | None] = ContextVar("audit_due", default=None)


@contextmanager
def recording(due: PendingEntry | None) -> Iterator[None]:
    """Writes inside the block, and in tasks that it starts, include this entry; later ones do not."""
    before = _due.set(due)
    try:
        yield
    finally:
        _due.reset(before)
        if due is not None:
            due.is_over = True


def without_audit() -> AbstractContextManager[None]:
    """Writes inside the block include no entry: they are part of something else that has one."""
    return recording(None)


def about(**ids: str) -> None:
    """The entry of this request is about these ids, in addition to those of its address."""
    due = _due.get()
    if due is not None:
        due.ids.update(ids)


def _chains(entries: Entries) -> list[Lock]:
    """An entry has the hash of the one before it, so each chain has one writer at a time."""
    return [Lock("audit", tenant) for tenant, _ in entries]


@dataclass(frozen=True, slots=True)
class _Joined:
    operation: Operation[Any, Any]
    item: Any
    entries: Entries


class AuditedDatabase:
    """A database whose writes include the pending audit entry.

    ``recorded`` are the operations that do so, each with a function that gives the id of what it creates.
    """

    def __init__(self, database: Database, recorded: Mapping[Operation[Any, Any], Made | None]) -> None:
        self._database = database
        self._recorded = recorded
        self.commit_seconds = database.commit_seconds
        self.read = database.read
        self.when_free = database.when_free
        self.locked = database.locked
        self.truncate = database.truncate
        self.close = database.close

    def submit(self, operation: Operation[P, R], item: P, *, urgent: bool = False) -> "asyncio.Future[R]":
        due = _due.get()
        if due is None or due.is_taken or due.is_over or operation not in self._recorded:
            return self._database.submit(operation, item, urgent=urgent)
        made = self._recorded[operation]
        if made is not None:
            due.ids["made"] = made(item)
        future = self._database.submit(_join_many, _Joined(operation, item, due.take()), urgent=urgent)
        future.add_done_callback(due.settle)
        return future


@locking(lambda joined: [*locks_of(joined.operation, joined.item), *_chains(joined.entries)])
def _join_many(tx: Transaction, items: Sequence[_Joined]) -> list[Any]:
    outcomes: list[Any] = []
    for operation, group in groupby(items, key=lambda joined: joined.operation):
        outcomes += operation(tx, [joined.item for joined in group])
    for joined, outcome in zip(items, outcomes, strict=True):
        if outcome is not False and not isinstance(outcome, Exception):
            _append(tx, joined.entries)
    return outcomes


@dataclass(frozen=True, slots=True)
class ChainCheck:
    """How far the chain of a tenant holds."""

    tenant: str
    entries: int  # how many are right, from the first one
    hash: bytes  # of the last of them
    whole: bool  # False if others follow, of which the first was changed or moved


class Audit:
    def __init__(self, database: Database, clock: Clock, redactors: Redactors | None = None) -> None:
        self._database = database
        self._clock = clock
        self._redactors = redactors or Redactors()
        self._refusals: dict[str, tuple[int, int]] = {}
        """By tenant: a minute, and how many there were in it."""

    async def record(self, action: Action, outcome: int) -> None:
        """Called before the response is sent, where no write has included the entry."""
        if outcome == 403 and not self._counts_refusal(action.who.tenant):
            return
        entries = self.entries(action, outcome)
        try:
            await self._database.submit(_append_many, entries, urgent=True)
        except (StorageFull, StorageGone) as error:  # the operator's log has it at least
            who = entries[0][1].who
            logger.error("audit_not_written", error=error.message, what=action.what, outcome=outcome, who=who)

    def due(self, action: Action, outcome: int) -> PendingEntry:
        """An entry that is written with what it records (``recording``)."""
        return PendingEntry(lambda ids: self.entries(replace(action, on={**action.on, **ids}), outcome))

    def entries(self, action: Action, outcome: int) -> Entries:
        """One in the chain of the principal, and one in that of the affected tenant, if that is another.

        Who the operator was, and from where, is in the operator's own chain only.
        """
        own = action.who.tenant
        tenant = action.tenant
        if tenant is None or tenant == own:
            return [(own, self._entry(action, outcome))]
        entry = self._entry(replace(action, on={"tenant": tenant, **action.on}), outcome)
        if outcome >= 400:
            return [(own, entry)]
        anonymous = replace(action, who=Principal(tenant, "admin", OPERATOR), origin="")
        return [(own, entry), (tenant, self._entry(anonymous, outcome))]

    def _entry(self, action: Action, outcome: int) -> Entry:
        who = action.who
        redacted = self._redactors.of(who.tenant).redact_text
        return Entry(
            at=self._clock.now(),
            who=who.user or who.key_id or who.tenant,
            what=action.what,
            outcome=outcome,
            on={name: redacted(id)[:_LONGEST] for name, id in action.on.items()},
            origin=action.origin,
            key_id=who.key_id,
        )

    def _counts_refusal(self, tenant: str) -> bool:
        """Whether it is one of the first in its minute."""
        minute = int(self._clock.now() // 60)
        before, count = self._refusals.get(tenant, (minute, 0))
        count = count + 1 if before == minute else 1
        self._refusals[tenant] = minute, count
        return count <= REFUSALS

    async def page(self, tenant: str, *, after: int, limit: int) -> list[AuditRecord]:
        rows = await self._database.read(lambda tx: tx.rows("audit_page", tenant, after, limit))
        found = []
        for number, body, hashed in rows:
            entry = msgspec.structs.asdict(msgspec.json.decode(body, type=Entry))
            found.append(AuditRecord(**entry, number=number, hash=hashed.hex()))
        return found


def check_chain(tx: Transaction, tenant: str) -> ChainCheck:
    before, last = _BEGIN, 0
    for number, entry, hashed in _chain(tx, tenant):
        # A direct write to the database may change types, too.
        follows = number == last + 1 and isinstance(entry, bytes)
        if not follows or _hash(tenant, number, before, entry) != hashed:
            return ChainCheck(tenant, last, before, whole=False)
        before, last = hashed, number
    return ChainCheck(tenant, last, before, whole=last > 0)  # that a tenant was made is its first entry


def _chain(tx: Transaction, tenant: str) -> Iterator[Row]:
    last = 0
    while page := tx.rows("audit_page", tenant, last, _PAGE):
        yield from page
        last = page[-1][0]


@locking(_chains)
def _append_many(tx: Transaction, items: Sequence[Entries]) -> list[None | Exception]:
    for entries in items:
        _append(tx, entries)
    return [None] * len(items)


def _append(tx: Transaction, entries: Entries) -> None:
    for tenant, entry in entries:
        last = tx.row("last_audit", tenant) or (0, _BEGIN)
        body = msgspec.json.encode(entry)
        number = last[0] + 1
        tx.write("insert_audit", tenant, number, body, _hash(tenant, number, last[1], body))


def _hash(tenant: str, number: int, before: bytes, entry: bytes) -> bytes:
    return hashlib.sha256(b"%b\0%d\0%b%b" % (tenant.encode(), number, before, entry)).digest()
