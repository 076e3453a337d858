"""With which checkpoint a run begins, and what the transcript shows that this checkpoint may lack.

A run that completed has all of its messages in its state. One that was stopped
or failed may have been cut off before its agent took up its message, or before
an answer that another one replaces was taken out of the state.
"""

import sys
from collections.abc import Sequence
from typing import NamedTuple

from stellwerk.agents.turn import UnheardMessage, unheard_message_of
from stellwerk.database.port import Database, Transaction
from stellwerk.envelope.model import Envelope, Message, RunStart, SubgraphCheckpoint, decode
from stellwerk.views.transcript import Hidden, fold, is_visible

_COMPLETED = '"status":"completed"'


class Replaced(NamedTuple):
    """A trace whose answer is given again."""

    position: int
    round: int
    checkpoint: str | None
    """Its first: it has the state from before, and the input, which the new one takes the place of."""


class Beginning(NamedTuple):
    checkpoint: str | None = None
    """The state to begin with, if it is not the last one."""
    unheard: Sequence[UnheardMessage] = ()
    """What the transcript shows since the last run that completed; the state may lack some of it."""


async def waiting_messages(database: Database, tenant: str, run_id: str) -> list[Message]:
    """What the state of a run has and its log may not have yet, if the run has not ended."""
    row = await database.read(lambda tx: tx.row("waiting_messages", run_id, tenant))
    found = [] if row is None else [decode(body) for body in bytes(row[0]).split(b"\n")]
    return [message for message in found if isinstance(message, Message)]


def beginning(tx: Transaction, tenant: str, session_id: str, *, before: int) -> Beginning:
    """For a run that starts at this position."""
    last = tx.row("end_before", session_id, before, "", tenant)
    if last is None or _COMPLETED in bytes(last[1]).decode():
        return Beginning()
    completed = tx.row("end_before", session_id, before, _COMPLETED, tenant)
    after = 0 if completed is None else int(completed[0])
    rows = tx.rows("told_between", session_id, after, before, tenant)
    told = [decode(bytes(body)) for _, body in rows]
    replaced = _replaced_without_a_step(told)
    checkpoint = None if replaced is None else replaced_by(tx, tenant, session_id, replaced).checkpoint
    shown = _said(tx, tenant, session_id, told, before)
    return Beginning(checkpoint, [unheard_message_of(said) for said in shown])


def replaced_by(tx: Transaction, tenant: str, session_id: str, run_id: str) -> Replaced:
    """Where the message was answered for the first time; answers that replaced that one are passed over."""
    position, start = _start_of(tx, tenant, session_id, run_id)
    if start.trace_id is not None and start.trace_id != run_id:
        position, start = _start_of(tx, tenant, session_id, start.trace_id)
    if start.payload.replaces is not None:
        return replaced_by(tx, tenant, session_id, start.payload.replaces)
    told = tx.rows("checkpoints_told", session_id, position, sys.maxsize, tenant)
    saved = [e for e in (decode(bytes(body)) for _, body in told) if isinstance(e, SubgraphCheckpoint)]
    ids = [e.payload.checkpoint_id for e in saved if e.parent_id is None]
    return Replaced(position, start.payload.round, ids[-1] if ids else None)


def _replaced_without_a_step(told: Sequence[Envelope]) -> str | None:
    """The run whose answer is hidden although the run that takes its place has stored no state."""
    found: str | None = None
    for envelope in told:
        match envelope:
            case SubgraphCheckpoint(parent_id=None):
                found = None
            case RunStart(payload=started) if started.replaces is not None:
                found = started.replaces
    return found


def _start_of(tx: Transaction, tenant: str, session_id: str, run_id: str) -> tuple[int, RunStart]:
    for position, body in tx.rows("starts_naming", session_id, run_id, tenant):
        start = decode(bytes(body))
        if isinstance(start, RunStart) and start.run_id == run_id:
            return position, start
    raise TypeError(f"the run {run_id} is named in the log and has no start in it")


def _said(tx: Transaction, tenant: str, session_id: str, told: Sequence[Envelope], before: int) -> list[Message]:
    """The messages that are shown, without those that are enqueued."""
    hidden = Hidden()
    for envelope in told:
        hidden = fold(hidden, envelope)
    messages = {e.payload.message_id: e for e in told if isinstance(e, Message) and e.payload.action == "added"}
    found: dict[str, Message] = {}
    for envelope in told:
        match envelope:
            case RunStart(payload=started) if started.message_id is not None and started.message_id not in messages:
                for (body,) in tx.rows("messages_naming", session_id, before, started.message_id, tenant):
                    message = decode(bytes(body))
                    if isinstance(message, Message) and message.payload.message_id == started.message_id:
                        found[started.message_id] = message
            case RunStart(payload=started) if started.message_id is not None:
                found[started.message_id] = messages[started.message_id]
            case Message(payload=said) if said.role == "assistant" or said.status == "step":
                found[said.message_id] = envelope
    return [message for message in found.values() if is_visible(hidden, message)]
