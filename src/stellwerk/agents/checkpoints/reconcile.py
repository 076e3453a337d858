"""Reconciling state and transcript: the checkpoint a run starts from, and messages it may lack.

A completed run has all of its messages in its state. A stopped or failed run may have ended before
its agent stored its message, or before a replaced answer was removed from the state.
"""

import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

from stellwerk.database.port import Database, Transaction
from stellwerk.envelope.model import Envelope, Message, RunStart, SubgraphCheckpoint, Update, decode
from stellwerk.views.transcript import Hidden, fold, is_visible

_COMPLETED = '"status":"completed"'


class ReplacedRun(NamedTuple):
    """The run whose answer is regenerated."""

    position: int
    round: int
    checkpoint: str | None
    """Its first checkpoint: the state before it, with the input that the new run replaces."""


def client_changes(tx: Transaction, tenant: str, session_id: str, *, after: int) -> dict[str, Any]:
    """What clients have set in the graph's state behind a position, by key; the last value of each.

    Messages are left out: they belong to the answer that is replaced.
    """
    changed: dict[str, Any] = {}
    for (body,) in tx.rows("client_updates_after", session_id, after, tenant):
        update = decode(bytes(body))
        if isinstance(update, Update) and update.payload.by and isinstance(update.payload.delta, dict):
            changed |= update.payload.delta
    changed.pop("messages", None)
    return changed


class StartState(NamedTuple):
    checkpoint: str | None = None
    """The checkpoint to start from, if it is not the latest."""
    unheard: Sequence[Message] = ()
    """Messages shown since the last completed run; the state may lack some of them."""


async def waiting_messages(database: Database, tenant: str, run_id: str) -> list[Message]:
    """Messages that the state of an unfinished run has, and its log may not have yet."""
    row = await database.read(lambda tx: tx.row("waiting_messages", run_id, tenant))
    found = [] if row is None else [decode(body) for body in bytes(row[0]).split(b"\n")]
    return [message for message in found if isinstance(message, Message)]


def start_state(tx: Transaction, tenant: str, session_id: str, *, before: int) -> StartState:
    """The state for a run that starts at this position."""
    last = tx.row("end_before", session_id, before, "", tenant)
    if last is None or _COMPLETED in bytes(last[1]).decode():
        return StartState()
    completed = tx.row("end_before", session_id, before, _COMPLETED, tenant)
    after = 0 if completed is None else int(completed[0])
    rows = tx.rows("start_events_between", session_id, after, before, tenant)
    envelopes = [decode(bytes(body)) for _, body in rows]
    checkpoint = None
    if (replaced := _replaced_without_a_step(envelopes)) is not None:
        checkpoint = replaced_run(tx, tenant, session_id, replaced).checkpoint
    return StartState(checkpoint, _shown_messages(tx, tenant, session_id, envelopes, before))


def replaced_run(tx: Transaction, tenant: str, session_id: str, run_id: str) -> ReplacedRun:
    """The run that first answered the message; later replacements are skipped."""
    position, start = _start_of(tx, tenant, session_id, run_id)
    if start.trace_id is not None and start.trace_id != run_id:
        position, start = _start_of(tx, tenant, session_id, start.trace_id)
    if start.payload.replaces is not None:
        return replaced_run(tx, tenant, session_id, start.payload.replaces)
    checkpoint = None
    for _, body in tx.rows("checkpoint_events", session_id, position, sys.maxsize, tenant):
        saved = decode(bytes(body))
        if isinstance(saved, SubgraphCheckpoint) and saved.parent_id is None:
            checkpoint = saved.payload.checkpoint_id
    return ReplacedRun(position, start.payload.round, checkpoint)


def _replaced_without_a_step(envelopes: Sequence[Envelope]) -> str | None:
    """The run whose answer is hidden although its replacement has stored no state."""
    found: str | None = None
    for envelope in envelopes:
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


def _shown_messages(
    tx: Transaction, tenant: str, session_id: str, envelopes: Sequence[Envelope], before: int
) -> list[Message]:
    """The visible messages, without enqueued ones."""
    hidden = Hidden()
    added: dict[str, Message] = {}
    for envelope in envelopes:
        hidden = fold(hidden, envelope)
        if isinstance(envelope, Message) and envelope.payload.action == "added":
            added[envelope.payload.message_id] = envelope
    found: dict[str, Message] = {}
    for envelope in envelopes:
        match envelope:
            case RunStart(payload=started) if started.message_id in added:
                found[started.message_id] = added[started.message_id]
            case RunStart(payload=started) if started.message_id is not None:
                for (body,) in tx.rows("messages_naming", session_id, before, started.message_id, tenant):
                    message = decode(bytes(body))
                    if isinstance(message, Message) and message.payload.message_id == started.message_id:
                        found[started.message_id] = message
            case Message(payload=said) if said.role == "assistant" or said.status == "step":
                found[said.message_id] = envelope
    return [message for message in found.values() if is_visible(hidden, message)]
