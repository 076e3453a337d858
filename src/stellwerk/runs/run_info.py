"""The runs of a session with their status, for clients that ask for a run by its id."""

from typing import Any, Literal

import msgspec

from stellwerk.database.port import Row, Transaction
from stellwerk.envelope.model import Message, RunEnd, RunStart, decode
from stellwerk.errors import NotFound
from stellwerk.log.transactions import unknown_session

RunStatus = Literal["waiting", "running", "completed", "awaiting_user", "stopped", "failed"]


class RunInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A run, or an enqueued message with the id of the run that it will start."""

    run_id: str
    session_id: str
    agent_system_id: str
    status: RunStatus
    """Waiting for a slot, for its time, or for the round before it; running, also right after a crash; or its end."""
    trace_id: str | None = None
    """Of the message and all questions and answers up to its end; None while it is enqueued."""
    round: int | None = None
    trigger: Literal["message", "answer", "regenerate", "stop"] = "message"
    message_id: str | None = None
    """The message that it answers; None if it continues a trace."""
    replaces: str | None = None
    is_enqueued: bool = False
    position: int
    """Of its start; of the message while it is enqueued."""
    end: int | None = None
    """The position of its end."""
    created_at: float
    start_at: float | None = None
    """When it starts, at the earliest, if it was delayed."""
    ended_at: float | None = None
    result: str | None = None
    reason: str | None = None
    code: str | None = None
    """Why it has failed."""

    @property
    def after(self) -> int:
        """The cursor that shows the run whole."""
        return self.position - 1


def unknown_run(run_id: str) -> NotFound:
    return NotFound("run", run_id, remedy="the run_start events of this session name its runs")


def find_run(tx: Transaction, tenant: str, session_id: str, run_id: str) -> RunInfo:
    """
    Raises:
        NotFound: there is no such session, or no such run in it.
    """
    _check_session(tx, tenant, session_id)
    if (row := tx.row("run_of_session", session_id, tenant, run_id)) is not None:
        return _run(session_id, row)
    waiting = [each for each in tx.rows("enqueued_runs", session_id, tenant) if each[0] == run_id]
    if not waiting:
        raise unknown_run(run_id)
    return _enqueued(session_id, waiting[0])


def list_runs(tx: Transaction, tenant: str, session_id: str, *, limit: int, offset: int) -> list[RunInfo]:
    """The newest first; enqueued ones are newer than all others."""
    _check_session(tx, tenant, session_id)
    waiting = tx.rows("enqueued_runs", session_id, tenant)
    found = [_enqueued(session_id, row) for row in waiting[offset : offset + limit]]
    skipped = max(0, offset - len(waiting))
    rows = tx.rows("runs_of_session", session_id, tenant, limit - len(found), skipped)
    return [*found, *(_run(session_id, row) for row in rows)]


def _check_session(tx: Transaction, tenant: str, session_id: str) -> None:
    if tx.row("head", session_id, tenant) is None:
        raise unknown_session(session_id)


def _run(session_id: str, row: Row) -> RunInfo:
    run_id, trace_id, state, position, start_at, body, end, end_body = row
    start = decode(body)
    assert isinstance(start, RunStart)
    status: RunStatus = "running" if state == "running" else "waiting"
    ended: dict[str, Any] = {}
    over = None if end_body is None else decode(end_body)
    if isinstance(over, RunEnd):
        status = over.payload.status
        ended = {name: getattr(over.payload, name) for name in ("result", "reason", "code")}
        ended |= {"end": end, "ended_at": over.ts}
    return RunInfo(
        run_id=run_id,
        session_id=session_id,
        agent_system_id=start.payload.system,
        status=status,
        trace_id=trace_id,
        round=start.payload.round,
        trigger=start.payload.trigger,
        message_id=start.payload.message_id,
        replaces=start.payload.replaces,
        position=position,
        created_at=start.ts,
        start_at=start_at,
        **ended,
    )


def _enqueued(session_id: str, row: Row) -> RunInfo:
    run_id, system, position, start_at, body = row
    message = decode(body)
    assert isinstance(message, Message)
    return RunInfo(
        run_id=run_id,
        session_id=session_id,
        agent_system_id=system,
        status="waiting",
        message_id=message.payload.message_id,
        is_enqueued=True,
        position=position,
        created_at=message.ts,
        start_at=start_at,
    )
