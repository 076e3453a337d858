"""Metrics of the log since the process started, counted when envelopes are committed.

Most events are only counted. The few that begin or end something are looked
into, with no more of them decoded than is counted.
"""

from collections.abc import Callable, Sequence

import msgspec

from stellwerk.envelope.frames import Stored
from stellwerk.metrics import Counter

_TYPE = len(b'{"type":"')
_ENDS = (b"llm_end", b"tool_end")


class _Usage(msgspec.Struct):
    input_tokens: int = 0
    output_tokens: int = 0


class _Payload(msgspec.Struct):
    status: str = ""
    usage: _Usage | list[_Usage] | None = None
    synthesized: bool = False


class _Event(msgspec.Struct):
    call_id: str
    ts: float
    payload: _Payload


_DECODER = msgspec.json.Decoder(_Event)


class LogMetrics:
    def __init__(self) -> None:
        self.appended = Counter("stellwerk_events_appended_total", "Events that were appended to logs.")
        self.started = Counter("stellwerk_runs_started_total", "Runs that were accepted.")
        self.ended = Counter("stellwerk_runs_ended_total", "Runs that have ended, by how.", "status")
        self.tokens = Counter("stellwerk_tokens_total", "Tokens of models, as providers count them.", "kind")
        self.synthesized = Counter(
            "stellwerk_synthesized_ends_total", "Calls that ended only because their run did.", "kind"
        )
        self.saved = Counter("stellwerk_compacted_bytes_total", "Bytes of events that compaction has saved.")
        self.expired = Counter("stellwerk_expired_sessions_total", "Sessions that were deleted because of their age.")
        self._open: dict[str, dict[str, float]] = {}
        """By session: the calls that are open, and since when."""
        self.on_growth: Callable[[str, int], None] | None = None
        """Called for each log that grows, with the session and the bytes."""

    def counters(self) -> tuple[Counter, ...]:
        return self.started, self.ended, self.tokens, self.appended, self.synthesized, self.saved, self.expired

    def see(self, session_id: str, events: Sequence[Stored]) -> None:
        """What has just been committed."""
        self.appended.add(by=len(events))
        if self.on_growth is not None:
            self.on_growth(session_id, sum(len(body) for _, body in events))
        for _, body in events:
            kind = body[_TYPE : body.index(b'"', _TYPE)]
            if kind in _ENDS:
                self._call_ended(session_id, kind, _DECODER.decode(body))
            elif kind in (b"llm_start", b"tool_start"):
                event = _DECODER.decode(body)
                self._open.setdefault(session_id, {})[event.call_id] = event.ts
            elif kind == b"run_start":
                self.started.add()
            elif kind == b"run_end":
                self.ended.add(_DECODER.decode(body).payload.status)
                self.forget(session_id)

    def forget(self, session_id: str) -> None:
        """Nothing is open there: the run is over or waits, or its session was deleted."""
        self._open.pop(session_id, None)

    def oldest_call(self) -> float | None:
        """When the oldest call began that is open."""
        return min((ts for calls in self._open.values() for ts in calls.values()), default=None)

    def _call_ended(self, session_id: str, kind: bytes, event: _Event) -> None:
        self._open.get(session_id, {}).pop(event.call_id, None)
        if event.payload.synthesized:
            self.synthesized.add("model" if kind == b"llm_end" else "tool")
        if isinstance(event.payload.usage, _Usage):
            self.tokens.add("input", by=event.payload.usage.input_tokens)
            self.tokens.add("output", by=event.payload.usage.output_tokens)
