"""Run transactions: begin, claim, release and finish runs, and keep the status of their sessions.

Each operation is one transaction. Envelopes are stored in the same transaction
as the rows they explain, so the log and the tables cannot disagree.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import reduce
from typing import Any, NamedTuple

import msgspec

from stellwerk.database.port import Lock, Row, Transaction, locking, session_lock, usage_lock
from stellwerk.envelope.frames import Stored
from stellwerk.envelope.model import Envelope, RunStart, decode
from stellwerk.envelope.payloads import RunStarted
from stellwerk.errors import StellwerkError
from stellwerk.ids import digest_id
from stellwerk.log import transactions as log
from stellwerk.log.log import Lease
from stellwerk.log.transactions import entry, placed
from stellwerk.runs.commands import NO_OPTIONS, JobOptions
from stellwerk.tenants.quotas import NO_LIMITS, Limits, refuse_bytes
from stellwerk.views.status import TASK, TURNING_POINTS, Status, fold


class ClaimedRun(NamedTuple):
    """A run that this process must drive or close."""

    lease: Lease
    after: int
    """The cursor that shows the whole run."""
    attempt: int = 1
    """How often the run was started, this time included."""
    events: list[Stored] | None = None
    """All events of the run, if it has only begun; else None, and they are read from the log."""
    cut_off: bool = False
    """A crash interrupted the run, or its server ended without marking it as paused."""


class BegunRun(NamedTuple):
    """A run that was stored as running or waiting."""

    last: int
    """Position of the last envelope stored with it."""
    after: int
    claimed: ClaimedRun | None
    stored: list[Stored]


class Release(NamedTuple):
    lease: Lease
    at: float
    paused: bool
    """Its open calls were paused. Otherwise the run counts as interrupted by a crash."""
    crashed: bool = False
    """The process of its graph ended: the next start is another attempt."""


@dataclass(frozen=True, slots=True)
class Finish:
    """The last envelopes of a run, its run_end included."""

    append: log.Append
    turns: Sequence[Envelope]
    """The envelopes that change the session's status: open questions and the run_end."""


class Finished(NamedTuple):
    position: int
    """Of the run_end."""
    stored: list[Stored]
    """The last envelopes of the run, and the first of the next round if a message was waiting."""


def each(apply: Callable[[Transaction, Any], Any], tx: Transaction, items: Sequence[Any]) -> list[Any]:
    """Apply an operation to one item after the other.

    A rejected item does not affect the others, because it is rejected before anything is written.
    """
    outcomes: list[Any] = []
    for item in items:
        try:
            outcomes.append(apply(tx, item))
        except StellwerkError as error:
            outcomes.append(error)
    return outcomes


def begin_run(
    tx: Transaction, lease: Lease, status: Status, envelopes: Sequence[Envelope], *, claim: bool, limits: Limits
) -> BegunRun:
    """Store a run and its first envelopes. With ``claim``, this process holds its lease at once."""
    offset, start = next((n, e) for n, e in enumerate(envelopes) if isinstance(e, RunStart))
    noted = append_input(tx, lease.tenant, lease.session_id, envelopes, limits)
    first = noted.stored[offset].position
    _store_status(tx, lease.tenant, lease.session_id, reduce(fold, envelopes, status))
    if claim:
        ((epoch,),) = tx.rows("raise_epoch", lease.session_id, lease.tenant)
        lease = replace(lease, epoch=epoch)
    state = "running" if claim else "waiting"
    row = (lease.run_id, lease.session_id, lease.tenant, start.trace_id, start.payload.round, first, state)
    tx.write("insert_run", *row, lease.epoch, start.ts)
    claimed = ClaimedRun(lease, first - 1, events=noted.stored[offset:]) if claim else None
    return noted._replace(after=first - 1, claimed=claimed)


def append_input(
    tx: Transaction, tenant: str, session_id: str, envelopes: Sequence[Envelope], limits: Limits
) -> BegunRun:
    """Append envelopes that no run wrote. By themselves, they begin no run.

    Raises:
        LimitReached: the tenant or the session may not store so many bytes more.
    """
    entries = [entry(envelope) for envelope in envelopes]
    refuse_bytes(tx, limits, sum(len(each.body) for each in entries), tenant, session_id)
    last = log.append_unfenced(tx, tenant, session_id, entries)
    return BegunRun(last, last - len(entries), None, placed(last, entries))


def run_start(started: RunStarted, *, run_id: str, trace_id: str, at: float) -> RunStart:
    return RunStart(ts=at, trace_id=trace_id, run_id=run_id, parent_id=None, call_id=run_id, seq=1, payload=started)


def claim_many(tx: Transaction, items: Sequence[tuple[int, float]]) -> list[list[ClaimedRun] | Exception]:
    """Claim the runs that have waited longest, up to the given number, each with its own lease."""
    return [_claim_waiting(tx, count, at) for count, at in items]


def claim_orphans(tx: Transaction, times: Sequence[float]) -> list[list[ClaimedRun] | Exception]:
    """Claim the runs that a crash left without an owner; an old owner still alive is fenced."""
    return [_claim_all(tx, "running", tx.rows("runs_running"), at=at, again=True) for at in times]


def end_connections_of_gone_nodes(tx: Transaction, items: Sequence[None]) -> list[int | Exception]:
    """Of several nodes: free the locks of those that are gone; returns how many connections they had."""
    return [tx.rows("end_connections_of_gone_nodes")[0][0] for _ in items]


def take_over_many(tx: Transaction, items: Sequence[tuple[int, float]]) -> list[list[ClaimedRun] | Exception]:
    """Of several nodes: claim up to the given number of runs whose node is gone."""
    return [_claim_all(tx, "running", tx.rows("orphans", count), at=at, again=True) for count, at in items]


@locking(lambda item: [session_lock(item[0].session_id)])
def reclaim_many(tx: Transaction, items: Sequence[tuple[Lease, float]]) -> list[list[ClaimedRun] | Exception]:
    """Claim a run whose driver is gone, unless it has another driver or an end by now."""
    return [_claim_all(tx, "running", tx.rows("run_of_lease", x.run_id, x.tenant, x.epoch), at=at) for x, at in items]


def running_many(tx: Transaction, items: Sequence[None]) -> list[list[Lease] | Exception]:
    """The leases of all runs that are being driven."""
    return [[Lease(*row) for row in tx.rows("leases_running")] for _ in items]


@locking(lambda release: [session_lock(release.lease.session_id)])
def release_many(tx: Transaction, items: Sequence[Release]) -> list[bool | Exception]:
    """Put runs back into the queue. They continue where they are when they are claimed again."""
    return [
        tx.run("release_run", crashed, paused, at, x.run_id, x.tenant, x.epoch) > 0 for x, at, paused, crashed in items
    ]


def claim_run(tx: Transaction, row: Row, *, at: float, again: bool = False) -> ClaimedRun | None:
    """None if the session was deleted; the run is ended then."""
    run_id, session_id, tenant, position, attempt, epoch = row
    raised = tx.row("raise_epoch", session_id, tenant)
    if raised is None:
        tx.run("end_run", run_id, tenant)
        return None
    tx.write("claim_run", raised[0], attempt + again, at, run_id, tenant)
    lease = Lease(tenant, session_id, run_id, int(raised[0]))
    return ClaimedRun(lease, position - 1, attempt + again, cut_off=epoch != 0)


def _claim_waiting(tx: Transaction, count: int, at: float) -> list[ClaimedRun]:
    """Those that other nodes are just claiming are passed over, and the ones behind them are next."""
    claimed: list[ClaimedRun] = []
    for wanted in (count, 2 * count, 4 * count):
        rows = tx.rows("runs_waiting", wanted, at)
        claimed += _claim_all(tx, "waiting", rows, at=at, most=count - len(claimed))
        if len(claimed) == count or len(rows) < wanted:
            break
    return claimed


def _claim_all(
    tx: Transaction, state: str, rows: list[Row], *, at: float, again: bool = False, most: int | None = None
) -> list[ClaimedRun]:
    """Those that are still in this state once their sessions are locked, and that no other process is claiming."""
    if not rows:
        return []
    free = tx.lock_free(row[1] for row in rows)
    names = msgspec.json.encode([row[0] for row in rows]).decode()
    now = {run_id: found for run_id, *found in tx.rows("states_of_runs", names)}
    unchanged = [row for row in rows if row[1] in free and now.get(row[0]) == [state, row[5]]]
    found = (claim_run(tx, row, at=at, again=again) for row in unchanged[:most])
    return [claimed for claimed in found if claimed is not None]


def _finish_locks(lease: Lease) -> list[Lock]:
    return [session_lock(lease.session_id), usage_lock(lease.tenant)]


@locking(lambda finish: _finish_locks(finish.append.lease))
def finish_many(tx: Transaction, finishes: Sequence[Finish]) -> list[Finished | Exception]:
    """End runs: store last envelopes, count usage, and begin the round of a waiting message."""
    outcomes = log.append_many(tx, [finish.append for finish in finishes])
    return [
        _finish(tx, finish, outcome) if isinstance(outcome, int) else outcome
        for finish, outcome in zip(finishes, outcomes, strict=True)
    ]


def _finish(tx: Transaction, finish: Finish, position: int) -> Finished:
    lease = finish.append.lease
    stored = placed(position, finish.append.entries)
    if tx.run("end_run", lease.run_id, lease.tenant):  # 0 if only the acknowledgement was lost
        tx.write("count_usage", lease.run_id, lease.tenant)
        tx.write("count_in_session", lease.run_id, lease.tenant)
        ends = tx.rows("ends_of_calls", lease.run_id, lease.tenant, f'"tool_call_id":"{TASK}')
        tasks = [decode(body) for (body,) in ends]
        status = update_status(tx, lease.tenant, lease.session_id, [*tasks, *finish.turns])
        _report_end(tx, finish, position)
        stored += _start_next(tx, lease, status, at=finish.turns[-1].ts)
    return Finished(position, stored)


def _start_next(tx: Transaction, ended: Lease, status: Status, *, at: float) -> list[Stored]:
    """Start the round of the longest waiting message of a session, unless a question is open."""
    waiting = tx.row("inbox_of", ended.session_id, ended.tenant)
    if waiting is None or status.status == "running":
        return []
    position, message_id, run_id, system, version, *rest = waiting
    options = JobOptions(*rest)
    started = RunStarted(
        round=status.round + 1,
        trigger="message",
        system=system,
        system_version=version,
        message_id=message_id,
        start_at=options.start_at,
    )
    start = run_start(started, run_id=run_id, trace_id=run_id, at=at)
    tx.write("take_from_inbox", ended.session_id, ended.tenant, position)
    lease = replace(ended, run_id=run_id, epoch=0)
    begun = begin_run(tx, lease, status, [start], claim=False, limits=NO_LIMITS)
    set_options(tx, lease, options)
    return begun.stored


def set_options(tx: Transaction, lease: Lease, options: JobOptions) -> None:
    if options != NO_OPTIONS:
        tx.write("set_run_options", *options, lease.run_id, lease.tenant)


def _report_end(tx: Transaction, finish: Finish, position: int) -> None:
    """Put the end of a run into the outbox, if it has a webhook.

    The id follows from the run, so a receiver recognises a repeated delivery.
    """
    lease = finish.append.lease
    row = tx.row("webhook_of_run", lease.run_id, lease.tenant)
    if row is None:
        return
    ended = msgspec.json.decode(finish.append.entries[-1].body)  # as it is stored: redacted
    place = {"session_id": lease.session_id, "run_id": lease.run_id, "position": position}
    event = {
        "type": f"run.{ended['payload']['status']}",
        "timestamp": datetime.fromtimestamp(ended["ts"], UTC).isoformat(),
        "data": {**place, "trace_id": ended.get("trace_id"), **ended["payload"]},
    }
    delivery = (digest_id("webhook", lease.run_id), lease.tenant, lease.session_id, lease.run_id, row[0])
    tx.write("put_delivery", *delivery, msgspec.json.encode(event), ended["ts"])


def status_of(tx: Transaction, tenant: str, session_id: str) -> Status:
    row = tx.row("standing_of", session_id, tenant)
    return Status() if row is None else msgspec.json.decode(row[0], type=Status)


def update_status(tx: Transaction, tenant: str, session_id: str, envelopes: Iterable[Envelope]) -> Status:
    """Fold new envelopes into the stored status of a session."""
    status = reduce(fold, envelopes, status_of(tx, tenant, session_id))
    _store_status(tx, tenant, session_id, status)
    return status


def _store_status(tx: Transaction, tenant: str, session_id: str, status: Status) -> None:
    tx.write("set_standing", session_id, tenant, msgspec.json.encode(status))


def rebuild_statuses(tx: Transaction, _items: Sequence[None]) -> list[int | Exception]:
    """Fold the logs of the next sessions without a stored status; returns how many."""
    missing = tx.rows("sessions_without_standing")
    free = tx.lock_free(session_id for session_id, _ in missing)
    for session_id, tenant in missing:
        if session_id in free:
            rebuild_status(tx, tenant, session_id)
    return [len(free)]


def rebuild_status(tx: Transaction, tenant: str, session_id: str) -> None:
    types = msgspec.json.encode(TURNING_POINTS).decode()
    events = tx.rows("turning_points", session_id, types, tenant)
    update_status(tx, tenant, session_id, (decode(body) for (body,) in events))
