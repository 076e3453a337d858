"""Fork: another session that begins with what was said in this one, and goes its own way from there."""

from collections.abc import Sequence
from dataclasses import dataclass

from stellwerk.agents.checkpoint_pruning import sweep
from stellwerk.database.port import Transaction
from stellwerk.envelope.model import FORMAT, RunEnd, SubgraphCheckpoint, decode
from stellwerk.errors import Conflict, StellwerkError
from stellwerk.log.tables import unknown_session
from stellwerk.runs.tables import stand_anew


@dataclass(frozen=True, slots=True)
class Fork:
    tenant: str
    session_id: str
    new_id: str
    position: int | None
    """Of the end of a run; without one, of the last."""
    at: float


def fork_many(tx: Transaction, forks: Sequence[Fork]) -> list[None | Exception]:
    outcomes: list[None | Exception] = []
    for fork in forks:
        try:
            _fork(tx, fork)
            outcomes.append(None)
        except StellwerkError as refusal:  # raised before anything was written
            outcomes.append(refusal)
    return outcomes


def _fork(tx: Transaction, fork: Fork) -> None:
    head = tx.row("head", fork.session_id, fork.tenant)
    if head is None:
        raise unknown_session(fork.session_id)
    position = _end_of_run(tx, fork)
    new, old, tenant = fork.new_id, fork.session_id, fork.tenant
    tx.run("create_session", new, tenant, head[2], head[4], FORMAT, tx.flush, fork.at)
    tx.run("copy_events", new, old, position, tenant)
    tx.run("set_last_position", position, new, tenant)
    tx.run("copy_documents", new, fork.at, tenant, old)
    checkpoint = _checkpoint_at(tx, fork, position)
    if checkpoint is not None:
        tx.run("copy_checkpoint", new, tenant, old, checkpoint)
        tx.run("copy_checkpoint_items", new, tenant, old)
        sweep(tx, tenant, new)  # nothing of what came later
    stand_anew(tx, tenant, new)


def _end_of_run(tx: Transaction, fork: Fork) -> int:
    """Where to cut. In the middle of a run, or while it waits for its user, there is no state to begin with."""
    rows = tx.rows("ends_of_runs", fork.session_id, fork.tenant)
    ends = [position for position, body in rows if _is_over(bytes(body))]
    if not ends:
        raise Conflict("no run of this session has ended yet; fork it when one has", code="no_run_ended")
    wanted = ends[-1] if fork.position is None else fork.position
    if wanted not in ends:
        nearest = min(ends, key=lambda end: abs(end - wanted))
        raise Conflict(
            f"position {wanted} is not the end of a run that is over; the nearest is {nearest}", code="not_a_run_end"
        )
    return int(wanted)


def _is_over(body: bytes) -> bool:
    envelope = decode(body)
    return isinstance(envelope, RunEnd) and envelope.payload.status != "awaiting_user"


def _checkpoint_at(tx: Transaction, fork: Fork, position: int) -> str | None:
    """The last checkpoint of the outermost graph up to there."""
    for (body,) in tx.rows("checkpoints_told", fork.session_id, 0, position, fork.tenant):
        envelope = decode(bytes(body))
        if isinstance(envelope, SubgraphCheckpoint) and envelope.parent_id is None:
            return envelope.payload.checkpoint_id
    return None
