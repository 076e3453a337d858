"""Answers: what a server says, as frozen data. Fields that a newer server adds are passed over."""

from functools import cached_property
from typing import Any

import msgspec

from stellwerk.envelope.model import Envelope
from stellwerk.envelope.payloads import FilePart


class Session(msgspec.Struct, frozen=True, kw_only=True):
    """A session, and where it stands."""

    id: str
    agent_system_id: str
    title: str | None = None
    """How the first message begins, in one line."""
    created_at: float
    last_activity_at: float | None = None
    """None of a server that does not say so."""
    position: int
    """How long its log is."""
    status: str
    round: int
    awaiting_user_input: bool = False
    user_id: str | None = None


class Withdrawn(msgspec.Struct, frozen=True, kw_only=True):
    """An enqueued message that a stop took back: it starts nothing, and may be sent again."""

    message_id: str
    text: str
    documents: tuple[FilePart, ...] = ()


class Accepted(msgspec.Struct, frozen=True, kw_only=True):
    """A message or an answer is in the log."""

    round: int
    run_id: str
    position: int
    after: int
    """The cursor that shows the run whole."""
    status: str
    """accepted; enqueued, if it has to wait for another round; noted, if other questions are still open."""
    message_id: str | None = None
    ask_id: str | None = None
    open_asks: tuple[str, ...] = ()
    withdrawn: tuple[Withdrawn, ...] = ()
    """The enqueued messages that were taken back because this one interrupted a round."""


class Stopped(msgspec.Struct, frozen=True, kw_only=True):
    """Nothing is under way any more."""

    status: str
    round: int
    position: int
    run_id: str | None = None
    withdrawn: tuple[Withdrawn, ...] = ()


class Uploaded(msgspec.Struct, frozen=True, kw_only=True):
    id: str


class Page(msgspec.Struct, frozen=True, kw_only=True):
    events: list[msgspec.Raw]
    next: int


class Listing(msgspec.Struct, frozen=True, kw_only=True):
    sessions: list[Session]
    next: str | None = None


class _Head(msgspec.Struct, frozen=True):
    position: int
    type: str


_PLACE = ("position", "origin", "session_id")
"""What a reader is told besides the envelope as it is stored."""
_HEADS = msgspec.json.Decoder(_Head)


class Event:
    """One envelope in its place; read as far as it is asked for."""

    def __init__(self, line: bytes) -> None:
        self.line = line
        """As it came: one JSON object."""
        head = _HEADS.decode(line)
        self.position = head.position
        self.type = head.type

    @cached_property
    def envelope(self) -> Envelope:
        """
        Raises:
            msgspec.ValidationError: the server is newer, and tells of something that is not known here.
        """
        known: Envelope = msgspec.convert({k: v for k, v in self.data.items() if k not in _PLACE}, Envelope)
        return known

    @cached_property
    def data(self) -> dict[str, Any]:
        """The same as a dictionary, of whatever type it is."""
        found: dict[str, Any] = msgspec.json.decode(self.line)
        return found

    def __repr__(self) -> str:
        return f"Event({self.position}, {self.type!r})"
