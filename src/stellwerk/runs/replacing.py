"""Replacing a round: its answer is regenerated, or its message is edited, and all later rounds go with it."""

import sys
from typing import NamedTuple

from stellwerk.agents.checkpoints.reconcile import replaced_run
from stellwerk.database.port import Transaction
from stellwerk.envelope.model import Message, RunStart, decode
from stellwerk.envelope.payloads import Said
from stellwerk.errors import Conflict
from stellwerk.runs.run_info import unknown_run
from stellwerk.views.rounds import Rounds, round_of, run_starts


class ReplacedRound(NamedTuple):
    """A round that a new run takes the place of."""

    run_id: str
    """Its last run, which has the answer."""
    message_id: str | None


def find_round(tx: Transaction, tenant: str, session_id: str, run_id: str) -> ReplacedRound:
    """The round of a run, if it counts.

    Raises:
        NotFound: the session has no such run.
        Conflict: its round was replaced.
    """
    rounds, messages = _rounds(tx, tenant, session_id)
    found = round_of(rounds, run_id)
    if found is not None:
        return ReplacedRound(found.runs[-1], found.message_id)
    if run_id not in messages:
        raise unknown_run(run_id)
    problem = "the round of this run was replaced before; take a run of a round that the transcript shows"
    raise Conflict(problem, code="already_replaced")


def run_that_counts(tx: Transaction, tenant: str, session_id: str, run_id: str) -> str:
    """The run, or the one that answered its message once more. Raises like ``find_round``."""
    rounds, messages = _rounds(tx, tenant, session_id)
    message_id = messages.get(run_id)
    again = (each.runs[-1] for each in rounds if message_id is not None and each.message_id == message_id)
    return find_round(tx, tenant, session_id, next(again, run_id)).run_id


def _rounds(tx: Transaction, tenant: str, session_id: str) -> tuple[Rounds, dict[str, str | None]]:
    """Those that count, and the messages of all runs."""
    rounds: Rounds = ()
    messages: dict[str, str | None] = {}
    for (body,) in tx.rows("starts_of_runs", session_id, tenant):
        start = decode(body)
        assert isinstance(start, RunStart)
        messages[start.call_id] = start.payload.message_id
        rounds, _ = run_starts(rounds, start)
    return rounds, messages


def check_replaceable(tx: Transaction, tenant: str, session_id: str, run_id: str, *, keeps_message: bool) -> None:
    """Whether the agent can go back to before the round of a run, and its message can be answered again.

    This reads much of the log, and cannot change any more once it is so: only an erasure may come in between.

    Raises:
        Conflict: the state from before it is not stored, or the message was removed.
    """
    round_ = find_round(tx, tenant, session_id, run_id)
    state = replaced_run(tx, tenant, session_id, run_id).checkpoint
    if state is not None and tx.row("has_checkpoint", tenant, session_id, state) is None:
        problem = (
            "the agent's state from before this round is not stored in this session: it was forked after the round"
        )
        remedy = "replace a later one, or fork the original session at an earlier one"
        raise Conflict(f"{problem}; {remedy}", code="state_gone")
    if keeps_message and not _is_there(tx, tenant, session_id, round_.message_id):
        problem = "the message of this round was removed; send another message in its place"
        raise Conflict(problem, code="nothing_said")


def _is_there(tx: Transaction, tenant: str, session_id: str, message_id: str | None) -> bool:
    said = said_as(tx, tenant, session_id, message_id or "")
    return bool(said) and not any(each.redacted or each.action == "removed" for each in said)


def said_as(tx: Transaction, tenant: str, session_id: str, message_id: str) -> list[Said]:
    """What the log has under the id of a message: the message, its removal, or nothing."""
    rows = tx.rows("messages_naming", session_id, sys.maxsize, message_id, tenant)
    found = (decode(body) for (body,) in rows)
    return [e.payload for e in found if isinstance(e, Message) and e.payload.message_id == message_id]
