"""Open calls: which are open, how far each has counted, and how to close what is left.

One fold for everybody who ends a run: the runner, a stop, and recovery after a
crash all close by ``closing``, from the same envelopes.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Any

from msgspec.structs import replace

from stellwerk.envelope.model import CallStart, Envelope, LlmEnd, LlmStart, RunEnd, ToolEnd, ToolStart
from stellwerk.envelope.payloads import ModelEnded, ToolEnded


@dataclass
class OpenCalls:
    _seqs: dict[str, int] = field(default_factory=dict)
    _open: dict[str, CallStart] = field(default_factory=dict)

    def feed(self, envelope: Envelope) -> None:
        """Take note of an envelope that is in the log, or is about to be."""
        match envelope:
            case LlmStart() | ToolStart():
                self._open[envelope.call_id] = envelope
            case LlmEnd() | ToolEnd():
                self._open.pop(envelope.call_id, None)
                self._seqs.pop(envelope.call_id, None)
                return
            case RunEnd():
                self._seqs.pop(envelope.call_id, None)
                return
        self._seqs[envelope.call_id] = envelope.seq

    def stamp(self, envelope: Envelope) -> Envelope:
        """Give the envelope its place within its call."""
        stamped = replace(envelope, seq=self._seqs.get(envelope.call_id, 0) + 1)
        self.feed(stamped)
        return stamped

    def unstamp(self, envelope: Envelope) -> None:
        """Take back the latest place that was given within a call: the envelope will not be stored."""
        self._seqs[envelope.call_id] = envelope.seq - 1

    def open_tools(self) -> list[ToolStart]:
        """Tools, agents and graphs that have begun and not ended."""
        return [start for start in self._open.values() if isinstance(start, ToolStart)]

    def closing(self, *, ts: float, run_id: str, but: Collection[str] = ()) -> Iterator[Envelope]:
        """Ends for everything still open, innermost first, marked as abandoned; to be stamped like all others.

        Calls named in ``but`` stay open: they wait for the user, or go on where they were paused.
        """
        for start in reversed(list(self._open.values())):
            if start.call_id not in but:
                yield abandoned(start, ts, run_id)


def abandoned(start: CallStart, ts: float, run_id: str) -> Envelope:
    """The end of a call that was cut off; it never claims success."""
    common: dict[str, Any] = {
        "ts": ts,
        "trace_id": start.trace_id,
        "run_id": run_id,
        "parent_id": start.parent_id,
        "call_id": start.call_id,
        "seq": 0,
        "agent": start.agent,
    }
    if isinstance(start, LlmStart):
        return LlmEnd(
            **common, payload=ModelEnded(message_id=start.payload.message_id, status="abandoned", synthesized=True)
        )
    called = start.payload
    ended = ToolEnded(
        tool_name=called.tool_name, tool_call_id=called.tool_call_id, status="abandoned", synthesized=True
    )
    return ToolEnd(**common, payload=ended)
