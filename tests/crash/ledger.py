"""The ledger: what the server acknowledged and showed, written down outside of it.

It lives in another process than the server and so survives what kills it. It
holds what clients know, and nothing that only the server could know.
"""

from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec

from tests.crash.wire import Frame

Kind = Literal["messages", "answers", "regenerate", "stop"]


@dataclass
class Sent:
    """What was sent; without an answer its fate is open: stored or not, but never twice."""

    text: str
    key: str | None = None
    kind: Kind = "messages"
    enqueue: bool = False
    answer: bytes | None = None
    """The body of the 202, or of the 200 for a stop."""
    refused: bool = False

    def body(self) -> dict[str, str]:
        if self.kind == "stop":
            return {"reason": self.text}
        if self.kind == "regenerate":
            return {}
        return {"text": self.text, **({"if_busy": "enqueue"} if self.enqueue else {})}

    def accepted(self) -> dict[str, Any]:
        return msgspec.json.decode(self.answer or b"{}", type=dict[str, Any])


@dataclass
class Book:
    """One session as its clients know it."""

    session_id: str
    media_type: str
    sent: list[Sent] = field(default_factory=list)
    received: dict[int, bytes] = field(default_factory=dict)
    """Position to line, origin aside."""
    log: list[bytes] = field(default_factory=list)
    """The bodies that were seen in the log at the last check; none of them may ever change."""
    surprises: list[str] = field(default_factory=list)
    """What a client saw and should not have seen."""
    forked: int = 0
    """How far it is the log of another session."""

    @property
    def last(self) -> int:
        """The cursor with which the reader comes back."""
        return max(self.received, default=0)

    def receive(self, frame: Frame, *, after: int) -> None:
        """Note what a reader got whose previous position was ``after``."""
        if frame.position != after + 1:
            self.surprises.append(f"session {self.session_id}: a reader at {after} was sent {frame.position}")
        known = self.received.setdefault(frame.position, frame.line)
        if known != frame.line:
            self.surprises.append(
                f"session {self.session_id}: position {frame.position} was sent as {known!r} and as {frame.line!r}"
            )

    def open(self) -> list[Sent]:
        """What has a key and whose fate nobody knows yet."""
        return [s for s in self.sent if s.key and s.answer is None and not s.refused]

    def answered(self, *kinds: Kind) -> list[Sent]:
        return [s for s in self.sent if s.answer is not None and (not kinds or s.kind in kinds)]


@dataclass
class Ledger:
    books: dict[str, Book] = field(default_factory=dict)

    def acknowledgements(self) -> int:
        return len(self.books) + sum(len(book.answered()) for book in self.books.values())

    def frames(self) -> int:
        return sum(len(book.received) for book in self.books.values())

    def forks(self) -> int:
        return sum(book.forked > 0 for book in self.books.values())

    def count(self, *kinds: Kind, enqueued: bool = False) -> int:
        return sum(s.enqueue or not enqueued for book in self.books.values() for s in book.answered(*kinds))
