"""Envelopes for tests, with pinned ids and times, so that a test names only what it is about."""

from itertools import count
from typing import Any

from stellwerk.envelope.model import (
    Envelope,
    LlmEnd,
    LlmStart,
    LlmToken,
    Message,
    RunEnd,
    RunStart,
    ToolEnd,
    ToolStart,
)
from stellwerk.envelope.payloads import (
    ModelCalled,
    ModelEnded,
    RunEnded,
    RunStarted,
    RunStatus,
    Said,
    TextPart,
    Token,
    ToolCalled,
    ToolEnded,
)
from stellwerk.ids import SystemClock

TENANT = "local"


def place(call: str, seq: int, *, parent: str | None = "run", run: str = "run") -> dict[str, Any]:
    return {"ts": 1.5, "trace_id": "trace", "run_id": run, "parent_id": parent, "call_id": call, "seq": seq}


def run_start(run: str = "run", round: int = 1) -> RunStart:
    started = RunStarted(round=round, trigger="message", system="demo", system_version=1, message_id="m1")
    return RunStart(**place(run, 1, parent=None, run=run), payload=started)


def run_end(seq: int = 2, status: RunStatus = "completed", run: str = "run") -> RunEnd:
    return RunEnd(**place(run, seq, parent=None, run=run), payload=RunEnded(status=status))


def message(message_id: str = "m1") -> Message:
    said = Said(message_id=message_id, role="user", content=[TextPart(text="hello")], status="first")
    return Message(**place("say-" + message_id, 1), payload=said)


def llm_start(call: str = "llm", *, parent: str = "run") -> LlmStart:
    return LlmStart(**place(call, 1, parent=parent), payload=ModelCalled(model="scripted", message_id=call))


def token(text: str, seq: int = 2, call: str = "llm") -> LlmToken:
    return LlmToken(**place(call, seq), payload=Token(text=text))


def llm_end(seq: int = 3, call: str = "llm") -> LlmEnd:
    return LlmEnd(**place(call, seq), payload=ModelEnded(message_id=call, status="ok"))


def tool_start(call: str = "tool", *, parent: str = "run") -> ToolStart:
    return ToolStart(**place(call, 1, parent=parent), payload=ToolCalled(tool_name="look", tool_call_id="c1"))


def tool_end(seq: int = 2, call: str = "tool", *, parent: str = "run") -> ToolEnd:
    ended = ToolEnded(tool_name="look", tool_call_id="c1", status="ok")
    return ToolEnd(**place(call, seq, parent=parent), payload=ended)


def whole_run() -> list[Envelope]:
    """One legal run: a model call, a tool with a model call inside it, an answer."""
    return [
        run_start(),
        message(),
        llm_start("a"),
        token("think", 2, "a"),
        llm_end(3, "a"),
        tool_start("t"),
        llm_start("b", parent="t"),
        llm_end(2, "b"),
        tool_end(2, "t"),
        run_end(),
    ]


class SteadyClock:
    """A clock that goes one second further each time somebody looks."""

    def __init__(self) -> None:
        self._seconds = count(1)

    def now(self) -> float:
        return float(next(self._seconds))

    def steady(self) -> float:
        return self.now()


class StillClock:
    """A clock that stands still until it is told how much time has passed."""

    def __init__(self, now: float = 1000.0) -> None:
        self._now, self._set_by = now, 0.0

    def now(self) -> float:
        return self._now + self._set_by

    def steady(self) -> float:
        return self._now

    def pass_by(self, seconds: float) -> None:
        self._now += seconds

    def set_by(self, seconds: float) -> None:
        """Set it forward, or back: no time passes."""
        self._set_by += seconds


class SetClock(SystemClock):
    """The clock of the system, which can be set forward and back."""

    set_by = 0.0

    def now(self) -> float:
        return super().now() + self.set_by
