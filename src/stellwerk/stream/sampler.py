"""The sampler: a buffer that merges words and progress while they wait, and says when it is due.

Text is never dropped and nothing of one call changes its order; of a tool's
progress in data only the latest of a window is kept. The end of a text that may
be half of a character, or the beginning of a secret, waits for what follows. The first token of a burst
is due at once, later ones at the end of their window; windows of all sessions
end at the same moments, so that one commit serves them all. The end of a call
waits a little longer, for the state that holds its result: stored together, no
crash comes between them, and nothing that has ended is done or said again. Time
comes in as an argument.
"""

from dataclasses import dataclass, field
from math import floor
from typing import TypeVar

from msgspec.structs import replace

from stellwerk.envelope.canonical import clean_text
from stellwerk.envelope.model import (
    Document,
    Envelope,
    Error,
    LlmEnd,
    LlmStart,
    LlmToken,
    Message,
    RunEnd,
    RunStart,
    ToolEnd,
    ToolStart,
    ToolUpdate,
)
from stellwerk.envelope.payloads import Token
from stellwerk.envelope.redaction import Redactor

_BURST = 4
"""Windows of silence after which the next token counts as the first of a burst."""
W = TypeVar("W", bound=LlmToken | ToolUpdate)
_Key = tuple[str, str, int | str | None]
_HELD = 1.0
"""Seconds that the result of a call waits for the state of its graph."""
_RESULTS = LlmEnd | ToolEnd | Message | Document
_AT_ONCE = RunStart | RunEnd | LlmStart | ToolStart | Error


@dataclass(slots=True)
class _Words:
    """Tokens of one block, or pieces of the arguments of one call, that wait to be merged into one."""

    first: LlmToken | ToolUpdate
    texts: list[str]
    closed: bool = False
    held: bool = False
    """The end of what was taken already."""


@dataclass(slots=True)
class _Progress:
    """What a tool has told of its progress since the last time, as one update."""

    latest: ToolUpdate
    closed: bool = False
    held: bool = False
    """The end of what was taken already."""


@dataclass
class Sampler:
    window: float
    redactor: Redactor = field(default_factory=Redactor)
    """Knows what must not be cut in two, as it would not be found then."""
    _buffer: list[Envelope | _Words | _Progress] = field(default_factory=list)
    _growing: dict[_Key, _Words] = field(default_factory=dict)
    _progress: dict[str, _Progress] = field(default_factory=dict)
    """The last update of each call, as long as nothing else of that call came behind it."""
    _due: float | None = None
    _busy_until: float = 0.0
    _held_since: float | None = None

    def feed(self, envelope: Envelope, now: float) -> bool:
        """True if it may now be due earlier than before."""
        if isinstance(envelope, LlmToken) or (isinstance(envelope, ToolUpdate) and envelope.payload.phase == "args"):
            if not self._merge(envelope) and self._due is not None:
                return False
            self._due_by(now if now >= self._busy_until else self._window_end(now))
            return True
        if isinstance(envelope, ToolUpdate) and self._update(envelope) and self._due is not None:
            return False
        self._close(envelope.call_id)
        if not isinstance(envelope, ToolUpdate):
            self._end_progress(envelope.call_id)
            self._buffer.append(envelope)
        if isinstance(envelope, _RESULTS):
            self._held_since = now if self._held_since is None else self._held_since
            self._due_by(self._held_since + _HELD)
        else:
            self._due_by(now if isinstance(envelope, _AT_ONCE) else self._window_end(now))
        return True

    def due(self) -> float | None:
        """When somebody should ``take``; None if there is nothing to take."""
        return self._due

    def take_due(self, now: float) -> list[Envelope]:
        """What waits, without the results of calls that only words of others have followed yet."""
        since, tail = self._held_since, len(self._buffer)
        if since is None or now >= since + _HELD:
            return self.take(now)
        while tail and isinstance(self._buffer[tail - 1], _RESULTS | _Words | _Progress):
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
        """Everything that waits, merged, in order. ``last`` says that nothing follows."""
        waiting, self._buffer, self._growing, self._progress, self._due = self._buffer, [], {}, {}, None
        self._busy_until, self._held_since = now + _BURST * self.window, None
        return [e for item in waiting for e in self._taken(item, last)]

    def _merge(self, words: LlmToken | ToolUpdate) -> bool:
        """True if it begins something new, and so may be due; False if it joined what waits already."""
        key, text = _key(words), words.payload.text or ""
        growing = self._growing.get(key)
        if growing is not None and (self.window > 0 or growing.held):
            growing.texts.append(text)
            return False
        self._growing[key] = fresh = _Words(words, [text])
        self._buffer.append(fresh)
        return True

    def _update(self, update: ToolUpdate) -> bool:
        """True if the update joined the one that waits already."""
        waiting, new = self._progress.get(update.call_id), update.payload
        if waiting is not None and (self.window > 0 or waiting.held):
            old = waiting.latest.payload
            if (old.text is None) == (new.text is None):
                text = None if old.text is None or new.text is None else old.text + new.text
                waiting.latest = replace(waiting.latest, payload=replace(new, text=text))
                return True
        self._end_progress(update.call_id)
        self._progress[update.call_id] = fresh = _Progress(update)
        self._buffer.append(fresh)
        return False

    def _end_progress(self, call_id: str) -> None:
        if (waiting := self._progress.pop(call_id, None)) is not None:
            waiting.closed = True

    def _close(self, call_id: str) -> None:
        if self._growing:
            for key in [key for key in self._growing if key[0] == call_id]:
                self._growing.pop(key).closed = True

    def _taken(self, item: Envelope | _Words | _Progress, last: bool) -> list[Envelope]:
        if isinstance(item, _Words):
            text, rest = self._cut("".join(item.texts), whole=item.closed or last)
            if rest:
                self._growing[_key(item.first)] = words = _Words(item.first, [rest], held=True)
                self._buffer.append(words)
            return [_saying(item.first, clean_text(text))] if text else []
        if not isinstance(item, _Progress) or item.latest.payload.text is None:
            return [item.latest if isinstance(item, _Progress) else item]
        text, rest = self._cut(item.latest.payload.text, whole=item.closed or last)
        if not rest:
            return [item.latest]
        self._progress[item.latest.call_id] = progress = _Progress(_saying(item.latest, rest), held=True)
        self._buffer.append(progress)
        return [_saying(item.latest, text)] if text else []

    def _cut(self, text: str, *, whole: bool) -> tuple[str, str]:
        """What can be told now, and what waits for what follows."""
        if whole:
            return text, ""
        half = "\ud800" <= text[-1:] <= "\udbff"
        settled = self.redactor.settled(text[:-1] if half else text)
        return text[:settled], text[settled:]

    def _window_end(self, now: float) -> float:
        return (floor(now / self.window) + 1) * self.window if self.window > 0 else now

    def _due_by(self, moment: float) -> None:
        self._due = moment if self._due is None else min(self._due, moment)


def _saying(said: W, text: str) -> W:
    return replace(said, payload=replace(said.payload, text=text))


def _key(words: LlmToken | ToolUpdate) -> _Key:
    """What belongs together: a block of what a model says, or the arguments of one call."""
    said = words.payload
    if isinstance(said, Token):
        return words.call_id, said.kind, said.block
    return words.call_id, said.phase, said.tool_call_id
