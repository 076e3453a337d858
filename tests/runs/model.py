"""What a session should do, in a few lines: the state machine of sessions without anything that makes it work."""

from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

ATTEMPTS = 2
ENDS = {"work": "running", "risk": "running", "ask": "awaiting", "fail": "failed", "quick": "completed"}
"""Where a session stands some time after a message, which begins with one of these words."""


class End(NamedTuple):
    """What is left of a run: how it ended, in which round, and all that was said up to then."""

    place: str
    round: int
    heard: tuple[str, ...]
    counted: tuple[tuple[int, ...], ...]


@dataclass
class Model:
    """Each method answers with the code of the refusal, if the server must refuse."""

    place: str = "idle"
    round: int = 0
    heard: tuple[str, ...] = ()
    counted: tuple[tuple[int, ...], ...] = ()
    """The runs that answer each of these messages, by their numbers."""
    said: str = ""
    """What the last run answers, unless that was in the session that this one was forked from."""
    attempt: int = 1
    calls: "Counter[str]" = field(default_factory=Counter)
    """How often a tool was called, by message."""
    waiting: list[str] = field(default_factory=list)
    ends: list[End] = field(default_factory=list)
    forked: int = 0
    """The runs up to here are copies."""

    @property
    def busy(self) -> bool:
        return self.place in ("running", "awaiting")

    def message(self, text: str, *, enqueue: bool) -> str | None:
        if self.busy and enqueue:
            self.waiting.append(text)
        elif self.busy:
            return self.answer() if self.place == "awaiting" else "session_busy"
        else:
            self._start(text)
        return None

    def answer(self) -> str | None:
        if self.place != "awaiting":
            return "nothing_asked"
        self._go_on()
        self._end("completed")
        return None

    def regenerate(self) -> str | None:
        if self.busy:
            return "session_busy" if self.place == "running" else "question_open"
        if not self.said:
            return "nothing_said"
        self._start(self.said, instead_of=len(self.heard) - 1)
        return None

    def rewrite(self, run: int, text: str, *, interrupt: bool) -> str | None:
        """Answer the message of a run once more, or another in its place."""
        place = next((place for place, runs in enumerate(self.counted) if run in runs), None)
        if place is None:
            return "already_replaced"
        if self.busy and not interrupt:
            return "session_busy" if self.place == "running" else "question_open"
        self.stop()
        self._start(text or self.heard[place], instead_of=place)
        return None

    def fork(self, end: int) -> "Model | str":
        if not self.ends:
            return "no_run_ended"
        kept = self.ends[: end % len(self.ends) + 1]
        return Model(*kept[-1], ends=kept, forked=kept[-1].round)

    def stop(self) -> None:
        self.waiting.clear()
        if self.busy:
            if self.place == "awaiting":
                self._go_on()
            self._end("stopped")

    def finish(self) -> None:
        self._end("completed")

    def cut_off(self, *, crashed: bool) -> None:
        """By a crash, or by an end that did not wait for it, which is no attempt. Some work may be done again."""
        if self.place == "running":
            self.attempt += crashed
            if self.attempt > ATTEMPTS or self.said.startswith("risk"):
                self._end("failed")
            else:
                self.calls[self.said] += 1

    def _go_on(self) -> None:
        """In a run of its own, after a question."""
        self.round += 1
        self.counted = (*self.counted[:-1], (*self.counted[-1], self.round))

    def _start(self, text: str, *, instead_of: int | None = None) -> None:
        self.round, self.attempt, self.said = self.round + 1, 1, text
        self.heard = (*self.heard[:instead_of], text)
        self.counted = (*self.counted[:instead_of], (self.round,))
        self.place = ENDS[text.split()[0]]
        self.calls[text] += self.place == "running"
        if not self.busy:
            self._end(self.place)

    def _end(self, place: str) -> None:
        self.place = place
        self.ends.append(End(place, self.round, self.heard, self.counted))
        if self.waiting:
            self._start(self.waiting.pop(0))
