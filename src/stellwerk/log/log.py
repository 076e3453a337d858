"""EventLog: what the log promises, whoever keeps it.

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
from stellwerk.envelope.redaction import Redactor


class Entry(NamedTuple):
    """An envelope in its final bytes, ready to be stored."""

    type: str
    ts: float
    body: bytes


_NOTHING_SECRET = Redactor()


def entry(envelope: Envelope, redactor: Redactor = _NOTHING_SECRET) -> Entry:
    """The last moment before the log: what the redactor knows must not get in, as it never comes out again."""
    body = encode(envelope)
    if redactor and redactor.may_stand_in(body.decode()):
        payload = redactor.redact(envelope.payload)
        body = body if payload == envelope.payload else encode(replace(envelope, payload=payload))
    return Entry(type_of(envelope), envelope.ts, body)


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


class NewSession(NamedTuple):
    tenant: str
    session_id: str
    system: str
    created_at: float
    user: str | None = None
    is_workflow: bool = False
    """It was started as one, and not as a chat."""


class EventLog(Protocol):
    async def create(self, session: NewSession) -> None:
        """Begin an empty session.

        Raises:
            Conflict: the id is in use, or belonged to a session that was deleted.
        """

    def append(self, lease: Lease, batch_no: int, entries: Sequence[Entry]) -> "asyncio.Future[int]":
        """Append in one transaction; the future gives the position of the last entry.

        Batches of a lease are numbered 1, 2, 3 …; one whose number is stored
        already is not stored again, so that it may be sent twice.

        Raises (through the future):
            Fenced: the lease has moved on; nothing was written, stop at once.
        """

    async def read(self, tenant: str, session_id: str, *, after: int, limit: int) -> list[Stored]:
        """Up to ``limit`` envelopes or ``PAGE_BYTES`` behind ``after``, in order; an empty list at the end of the log,
        and for a session that is not the tenant's."""

    async def head(self, tenant: str, session_id: str) -> Head:
        """Where the log ends.

        Raises:
            NotFound: there is no such session for this tenant.
        """

    async def touched(self, tenant: str, *, since: int, limit: int) -> list[Touched]:
        """Sessions that changed after ``since``, oldest change first.

        About ``limit``: sessions of one commit share a number and come together, so that the last number is a cursor.
        """

    async def delete(self, tenant: str, session_id: str, *, at: float) -> None:
        """Remove a session for good and leave only a tombstone; its id is never used again.

        Raises:
            NotFound: there is no such session for this tenant.
        """


PAGE_BYTES = 256 * 1024
"""What one read gives at most, but for a single envelope that is larger: a slow reader holds no more than this."""


def placed(last: int, entries: Sequence[Entry]) -> list[Stored]:
    """The entries at the positions they were given."""
    return [Stored(position, e.body) for position, e in enumerate(entries, last - len(entries) + 1)]
