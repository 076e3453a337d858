"""What the log stores and returns: entries, leases and the heads of sessions."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

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


class CreateSession(NamedTuple):
    tenant: str
    session_id: str
    system: str
    created_at: float
    user: str | None = None
    is_workflow: bool = False
    """It was started as one, and not as a chat."""


PAGE_BYTES = 256 * 1024
"""The most that one read gives, but for a single larger envelope: a slow reader holds no more."""


def placed(last: int, entries: Sequence[LogEntry]) -> list[Stored]:
    """The entries at the positions they were given."""
    return [Stored(position, e.body) for position, e in enumerate(entries, last - len(entries) + 1)]
