"""Fork: a new session that begins with a copy of the log of another one, up to the end of a run."""

import sys
from bisect import bisect_left
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from stellwerk.agents.checkpoints.reconcile import start_state
from stellwerk.agents.checkpoints.rows import copy_states
from stellwerk.database.port import DOCUMENTS, Transaction, id_lock, locking, session_lock
from stellwerk.envelope.model import FORMAT, Message, RunEnd, RunStart, SubgraphCheckpoint, decode
from stellwerk.errors import Conflict
from stellwerk.log.transactions import append_unfenced, entry, unknown_session
from stellwerk.runs import commands
from stellwerk.runs.transactions import each, rebuild_status
from stellwerk.tenants.quotas import Limits, limit_locks, refuse_bytes


@dataclass(frozen=True, slots=True)
class Fork:
    tenant: str
    session_id: str
    new_id: str
    position: int | None
    """Of the end of a run; without one, of the last."""
    at: float
    limits: Limits = Limits()


@locking(
    lambda fork: [
        session_lock(fork.session_id),
        id_lock(fork.new_id),
        DOCUMENTS,
        *limit_locks(fork.limits, fork.tenant),
    ]
)
def fork_many(tx: Transaction, forks: Sequence[Fork]) -> list[None | Exception]:
    return each(_fork, tx, forks)


def _fork(tx: Transaction, fork: Fork) -> None:
    head = tx.row("head", fork.session_id, fork.tenant)
    if head is None:
        raise unknown_session(fork.session_id)
    ends = _ends_of_runs(tx, fork)
    position = ends[-1]
    new, old, tenant = fork.new_id, fork.session_id, fork.tenant
    (size,) = tx.row("bytes_told", old, tenant) or (0,)
    refuse_bytes(tx, fork.limits, size, tenant)  # its files count once
    tx.run("create_session", new, tenant, head[2], head[4], FORMAT, tx.flush, fork.at)
    if (defaults := tx.row("session_defaults", old, tenant)) is not None:
        tx.run("set_session_defaults", defaults[0], new, tenant)
    tx.run("copy_events", new, old, position, tenant)
    tx.run("set_last_position", position, new, tenant)
    tx.run("copy_documents", new, fork.at, tenant, old)
    copy_states(tx, tenant, old, new, _checkpoints_at(tx, fork, ends))
    if waiting := _only_enqueued(tx, fork):
        withdrawn = [entry(commands.withdrawal(message_id, at=fork.at)) for message_id in waiting]
        append_unfenced(tx, tenant, new, withdrawn)
    rebuild_status(tx, tenant, new)


def _only_enqueued(tx: Transaction, fork: Fork) -> list[str]:
    """Messages that had started nothing where the log was cut; what they became is not forked."""
    apart = tx.rows("messages_without_run", fork.new_id, fork.tenant)
    said = [e.payload for e in (decode(body) for (body,) in apart) if isinstance(e, Message)]
    waiting = [one.message_id for one in said if one.status == "first" and one.action == "added"]
    if not waiting:
        return []
    rows = tx.rows("turning_points", fork.new_id, '["run_start"]', fork.tenant)
    starts = [decode(body) for (body,) in rows]
    begun = {e.payload.message_id for e in starts if isinstance(e, RunStart)}
    gone = begun | {one.message_id for one in said if one.action == "removed"}
    return [message_id for message_id in waiting if message_id not in gone]


def _ends_of_runs(tx: Transaction, fork: Fork) -> list[int]:
    """Where to cut: inside a run, or while it waits for its user, there is no start state.

    A change of the state behind the end of a run moves that end.
    """
    rows = tx.rows("ends_of_runs", fork.session_id, fork.tenant)
    rows += tx.rows("checkpoint_events", fork.session_id, 0, sys.maxsize, fork.tenant)
    ends: list[int] = []
    is_over = True
    for position, body in sorted(rows):
        envelope = decode(bytes(body))
        if isinstance(envelope, RunEnd):
            is_over = envelope.payload.status != "awaiting_user"
        elif envelope.run_id is not None:
            continue
        if is_over:
            ends.append(position)
    if not ends:
        raise Conflict("no run of this session has ended yet; fork it when one has", code="no_run_ended")
    wanted = ends[-1] if fork.position is None else fork.position
    if wanted not in ends:
        nearest = min(ends, key=lambda end: abs(end - wanted))
        said = f"position {wanted} is not the end of a run that is over; the nearest is {nearest}"
        raise Conflict(said, code="not_a_run_end")
    return ends[: ends.index(wanted) + 1]


def _checkpoints_at(tx: Transaction, fork: Fork, ends: Sequence[int]) -> Collection[str]:
    """The checkpoints that a message at each end may begin with, so a fork can be forked there."""
    found: dict[int, str] = {}
    for position, body in tx.rows("checkpoint_events", fork.session_id, 0, ends[-1], fork.tenant):
        envelope = decode(body)
        if isinstance(envelope, SubgraphCheckpoint) and envelope.parent_id is None:
            found.setdefault(bisect_left(ends, position), envelope.payload.checkpoint_id)
    others = [start_state(tx, fork.tenant, fork.session_id, before=end + 1).checkpoint for end in ends]
    return {*found.values(), *(each for each in others if each is not None)}
