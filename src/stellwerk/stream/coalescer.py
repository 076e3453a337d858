"""The coalescer: a buffer that merges tokens and tool output, with a flush window.

Text is never dropped, and the order within one call never changes; of a tool's
progress in data only the latest of a window is kept. The end of a text that may
be the beginning of a secret waits for more text, but no text waits longer than
``LONGEST_WAIT``; half of a character waits for its other half. The first token of
a burst is due at once, later ones at the end of their window; the windows of all
sessions end at the same moments, so that one commit serves them all. The end of a
call waits a little longer, for the checkpoint that holds its result: both are
stored together, so no crash comes between them and no finished call is repeated.
Time comes in as an argument.
"""

from dataclasses import dataclass, field
from math import floor, inf

from msgspec.structs import replace

from stellwerk.envelope import model as m
from stellwerk.envelope.model import Envelope, LlmToken, ToolUpdate
from stellwerk.envelope.payloads import Token
from stellwerk.envelope.to_json import clean_text
from stellwerk.redaction.redactor import Redactor

_BURST = 4
"""Windows of silence after which the next token counts as the first of a burst."""
_Key = tuple[str, str, int | str | None]
LONGEST_WAIT = 0.25
"""The most seconds that text waits: for its window, and then for the rest of a possible secret."""
_HELD = 1.0
"""Seconds that the result of a call waits for the checkpoint of its graph."""
_RESULTS = m.LlmEnd | m.ToolEnd | m.Message | m.Document
_AT_ONCE = m.RunStart | m.RunEnd | m.LlmStart | m.ToolStart | m.Error


@dataclass(slots=True)
class _Text:
    """Tokens of a block, arguments of a call, or progress of a tool, merged into one envelope."""

    envelope: LlmToken | ToolUpdate
    texts: list[str]
    """Empty for progress in data."""
    closed: bool = False
    held: int = 0
    """Characters that were held back when the rest was taken."""
    release_at: float = inf
    """When these are taken at the latest."""


@dataclass
class Coalescer:
    window: float
    redactor: Redactor = field(default_factory=Redactor)
    """Knows the secrets, which must not be cut in two: redaction would not find the halves."""
    _buffer: list[Envelope | _Text] = field(default_factory=list)
    _growing: dict[_Key, _Text] = field(default_factory=dict)
    """Text that may be merged with more, as long as no other envelope of its call followed."""
    _due: float | None = None
    _busy_until: float = 0.0
    _held_since: float | None = None

    def feed(self, envelope: Envelope, now: float) -> bool:
        """Add an envelope; return True if the buffer may now be due earlier than before."""
        if isinstance(envelope, LlmToken):  # most envelopes are tokens that join others
            token = envelope.payload
            growing = self._growing.get((envelope.call_id, token.kind, token.block))
            if growing is not None and self.window > 0 and not growing.held and self._due is not None:
                growing.texts.append(token.text)
                return False
        if isinstance(envelope, LlmToken | ToolUpdate):
            if not self._merge(envelope) and self._due is not None:
                return False
            at_once = now >= self._busy_until and not _is_progress(envelope)
            self._due_by(now if at_once else self._window_end(now))
            return True
        self._close(envelope.call_id)
        self._buffer.append(envelope)
        if isinstance(envelope, _RESULTS):
            self._held_since = now if self._held_since is None else self._held_since
            self._due_by(self._held_since + _HELD)
        else:
            self._due_by(now if isinstance(envelope, _AT_ONCE) else self._window_end(now))
        return True

    def due(self) -> float | None:
        """Return when to ``take``; None if there is nothing to take."""
        return self._due

    def take_due(self, now: float) -> list[Envelope]:
        """Take the buffer, except results that only tokens of other calls have followed yet."""
        since = self._held_since
        tail = len(self._buffer)
        if since is None or now >= since + _HELD:
            return self.take(now)
        while tail and isinstance(self._buffer[tail - 1], _RESULTS | _Text):
            tail -= 1
        held = [item for item in self._buffer[tail:] if isinstance(item, _RESULTS)]
        self._buffer[tail:] = [item for item in self._buffer[tail:] if not isinstance(item, _RESULTS)]
        taken = self.take(now)
        if held:
            self._buffer += held
            self._held_since = since
            self._due_by(since + _HELD)
        return taken

    def take(self, now: float, *, last: bool = False) -> list[Envelope]:
        """Take the whole buffer, merged, in order. ``last`` means that nothing follows."""
        waiting = self._buffer
        self._buffer = []
        self._growing = {}
        self._due = None
        self._busy_until = now + _BURST * self.window
        self._held_since = None
        return [envelope for item in waiting for envelope in self._taken(item, now, last)]

    def _merge(self, new: LlmToken | ToolUpdate) -> bool:
        """Return True if the buffer may be due earlier: new text alone, or joined to held text."""
        key = _key(new)
        text = new.payload.text
        growing = self._growing.get(key)
        # Without a window each piece stays alone, unless a secret might be cut in two.
        may_join = growing is not None and (self.window > 0 or growing.held > 0 or bool(self.redactor))
        if growing is not None and may_join and bool(growing.texts) == (text is not None):
            if text is not None:
                growing.texts.append(text)
            if isinstance(new, ToolUpdate) and _is_progress(new):
                growing.envelope = replace(growing.envelope, payload=new.payload)
            return growing.held > 0
        if growing is not None:
            growing.closed = True
        self._growing[key] = fresh = _Text(new, [] if text is None else [text])
        self._buffer.append(fresh)
        return True

    def _close(self, call_id: str) -> None:
        if self._growing:
            for key in [key for key in self._growing if key[0] == call_id]:
                self._growing.pop(key).closed = True

    def _taken(self, item: Envelope | _Text, now: float, last: bool) -> list[Envelope]:
        if not isinstance(item, _Text):
            return [item]
        envelope = item.envelope
        if not item.texts:
            return [envelope]
        text, rest, release_at = self._cut("".join(item.texts), item, now, last)
        if rest:
            held = _Text(envelope, [rest], held=len(rest), release_at=release_at)
            self._buffer.append(held)
            self._growing[_key(envelope)] = held
        if not text and (rest or not _is_progress(envelope)):
            return []
        return [replace(envelope, payload=replace(envelope.payload, text=clean_text(text)))]

    def _cut(self, text: str, item: _Text, now: float, last: bool) -> tuple[str, str, float]:
        """Return the text to take now, the rest to hold back, and the latest time for the rest."""
        if item.closed or last:
            return text, "", inf
        end = len(text) - ("\ud800" <= text[-1:] <= "\udbff")
        longest_hold = LONGEST_WAIT - self.window
        is_over = now >= item.release_at or longest_hold <= 0
        settled = end if is_over else self.redactor.settled(text[:end])
        if settled == end:
            return text[:end], text[end:], inf
        release_at = item.release_at if settled < item.held else now + longest_hold
        self._due_by(release_at)
        return text[:settled], text[settled:], release_at

    def _window_end(self, now: float) -> float:
        return (floor(now / self.window) + 1) * self.window if self.window > 0 else now

    def _due_by(self, moment: float) -> None:
        self._due = moment if self._due is None else min(self._due, moment)


def _is_progress(envelope: LlmToken | ToolUpdate) -> bool:
    return isinstance(envelope, ToolUpdate) and envelope.payload.phase != "args"


def _key(envelope: LlmToken | ToolUpdate) -> _Key:
    """Return the merge key: a block of a message, or the arguments or the output of a call."""
    payload = envelope.payload
    if isinstance(payload, Token):
        return envelope.call_id, payload.kind, payload.block
    return envelope.call_id, payload.phase, payload.tool_call_id if payload.phase == "args" else None
