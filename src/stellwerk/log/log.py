"""What the log stores and returns: entries, leases and the heads of sessions."""

from dataclasses import dataclass
from typing import NamedTuple


class LogEntry(NamedTuple):
    """An envelope in its final bytes, ready to be stored."""

    type: str
    ts: float
    body: bytes


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
    defaults: bytes | None = None
    """Config and context for its messages."""
    is_ephemeral: bool = False
    """It is deleted a while after the end of its run."""


PAGE_BYTES = 256 * 1024
"""The most that one read gives, but for a single larger envelope: a slow reader holds no more."""
