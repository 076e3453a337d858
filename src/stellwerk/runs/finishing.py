"""The end of a run, in one transaction: its last envelopes, where the session stands, and the round that comes next."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from stellwerk.database.port import Transaction
from stellwerk.envelope.frames import Stored
from stellwerk.envelope.model import Envelope, decode
from stellwerk.log import tables as log
from stellwerk.log.log import Lease, placed
from stellwerk.runs.intake import start_next
from stellwerk.runs.tables import stand
from stellwerk.views.status import TASK


@dataclass(frozen=True, slots=True)
class Finish:
    """The last envelopes of a run, among them its run_end."""

    append: log.Append
    turns: Sequence[Envelope]
    """What changes where the session stands: open questions, and the end."""


class Finished(NamedTuple):
    position: int
    """Of the run's end."""
    stored: list[Stored]
    """Its last envelopes, and how the next round begins."""


def finish_many(tx: Transaction, finishes: Sequence[Finish]) -> list[Finished | Exception]:
    outcomes = log.append_many(tx, [finish.append for finish in finishes])
    return [
        _finished(tx, finish, outcome) if isinstance(outcome, int) else outcome
        for finish, outcome in zip(finishes, outcomes, strict=True)
    ]


def _finished(tx: Transaction, finish: Finish, position: int) -> Finished:
    lease, stored = finish.append.lease, placed(position, finish.append.entries)
    if tx.run("end_run", lease.run_id, lease.tenant):  # not if it was ended before, and only the answer was lost
        tx.run("count_usage", lease.run_id, lease.tenant)
        tx.run("count_in_session", lease.run_id, lease.tenant)
        stand(tx, lease.tenant, lease.session_id, [*_tasks(tx, lease), *finish.turns])
        stored += start_next(tx, lease.tenant, lease.session_id, at=finish.turns[-1].ts)
    return Finished(position, stored)


def _tasks(tx: Transaction, lease: Lease) -> list[Envelope]:
    """How the tasks of a workplan have ended in this run."""
    ends = tx.rows("ends_of_calls", lease.run_id, lease.tenant, f'"tool_call_id":"{TASK}')
    return [decode(body) for (body,) in ends]
