"""What runs do to the tables, each operation one transaction: accept, claim, finish.

Envelopes are stored in the same transaction as the rows they explain, so the
log and the tables cannot disagree.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, NamedTuple

import msgspec

from stellwerk.database.port import Transaction
from stellwerk.envelope.frames import Stored
from stellwerk.envelope.model import Envelope, decode
from stellwerk.errors import Conflict, Fenced, Overloaded, StellwerkError
from stellwerk.log import tables as log
from stellwerk.log.log import Lease, entry, placed
from stellwerk.runs.commands import Accepted, Send, first_envelopes
from stellwerk.runs.machine import advance
from stellwerk.views.status import TURNING_POINTS, Status, fold

_BEGINNING = 2
"""Envelopes with which every run begins."""


@dataclass(frozen=True, slots=True)
class Intake:
    """A message that wants to become a run."""

    send: Send
    claim: bool
    """There is a free slot here: take the lease at once."""
    depth: int
    """How many runs may wait."""


class Taken(NamedTuple):
    answer: Accepted
    lease: Lease | None
    stored: list[Stored]


@dataclass(frozen=True, slots=True)
class Finish:
    """The last envelopes of a run, among them its run_end."""

    append: log.Append
    envelopes: Sequence[Envelope]


class Claimed(NamedTuple):
    """A run that is ours to drive or to close."""

    lease: Lease
    after: int
    """The cursor that shows the run whole."""
    beginning: list[Stored]
    """Its first envelopes: the start, and the message that started it."""


def accept_many(tx: Transaction, intakes: Sequence[Intake]) -> list[Taken | Exception]:
    outcomes: list[Taken | Exception] = []
    for intake in intakes:
        try:
            outcomes.append(_accept(tx, intake))
        except StellwerkError as refusal:  # raised before anything was written
            outcomes.append(refusal)
    return outcomes


def finish_many(tx: Transaction, finishes: Sequence[Finish]) -> list[int | Exception]:
    outcomes = log.append_many(tx, [finish.append for finish in finishes])
    for finish, outcome in zip(finishes, outcomes, strict=True):
        if isinstance(outcome, int):
            lease = finish.append.lease
            tx.run("end_run", lease.run_id, lease.tenant)
            stand(tx, lease.tenant, lease.session_id, finish.envelopes)
    return outcomes


def claim_many(tx: Transaction, counts: Sequence[int]) -> list[list[Claimed] | Exception]:
    """The runs that have waited longest, each with a lease of its own."""
    return [[_claim(tx, row) for row in tx.rows("runs_waiting", count)] for count in counts]


def orphans(tx: Transaction, _items: Sequence[None]) -> list[list[Claimed] | Exception]:
    """Runs that a crash left without an owner; the old owner, if it still lives, is fenced off."""
    return [[_claim(tx, row) for row in tx.rows("runs_running")]]


def reclaim_many(tx: Transaction, leases: Sequence[Lease]) -> list[list[Claimed] | Exception]:
    """A run whose driver is gone, if nobody else has taken it up or ended it meanwhile."""
    return [[_claim(tx, row) for row in tx.rows("run_of_lease", x.run_id, x.tenant, x.epoch)] for x in leases]


def stand(tx: Transaction, tenant: str, session_id: str, envelopes: Iterable[Envelope]) -> None:
    """Fold the news into the session's standing."""
    state = reduce(fold, envelopes, standing(tx, tenant, session_id))
    tx.run("set_standing", session_id, tenant, msgspec.json.encode(state))


def standing(tx: Transaction, tenant: str, session_id: str) -> Status:
    row = tx.row("standing_of", session_id, tenant)
    return Status() if row is None else msgspec.json.decode(row[0], type=Status)


def rebuild_standings(tx: Transaction, _items: Sequence[None]) -> list[int | Exception]:
    """Fold the log of every session whose standing is missing."""
    missing = tx.rows("sessions_without_standing")
    for session_id, tenant in missing:
        events = tx.rows("turning_points", session_id, msgspec.json.encode(TURNING_POINTS).decode(), tenant)
        stand(tx, tenant, session_id, (decode(body) for (body,) in events))
    return [len(missing)]


def _accept(tx: Transaction, intake: Intake) -> Taken:
    send = intake.send
    if tx.row("head", send.session_id, send.tenant) is None:
        raise log.unknown_session(send.session_id)
    known = send.key and tx.row("recall_answer", send.tenant, send.session_id, f"message {send.key}")
    if known:
        return _answered_before(known, send)
    status = standing(tx, send.tenant, send.session_id)
    advance(status, "message")
    if not intake.claim and _waiting(tx) >= intake.depth:
        raise Overloaded("as many runs are waiting as this server takes; send this again in a few seconds")
    return _admit(tx, send, round=status.round + 1, claim=intake.claim)


def _admit(tx: Transaction, send: Send, *, round: int, claim: bool) -> Taken:
    envelopes = first_envelopes(send, round=round)
    entries = [entry(envelope) for envelope in envelopes]
    last = log.append_unfenced(tx, send.tenant, send.session_id, entries)
    first = last - _BEGINNING + 1
    stand(tx, send.tenant, send.session_id, envelopes)
    lease = None
    if claim:
        lease = Lease(send.tenant, send.session_id, send.run_id, _raise_epoch(tx, send.tenant, send.session_id))
    state, epoch = ("running", lease.epoch) if lease else ("waiting", 0)
    run = (send.run_id, send.session_id, send.tenant, send.trace_id, round, first, state, epoch, send.at)
    tx.run("insert_run", *run)
    answer = Accepted(round=round, run_id=send.run_id, message_id=send.message_id, position=last, after=first - 1)
    if send.key:
        body = msgspec.json.encode(answer)
        key = f"message {send.key}"
        tx.run("remember_answer", send.tenant, send.session_id, key, send.digest(), body, send.at)
    return Taken(answer, lease, placed(last, entries))


def _answered_before(known: tuple[Any, ...], send: Send) -> Taken:
    if known[0] != send.digest():
        raise Conflict("this Idempotency-Key was used with another message; take a new key", code="key_reused")
    return Taken(msgspec.json.decode(known[1], type=Accepted), None, [])


def _claim(tx: Transaction, row: tuple[Any, ...]) -> Claimed:
    run_id, session_id, tenant, position = row
    epoch = _raise_epoch(tx, tenant, session_id)
    tx.run("claim_run", epoch, run_id, tenant)
    beginning = [Stored(*found) for found in tx.rows("read_events", session_id, position - 1, tenant, _BEGINNING)]
    return Claimed(Lease(tenant, session_id, run_id, epoch), position - 1, beginning)


def _raise_epoch(tx: Transaction, tenant: str, session_id: str) -> int:
    row = tx.row("raise_epoch", session_id, tenant)
    if row is None:
        raise Fenced(session_id, 0)
    return int(row[0])


def _waiting(tx: Transaction) -> int:
    row = tx.row("count_waiting")
    return int(row[0]) if row else 0
