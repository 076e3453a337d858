"""Status of a session: idle, running, waiting for its user, completed, stopped, failed; round."""

from typing import Literal

import msgspec
from msgspec.structs import replace

from stellwerk.envelope.model import AskUser, Envelope, RunEnd, RunStart, ToolEnd, UserAnswer

TASK = "task-"
"""The prefix of ids of a workplan's tasks, and of the messages that hold their documents."""
State = Literal["idle", "running", "completed", "stopped", "failed"]


class Status(msgspec.Struct, frozen=True, kw_only=True):
    status: State = "idle"
    round: int = 0
    awaiting_user_input: bool = False
    run_id: str | None = None
    """The run of the last round, running or ended."""
    trace_id: str | None = None
    """The trace of that run: a message with all questions and answers up to its answer."""
    message_id: str | None = None
    """The message that the trace answers."""
    system_version: int = 0
    """The version that the trace is pinned to."""
    asked: tuple[str, ...] = ()
    """Questions of that run, answered or not."""
    open_asks: tuple[str, ...] = ()
    failed_tasks: tuple[str, ...] = ()
    last_activity: float = 0.0


SAME_TRACE = ("answer", "stop")
"""Triggers of a run that resumes the trace of the previous one, which waits for its user."""
TURNING_POINTS = ("run_start", "ask_user", "user_answer", "tool_end", "run_end")
"""The types that ``fold`` reads; all others leave the status as it is."""


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
                "failed_tasks": state.failed_tasks if started.trigger in SAME_TRACE else (),
            }
        case ToolEnd():
            return replace(state, failed_tasks=still_failed(state.failed_tasks, envelope))
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


def still_failed(failed: tuple[str, ...], ended: ToolEnd) -> tuple[str, ...]:
    """Return the failed tasks after the end of a call; the last result of a task counts."""
    task = ended.payload.tool_call_id
    if not task.startswith(TASK):
        return failed
    others = tuple(each for each in failed if each != task)
    return (*others, task) if ended.payload.status == "error" else others
