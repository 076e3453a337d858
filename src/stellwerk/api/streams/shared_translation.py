"""Shared translations: the live end of a session is translated once for all readers of a dialect.

Each reader starts with a private translator and switches to the shared one once it has caught
up. The latest frames are kept for readers that are a little behind, within bounds. It never
waits and never reads the log: batches come in, frames go out.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, cast

from stellwerk.dialects.base import Cursor, Dialect, RecallingTranslator, Translator, translate
from stellwerk.dialects.native import Profile, trimmed
from stellwerk.envelope.frames import Stored
from stellwerk.envelope.model import Envelope, decode

TAIL_BYTES = 256 * 1024

Frame = tuple[Cursor, Any, bytes]
"""With the tag of its chunk between."""


@dataclass(frozen=True, slots=True)
class StreamKey:
    """Session, dialect and profile: readers with the same key share a translation."""

    session_id: str
    dialect: Dialect
    profile: Profile


@dataclass
class SharedTranslation:
    key: StreamKey
    position: int  # the last position that was translated
    readers: int = 1
    tail_bytes: int = TAIL_BYTES
    skip: Cursor = (0, -1)  # chunks up to here are translated, because that changes the translator, but not encoded
    _translator: Translator = field(init=False)
    _tail: deque[Frame] = field(default_factory=deque)
    _since: int = field(init=False)  # all frames behind this position are in the tail
    _bytes: int = 0

    def __post_init__(self) -> None:
        self._translator = self.key.dialect.translator(self.key.session_id)
        self._since = self.position

    def recall(self, envelopes: Iterable[Envelope]) -> None:
        """Give a new translator what its dialect wants to know of earlier traces."""
        translator = cast(RecallingTranslator, self._translator)
        for envelope in envelopes:
            translator.recall(envelope)

    @property
    def skips(self) -> bool:
        return self.position < self.skip[0]

    def reaches(self, position: int) -> bool:
        """Whether a reader at this position can continue here."""
        return self._since <= position <= self.position

    def translate(self, batch: list[Stored]) -> list[Frame] | None:
        """The frames of a batch, new or from the tail; None if the reader is too far behind."""
        first, last = batch[0].position, batch[-1].position
        if not self.reaches(first - 1):
            return None
        for stored in trimmed(batch[self.position + 1 - first :], self.key.profile):
            self._feed(stored)
        found = list(self._found(first, last))
        self._forget(last if self.readers == 1 else self._since)
        return found

    def _feed(self, stored: Stored) -> None:
        dialect = self.key.dialect
        for cursor, chunk in translate(self._translator, [(stored.position, decode(stored.body))]):
            if cursor > self.skip:
                frame = dialect.frame(cursor, chunk)
                self._tail.append((cursor, dialect.tag and dialect.tag(chunk), frame))
                self._bytes += len(frame)
        self.position = stored.position

    def _found(self, first: int, last: int) -> Iterator[Frame]:
        """Searched from the end, where nearly all readers are."""
        near: list[Frame] = []
        for frame in reversed(self._tail):
            if frame[0][0] < first:
                break
            if frame[0][0] <= last:
                near.append(frame)
        return reversed(near)

    def _forget(self, since: int) -> None:
        """Drop frames up to ``since`` and beyond the bound; frames of one envelope go together."""
        self._since = since
        while self._tail and (self._bytes > self.tail_bytes or self._tail[0][0][0] <= self._since):
            (position, _), _, frame = self._tail.popleft()
            self._since = max(self._since, position)
            self._bytes -= len(frame)


@dataclass
class SharedTranslations:
    """The translations that readers may join."""

    _shared: dict[StreamKey, SharedTranslation] = field(default_factory=dict)

    def join(self, own: SharedTranslation) -> SharedTranslation:
        """The shared translation if it reaches where ``own`` is, else ``own``. The first one is shared.

        One that still skips stays private: it lacks frames that others need.
        """
        if own.skips:
            return own
        shared = self._shared.setdefault(own.key, own)
        if shared is own or not shared.reaches(own.position):
            return own
        self.leave(own)
        shared.readers += 1
        return shared

    def leave(self, translation: SharedTranslation) -> None:
        translation.readers -= 1
        if not translation.readers and self._shared.get(translation.key) is translation:
            del self._shared[translation.key]

    def forget(self, session_id: str) -> None:
        """The log of the session was rewritten: no reader may join a translation of the old one."""
        for key in [key for key in self._shared if key.session_id == session_id]:
            del self._shared[key]
