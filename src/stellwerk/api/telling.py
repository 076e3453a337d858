"""Translated once, read by many: the live end of a session in a dialect.

Whoever reads a dialect begins with a translator of his own. Once he is where
others are he follows theirs instead. Its latest frames are kept for those who are
a little behind, within bounds, and gone with the last reader. Never waits, never
reads the log: batches come in, frames go out.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from stellwerk.dialects.base import Cursor, Dialect, Translator, translate
from stellwerk.dialects.native import Profile, trimmed
from stellwerk.envelope.frames import Stored
from stellwerk.envelope.model import decode

_TAIL_BYTES = 256 * 1024

Frame = tuple[Cursor, bytes]


@dataclass(frozen=True, slots=True)
class Told:
    """Which session is told, and how: all who want the same may share."""

    session_id: str
    dialect: Dialect
    profile: Profile


@dataclass
class Telling:
    told: Told
    position: int
    """How far it was fed."""
    readers: int = 1
    _translator: Translator = field(init=False)
    _tail: deque[Frame] = field(default_factory=deque)
    _since: int = field(init=False)
    """All frames of what lies behind this position are in the tail."""
    _bytes: int = 0

    def __post_init__(self) -> None:
        self._translator, self._since = self.told.dialect.translator(self.told.session_id), self.position

    def reaches(self, position: int) -> bool:
        """Whether somebody who has read so far can go on here."""
        return self._since <= position <= self.position

    def tell(self, batch: list[Stored]) -> list[Frame] | None:
        """The frames of a batch, made now or found in the tail; None for whoever is too far behind to go on here."""
        first, last = batch[0].position, batch[-1].position
        if not self.reaches(first - 1):
            return None
        for stored in trimmed(batch[self.position + 1 - first :], self.told.profile):
            self._feed(stored)
        found = list(self._found(first, last))
        self._forget(last if self.readers == 1 else self._since)
        return found

    def _feed(self, stored: Stored) -> None:
        for cursor, chunk in translate(self._translator, [(stored.position, decode(stored.body))]):
            frame = self.told.dialect.frame(cursor, chunk)
            self._tail.append((cursor, frame))
            self._bytes += len(frame)
        self.position = stored.position

    def _found(self, first: int, last: int) -> Iterator[Frame]:
        """From the end, where nearly all readers are."""
        near: list[Frame] = []
        for frame in reversed(self._tail):
            if frame[0][0] < first:
                break
            if frame[0][0] <= last:
                near.append(frame)
        return reversed(near)

    def _forget(self, since: int) -> None:
        """What lies at or in front of ``since``, and what is too much; frames of one envelope go together."""
        self._since = since
        while self._tail and (self._bytes > _TAIL_BYTES or self._tail[0][0][0] <= self._since):
            (position, _), frame = self._tail.popleft()
            self._since = max(self._since, position)
            self._bytes -= len(frame)


@dataclass
class Tellings:
    """Those that may be shared."""

    _shared: dict[Told, Telling] = field(default_factory=dict)

    def joined(self, own: Telling) -> Telling:
        """The one that others follow, if it can go on where ``own`` is; else ``own``. Whoever is first is followed."""
        shared = self._shared.setdefault(own.told, own)
        if shared is own or not shared.reaches(own.position):
            return own
        self.left(own)
        shared.readers += 1
        return shared

    def left(self, telling: Telling) -> None:
        telling.readers -= 1
        if not telling.readers and self._shared.get(telling.told) is telling:
            del self._shared[telling.told]

    def forget(self, session_id: str) -> None:
        """Its log was rewritten: nobody joins those who were told the old one."""
        for told in [told for told in self._shared if told.session_id == session_id]:
            del self._shared[told]
