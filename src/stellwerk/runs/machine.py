"""The state machine of a session, as a table: what may happen when, and what comes of it."""

from typing import Literal

from stellwerk.errors import Conflict
from stellwerk.views.status import State, Status

Event = Literal["message", "answer", "stop", "completed", "awaiting_user", "stopped", "failed"]
Place = Literal["idle", "running", "awaiting", "completed", "stopped", "failed"]

EDGES: dict[tuple[Place, Event], State] = {
    ("idle", "message"): "running",
    ("completed", "message"): "running",
    ("stopped", "message"): "running",
    ("failed", "message"): "running",
    ("awaiting", "answer"): "running",
    ("running", "completed"): "completed",
    ("running", "awaiting_user"): "running",
    ("running", "stopped"): "stopped",
    ("running", "failed"): "failed",
    ("running", "stop"): "stopped",
    ("awaiting", "stop"): "stopped",
    # Stop is idempotent: what is over stays as it is.
    ("idle", "stop"): "idle",
    ("completed", "stop"): "completed",
    ("stopped", "stop"): "stopped",
    ("failed", "stop"): "failed",
}

_REFUSALS: dict[tuple[Place, Event], tuple[str, str]] = {
    ("running", "message"): (
        "session_busy",
        "the session is still working on round {round}; send this again when it has ended, or a message with if_busy: "
        "enqueue (it waits for its turn) or interrupt (the round is stopped)",
    ),
    ("awaiting", "message"): (
        "question_open",
        "the session waits for answers to its questions; answer them first: {asks}",
    ),
}


def place(status: Status) -> Place:
    if status.status == "running" and status.awaiting_user_input:
        return "awaiting"
    return status.status


def advance(status: Status, event: Event) -> State:
    """The state after the event.

    Raises:
        Conflict: the session cannot take this event where it stands.
    """
    here = place(status)
    if (here, event) in EDGES:
        return EDGES[here, event]
    code, text = _REFUSALS.get((here, event), ("not_now", f"a session that is {here} cannot take: {event}"))
    raise Conflict(text.format(round=status.round, asks=", ".join(status.open_asks)), code=code)
