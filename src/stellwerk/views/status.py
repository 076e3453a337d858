"""Status: where a session stands; running, waiting for its user, or over; and in which round."""

from typing import Literal

import msgspec
from msgspec.structs import replace

from stellwerk.envelope.model import AskUser, Envelope, RunEnd, RunStart, UserAnswer

State = Literal["idle", "running", "completed", "stopped", "failed"]


class Status(msgspec.Struct, frozen=True, kw_only=True):
    status: State = "idle"
    round: int = 0
    awaiting_user_input: bool = False
    run_id: str | None = None
    """The run of the last round, running or over."""
    trace_id: str | None = None
    """What that run belongs to: a message, and all that was asked and answered on the way to its answer."""
    message_id: str | None = None
    """Of the message that the trace answers."""
    system_version: int = 0
    """To which the trace is pinned."""
    asked: tuple[str, ...] = ()
    """Questions of that run, answered or not."""
    open_asks: tuple[str, ...] = ()
    last_activity: float = 0.0


TURNING_POINTS = ("run_start", "ask_user", "user_answer", "run_end")
"""The types that ``fold`` looks at; all others leave the status as it is."""


def fold(state: Status, envelope: Envelope) -> Status:
    news: dict[str, object]
    match envelope:
        case RunStart(payload=started):
            news = {
                "status": "running",
                "round": started.round,
                "run_id": envelope.run_id,
                "trace_id": envelope.trace_id,
                "message_id": started.message_id or state.message_id,
                "system_version": started.system_version,
                "awaiting_user_input": False,
                "asked": (),
            }
        case AskUser(payload=asked) if asked.ask_id in state.asked:
            return state
        case AskUser(payload=asked):
            news = {"asked": (*state.asked, asked.ask_id), "open_asks": (*state.open_asks, asked.ask_id)}
        case UserAnswer(payload=answered):
            news = {"open_asks": tuple(ask for ask in state.open_asks if ask != answered.ask_id)}
        case RunEnd(payload=ended) if ended.status == "awaiting_user":
            news = {"awaiting_user_input": True}
        case RunEnd(payload=ended):
            news = {"status": ended.status, "awaiting_user_input": False, "open_asks": ()}
        case _:
            return state
    return replace(state, **news, last_activity=envelope.ts)
