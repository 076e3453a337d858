"""What runs do to the tables, each operation one transaction: claim and release runs, and where a session stands.

Envelopes are stored in the same transaction as the rows they explain, so the
log and the tables cannot disagree.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from typing import Any, NamedTuple

import msgspec

from stellwerk.database.port import Transaction
from stellwerk.envelope.frames import Stored
from stellwerk.envelope.model import Envelope, decode
from stellwerk.errors import Fenced, StellwerkError
from stellwerk.log.log import Lease
from stellwerk.views.status import TURNING_POINTS, Status, fold


class Claimed(NamedTuple):
    """A run that is ours to drive or to close."""

    lease: Lease
    after: int
    """The cursor that shows the run whole."""
    attempt: int = 1
    """How often it was begun, this time included."""
    told: list[Stored] | None = None
    """All that there is of it, if that is known: it has only begun."""
    cut_off: bool = False
    """A crash left it, or a server that did not say whether it was paused; any other was paused, or has not begun."""


def each(take: Callable[[Transaction, Any], Any], tx: Transaction, items: Sequence[Any]) -> list[Any]:
    """One after the other; what is refused leaves its neighbours alone, as it is refused before anything is written."""
    outcomes: list[Any] = []
    for item in items:
        try:
            outcomes.append(take(tx, item))
        except StellwerkError as refusal:
            outcomes.append(refusal)
    return outcomes


def claim_many(tx: Transaction, items: Sequence[tuple[int, float]]) -> list[list[Claimed] | Exception]:
    """The runs that have waited longest, so many at most, each with a lease of its own."""
    return [_claimed(tx, tx.rows("runs_waiting", count), at=at) for count, at in items]


def orphans(tx: Transaction, times: Sequence[float]) -> list[list[Claimed] | Exception]:
    """Runs that a crash left without an owner; the old owner, if it still lives, is fenced off."""
    return [_claimed(tx, tx.rows("runs_running"), at=at, again=True) for at in times]


def running_many(tx: Transaction, items: Sequence[None]) -> list[list[Lease] | Exception]:
    """Under which lease each run is driven that is under way."""
    return [[Lease(*row) for row in tx.rows("leases_running")] for _ in items]


def reclaim_many(tx: Transaction, items: Sequence[tuple[Lease, float]]) -> list[list[Claimed] | Exception]:
    """A run whose driver is gone, if nobody else has taken it up or ended it meanwhile."""
    return [_claimed(tx, tx.rows("run_of_lease", x.run_id, x.tenant, x.epoch), at=at) for x, at in items]


class Release(NamedTuple):
    lease: Lease
    at: float
    paused: bool
    """What is open in it was paused. Otherwise it is judged like a run that a crash left."""


def release_many(tx: Transaction, items: Sequence[Release]) -> list[bool | Exception]:
    """Put runs back into the queue: they go on where they are when they are claimed again."""
    return [tx.run("release_run", paused, at, x.run_id, x.tenant, x.epoch) > 0 for x, at, paused in items]


def claim(tx: Transaction, row: tuple[Any, ...], *, at: float, again: bool = False) -> Claimed | None:
    """None if its session is gone; then nobody will ever want the run."""
    run_id, session_id, tenant, position, attempt, epoch = row
    raised = tx.row("raise_epoch", session_id, tenant)
    if raised is None:
        tx.run("end_run", run_id, tenant)
        return None
    tx.run("claim_run", raised[0], attempt + again, at, run_id, tenant)
    lease = Lease(tenant, session_id, run_id, int(raised[0]))
    return Claimed(lease, position - 1, attempt + again, cut_off=epoch != 0)


def _claimed(tx: Transaction, rows: Iterable[tuple[Any, ...]], *, at: float, again: bool = False) -> list[Claimed]:
    found = (claim(tx, row, at=at, again=again) for row in rows)
    return [claimed for claimed in found if claimed is not None]


def stand(tx: Transaction, tenant: str, session_id: str, envelopes: Iterable[Envelope]) -> None:
    """Fold the news into the session's standing."""
    state = reduce(fold, envelopes, standing(tx, tenant, session_id))
    tx.run("set_standing", session_id, tenant, msgspec.json.encode(state))


def standing(tx: Transaction, tenant: str, session_id: str) -> Status:
    row = tx.row("standing_of", session_id, tenant)
    return Status() if row is None else msgspec.json.decode(row[0], type=Status)


def rebuild_standings(tx: Transaction, _items: Sequence[None]) -> list[int | Exception]:
    """Fold the logs of the next sessions whose standing is missing; 0 if there is none."""
    missing = tx.rows("sessions_without_standing")
    for session_id, tenant in missing:
        stand_anew(tx, tenant, session_id)
    return [len(missing)]


def stand_anew(tx: Transaction, tenant: str, session_id: str) -> None:
    events = tx.rows("turning_points", session_id, msgspec.json.encode(TURNING_POINTS).decode(), tenant)
    stand(tx, tenant, session_id, (decode(body) for (body,) in events))


def raise_epoch(tx: Transaction, tenant: str, session_id: str) -> int:
    row = tx.row("raise_epoch", session_id, tenant)
    if row is None:
        raise Fenced(session_id, 0)
    return int(row[0])
