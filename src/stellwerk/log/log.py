"""EventLog: what every implementation of the log promises.

Positions are 1, 2, 3 … per session, given inside the transaction that stores
the event, without gaps and for ever. An append is durable when its future
resolves. A reader is a cursor: nothing here knows who reads.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from msgspec.structs import replace

from stellwerk.envelope.frames import Stored
from stellwerk.envelope.model import Envelope, encode, type_of
from stellwerk.redaction.redactor import Redactor


class LogEntry(NamedTuple):
    """An envelope in its final bytes, ready to be stored."""

    type: str
    ts: float
    body: bytes


_NOTHING_SECRET = Redactor()


def entry(envelope: Envelope, redactor: Redactor = _NOTHING_SECRET) -> LogEntry:
    """The last moment before the log: known secrets must not get in, as they never get out."""
    body = encode(envelope)
    if redactor and redactor.may_occur_in(body.decode()):
        payload = redactor.redact(envelope.payload)
        body = body if payload == envelope.payload else encode(replace(envelope, payload=payload))
    return LogEntry(type_of(envelope), envelope.ts, body)


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to write to one session, as long as its epoch lasts."""

    tenant: str
    session_id: str
    run_id: str
    epoch: int


class Head(NamedTuple):
    position: int
    epoch: int
    system: str
    created_at: float
    user: str | None


class Touched(NamedTuple):
    """A session that changed; ``touched`` is the cursor over sessions."""

    session_id: str
    touched: int
    position: int


class CreateSession(NamedTuple):
    tenant: str
    session_id: str
    system: str
    created_at: float
    user: str | None = None
    is_workflow: bool = False
    """It was started as one, and not as a chat."""


class EventLog(Protocol):
    async def create(self, session: CreateSession) -> None:
        """Begin an empty session.

        Raises:
            Conflict: the id is in use, or belonged to a session that was deleted.
        """

    def append(self, lease: Lease, batch_no: int, entries: Sequence[LogEntry]) -> "asyncio.Future[int]":
        """Append in one transaction; the future gives the position of the last entry.

        Batches of a lease are numbered 1, 2, 3 …; one whose number is stored
        already is not stored again, so that it may be sent twice.

        Raises (through the future):
            Fenced: the lease has moved on; nothing was written, stop at once.
        """

    async def read(self, tenant: str, session_id: str, *, after: int, limit: int) -> list[Stored]:
        """Envelopes behind ``after``, up to ``limit`` or ``PAGE_BYTES``; none of other tenants."""

    async def head(self, tenant: str, session_id: str) -> Head:
        """Where the log ends.

        Raises:
            NotFound: there is no such session for this tenant.
        """

    async def touched(self, tenant: str, *, since: int, limit: int) -> list[Touched]:
        """Sessions that changed after ``since``, oldest change first.

        About ``limit``: sessions of one commit share a number, so that the last is a cursor.
        """

    async def delete(self, tenant: str, session_id: str, *, at: float) -> None:
        """Remove a session for good and leave only a tombstone; its id is never used again.

        Raises:
            NotFound: there is no such session for this tenant.
        """


PAGE_BYTES = 256 * 1024
"""The most that one read gives, but for a single larger envelope: a slow reader holds no more."""


def placed(last: int, entries: Sequence[LogEntry]) -> list[Stored]:
    """The entries at the positions they were given."""
    return [Stored(position, e.body) for position, e in enumerate(entries, last - len(entries) + 1)]
