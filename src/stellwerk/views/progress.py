"""Progress: the last word that a run said about how far it is."""

import msgspec

from stellwerk.envelope.model import Envelope, Log, RunStart


class Progress(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    percent: int | None = None
    message: str | None = None
    level: str = "info"
    agent: str | None = None
    ts: float | None = None


def fold(progress: Progress, envelope: Envelope) -> Progress:
    """A run begins without progress; a word that names no number leaves the number as it is."""
    match envelope:
        case RunStart():
            return Progress()
        case Log(payload=said):
            percent = progress.percent if said.progress is None else said.progress
            return Progress(
                percent=percent, message=said.message, level=said.level, agent=envelope.agent, ts=envelope.ts
            )
        case _:
            return progress
