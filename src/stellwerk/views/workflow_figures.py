"""Figures of a workflow: what it took in and gave out, the tokens it used, the seconds it was at work.

Seconds are counted from the start of a run to its end. A run that its server
left behind was at work up to the last thing that it stored: until it goes on,
or is found to be unable to, nobody works.
"""

from dataclasses import dataclass, field

from msgspec.structs import replace

from stellwerk.envelope.model import (
    AskUser,
    Envelope,
    LlmEnd,
    Log,
    Message,
    RunEnd,
    RunStart,
    SubgraphCheckpoint,
    SubgraphResume,
    Warning,
)
from stellwerk.views.workflow_shapes import DataStats


@dataclass
class Figures:
    total: DataStats = field(default_factory=DataStats)
    """Of what is over; the time of a run under way comes to it at its end."""
    _since: float | None = None
    """When the stretch of work began that is under way."""
    _seen: float = 0.0
    """When that told its last."""
    _told: DataStats = field(default_factory=DataStats)
    """The figures of the message before; of the start, if the run has said nothing yet."""

    def feed(self, envelope: Envelope, *, cut_off: bool) -> None:
        """``cut_off`` says that a run begins again here, or ends, which had lost its server."""
        match envelope:
            case RunStart(ts=ts):
                self._since = self._seen = ts
                self._told = self.total
            case SubgraphResume(ts=ts) if cut_off:
                self._stop(self._seen)
                self._since = self._seen = ts
            case RunEnd(ts=ts):
                self._stop(self._seen if cut_off else ts)
            case LlmEnd(payload=ended, ts=ts) if not ended.synthesized:
                used = 0 if ended.usage is None else ended.usage.input_tokens + ended.usage.output_tokens
                self.total = replace(self.total, tokens_used=self.total.tokens_used + used)
                self._seen = ts
            case Message() | AskUser() | Log() | Warning() | SubgraphCheckpoint() if envelope.run_id is not None:
                self._seen = max(self._seen, envelope.ts)

    def up_to(self, ts: float) -> DataStats:
        """The figures of this moment."""
        under_way = 0.0 if self._since is None else max(0.0, ts - self._since)
        return replace(self.total, processing_time=round(self.total.processing_time + under_way, 3))

    def deliver(self, message: DataStats) -> None:
        """Count the bytes of a message that is shown."""
        received, sent = message.bytes_received, message.bytes_sent
        bytes_received, bytes_sent = self.total.bytes_received + received, self.total.bytes_sent + sent
        self.total = replace(self.total, bytes_received=bytes_received, bytes_sent=bytes_sent)

    def share(self, ts: float, size: int) -> DataStats:
        """The figures of a message that the workflow makes: its size, and what its run used up since the one before."""
        before, self._told = self._told, self.up_to(ts)
        return DataStats(
            bytes_sent=size,
            tokens_used=self._told.tokens_used - before.tokens_used,
            processing_time=round(max(0.0, self._told.processing_time - before.processing_time), 3),
        )

    def _stop(self, ts: float) -> None:
        self.total, self._since = self.up_to(ts), None
