"""Accept input: in one transaction a message, answer or stop becomes a run, or is rejected.

Which input is accepted depends on the state of the session: this is its state machine.
"""

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import msgspec

from stellwerk.database.port import DOCUMENTS, Lock, Transaction, locking, session_lock
from stellwerk.documents.store import refer_all, refuse_lost
from stellwerk.envelope.frames import Stored
from stellwerk.envelope.model import Envelope, Message, RunStart, decode
from stellwerk.envelope.payloads import RunStarted
from stellwerk.errors import Conflict, Overloaded
from stellwerk.log.log import Lease
from stellwerk.log.transactions import unknown_session
from stellwerk.runs import commands, transactions
from stellwerk.runs.commands import Accepted, Command, Regenerate, Reply, RunCommand, Send, Stop
from stellwerk.runs.inbox import removal
from stellwerk.runs.replacing import ReplacedRound, find_round
from stellwerk.runs.transactions import BegunRun, ClaimedRun
from stellwerk.tenants.quotas import count_rows, limit_locks, refuse_another_run
from stellwerk.tenants.tenants import refuse_locked
from stellwerk.views.status import SAME_TRACE, State, Status


class AcceptedRun(NamedTuple):
    answer: Accepted
    claimed: ClaimedRun | None
    stored: list[Stored]


class StopResult(NamedTuple):
    """The session before the stop, and the run that must still be closed."""

    status: Status
    claimed: ClaimedRun | None
    stored: list[Stored]
    withdrawn: list[commands.Withdrawn]
    """Enqueued messages that were withdrawn."""


def command_locks(command: Command) -> list[Lock]:
    documents = [DOCUMENTS] if command.documents else []
    return [session_lock(command.session_id), *documents, *limit_locks(command.limits, command.tenant)]


@locking(command_locks)
def accept_many(tx: Transaction, items: Sequence[RunCommand]) -> list[AcceptedRun | Exception]:
    """Messages, answers and requests to regenerate."""
    return transactions.each(_accept, tx, items)


@locking(command_locks)
def stop_many(tx: Transaction, stops: Sequence[Stop]) -> list[StopResult | Exception]:
    return transactions.each(_stop, tx, stops)


def recall_answer(tx: Transaction, tenant: str, session_id: str, *, key: str | None, request: str) -> Accepted | None:
    """The answer that the request with this idempotency key got before, if there was one.

    Raises:
        Conflict: the key was used with another request.
    """
    known = key and tx.row("recall_answer", tenant, session_id, f"input {key}")
    if not known:
        return None
    if known[0] != request:
        raise commands.key_reused(key or "")
    return msgspec.json.decode(known[1], type=Accepted)


def _accept(tx: Transaction, command: RunCommand) -> AcceptedRun:
    tenant, session_id = command.tenant, command.session_id
    if tx.row("head", session_id, tenant) is None:
        raise unknown_session(session_id)
    refuse_locked(tx, tenant)
    known = recall_answer(tx, tenant, session_id, key=command.key, request=command.request)
    if known is not None:
        return AcceptedRun(known, None, [])
    refuse_lost(tx, tenant, command.documents)
    status = transactions.status_of(tx, tenant, session_id)
    if isinstance(command, Send):
        accepted = _send(tx, command, status)
    elif isinstance(command, Reply):
        accepted = _reply(tx, command, status)
    else:
        accepted = _regenerate(tx, command, status)
    refer_all(tx, tenant, session_id, command.documents)
    return accepted


def _send(tx: Transaction, send: Send, status: Status) -> AcceptedRun:
    if send.is_clients_id:
        _refuse_used_id(tx, send)
    if send.if_busy == "enqueue" and _state_of(status) in ("running", "awaiting"):
        return _enqueue(tx, send, status)
    _refuse_message(status)
    replaced = None
    if send.replaces is not None:
        replaced = find_round(tx, send.tenant, send.session_id, send.replaces).run_id
    start = _start(send, status, "message", message_id=send.message_id, replaces=replaced)
    said = commands.input_envelopes(send, trace_id=send.run_id, run_id=send.run_id)
    begun = _begin(tx, send, status, [*commands.earlier_messages(send), start, *said])
    withdrawn = list(send.withdrawn) or msgspec.UNSET
    return _accepted(tx, send, start, begun, message_id=send.message_id, withdrawn=withdrawn, **_delay(send))


def _refuse_used_id(tx: Transaction, send: Send) -> None:
    """
    Raises:
        Conflict: a message with the id that the client chose came meanwhile, under another key.
    """
    key = commands.key_of_message(send.message_id)
    if send.key != key:
        recall_answer(tx, send.tenant, send.session_id, key=key, request="")


def _enqueue(tx: Transaction, send: Send, status: Status) -> AcceptedRun:
    if count_rows(tx, "count_enqueued", send.session_id, send.tenant) >= send.queue_limit:
        raise Overloaded("as many messages wait in this session as this server takes; send this again later")
    noted = _note(tx, send, commands.input_envelopes(send, trace_id=None, run_id=None))
    later = (send.message_id, send.run_id, send.system, send.system_version, *send.options)
    tx.run("put_into_inbox", send.session_id, noted.last, send.tenant, *later)
    details = {"message_id": send.message_id, "queued_run_id": send.run_id, **_delay(send)}
    return _accepted(tx, send, status, noted, status="enqueued", **details)


def _delay(send: Send) -> dict[str, Any]:
    start_at = send.options.start_at
    return {} if start_at is None else {"start_at": start_at}


def _reply(tx: Transaction, reply: Reply, status: Status) -> AcceptedRun:
    answered = [answer.ask_id for answer in (reply.answer, *reply.others)]
    for ask_id in answered:
        _refuse_unasked(ask_id, status)
    if not reply.is_checked:
        raise Conflict("the question was not open yet when this came; send it again", code="not_asked")
    still_open = tuple(ask for ask in status.open_asks if ask not in answered)
    if still_open:  # the graph continues when all of its questions are answered
        said = commands.input_envelopes(reply, trace_id=status.trace_id, run_id=None)
        noted = _note(tx, reply, said)
        transactions.update_status(tx, reply.tenant, reply.session_id, said)
        return _accepted(tx, reply, status, noted, ask_id=ask_id, status="noted", open_asks=still_open)
    start = _start(reply, status, "answer", ask_ids=list(status.asked))
    said = commands.input_envelopes(reply, trace_id=start.trace_id, run_id=reply.run_id)
    return _accepted(tx, reply, start, _begin(tx, reply, status, [start, *said]), ask_id=ask_id)


def _regenerate(tx: Transaction, command: Regenerate, status: Status) -> AcceptedRun:
    _refuse_message(status)
    replaced = _last_round(tx, command, status)
    if command.replaces is not None:
        replaced = find_round(tx, command.tenant, command.session_id, command.replaces)
    start = _start(command, status, "regenerate", message_id=replaced.message_id, replaces=replaced.run_id)
    begun = _begin(tx, command, status, [start])
    withdrawn = list(command.withdrawn) or msgspec.UNSET
    return _accepted(tx, command, start, begun, message_id=replaced.message_id, withdrawn=withdrawn)


def _last_round(tx: Transaction, command: Regenerate, status: Status) -> ReplacedRound:
    if status.message_id is None or status.run_id is None:
        raise Conflict("there is no answer yet to give again; send a message", code="nothing_said")
    is_older = tx.row("trace_of_run", command.session_id, command.tenant, status.run_id) == (None, None)
    if is_older and command.replaces is None:
        raise Conflict("the last answer was given before this session was forked; send a message", code="nothing_said")
    return ReplacedRound(status.run_id, status.message_id)


def _state_of(status: Status) -> State | Literal["awaiting"]:
    """Waiting for the user is a state here; clients see ``running``, ``awaiting_user_input``."""
    if status.status == "running" and status.awaiting_user_input:
        return "awaiting"
    return status.status


def _refuse_message(status: Status) -> None:
    """
    Raises:
        Conflict: a run is under way, or a question is open.
    """
    match _state_of(status):
        case "running":
            raise Conflict(
                f"the session is still working on round {status.round}; send this again when it has ended, "
                "or a message with if_busy: enqueue (it waits for its turn) or interrupt (the round is stopped)",
                code="session_busy",
            )
        case "awaiting":
            asks = ", ".join(status.open_asks)
            said = f"the session waits for answers to its questions; answer them first: {asks}"
            raise Conflict(said, code="question_open")


def _refuse_unasked(ask_id: str, status: Status) -> None:
    asks = ", ".join(status.open_asks)
    if not status.awaiting_user_input or not asks:
        raise Conflict("nothing is asked in this session; send a message instead", code="nothing_asked")
    if not ask_id:
        said = f"several questions are open; say in ask_id which one is answered: {asks}"
        raise Conflict(said, code="which_question")
    if ask_id not in status.open_asks:
        raise Conflict(f"the question {ask_id!r} is not open; open are: {asks}", code="not_asked")


def _stop(tx: Transaction, stop: Stop) -> StopResult:
    """After this commit the driver cannot write; the caller has the lease and closes the run."""
    if tx.row("head", stop.session_id, stop.tenant) is None:
        raise unknown_session(stop.session_id)
    status = transactions.status_of(tx, stop.tenant, stop.session_id)
    # After a stop nothing starts by itself: the caller gets the enqueued messages back.
    rows = tx.rows("messages_in_inbox", stop.session_id, stop.tenant)
    tx.run("empty_inbox", stop.session_id, stop.tenant)
    enqueued = [decode(body) for (body,) in rows]
    waiting = [commands.withdrawn_from(each) for each in enqueued if isinstance(each, Message)]
    removals: list[Envelope] = [
        removal(tx, stop.tenant, stop.session_id, each.message_id, at=stop.at) for each in waiting
    ]
    match _state_of(status):
        case "running":
            request = commands.stop_envelope(stop, trace_id=status.trace_id, run_id=status.run_id or "")
            stored = _note(tx, stop, [*removals, request]).stored
            row = tx.row("unfinished_run", stop.session_id, stop.tenant)
            claimed = None if row is None else transactions.claim_run(tx, row, at=stop.at)
            return StopResult(status, claimed, stored, waiting)
        case "awaiting":
            start = _start(stop, status, "stop")
            request = commands.stop_envelope(stop, trace_id=start.trace_id, run_id=stop.run_id)
            begun = _begin(tx, stop, status, [*removals, start, request])
            return StopResult(status, begun.claimed, begun.stored, waiting)
        case _:
            stored = _note(tx, stop, removals).stored if removals else []
            return StopResult(status, None, stored, waiting)


def _start(command: Command, status: Status, trigger: Any, **details: Any) -> RunStart:
    """A new trace for a message; an answer or a stop continues the trace of its question."""
    version = command.system_version
    started = RunStarted(
        round=status.round + 1,
        trigger=trigger,
        system=command.system,
        system_version=status.system_version if version is None else version,
        start_at=command.options.start_at,
        **details,
    )
    trace_id = command.run_id
    if trigger in SAME_TRACE and status.trace_id:
        trace_id = status.trace_id
    return transactions.run_start(started, run_id=command.run_id, trace_id=trace_id, at=command.at)


def _begin(tx: Transaction, command: Command, status: Status, envelopes: list[Envelope]) -> BegunRun:
    if not command.claim and count_rows(tx, "count_waiting", command.tenant) >= command.queue_limit:
        raise Overloaded("as many of your runs wait as this server takes; send this again in a few seconds")
    refuse_another_run(tx, command.limits, command.tenant)
    lease = Lease(command.tenant, command.session_id, command.run_id, 0)
    begun = transactions.begin_run(tx, lease, status, envelopes, claim=command.claim, limits=command.limits)
    transactions.set_options(tx, lease, command.options)
    return begun


def _note(tx: Transaction, command: Command, envelopes: Sequence[Envelope]) -> BegunRun:
    """Store envelopes that start no run."""
    return transactions.append_input(tx, command.tenant, command.session_id, envelopes, command.limits)


def _accepted(
    tx: Transaction, command: Command, current: RunStart | Status, begun: BegunRun, **details: Any
) -> AcceptedRun:
    """The answer, kept under its idempotency key; if no run starts, it names the current round."""
    if isinstance(current, RunStart):
        round_ = current.payload.round
        run_id = command.run_id
    else:
        round_ = current.round
        run_id = current.run_id or ""
    answer = Accepted(round=round_, run_id=run_id, position=begun.last, after=begun.after, **details)
    row = (command.tenant, command.session_id)
    if command.key:
        remembered = (f"input {command.key}", command.request, msgspec.json.encode(answer), command.at)
        tx.write("remember_answer", *row, *remembered)
    if isinstance(command, Send) and command.is_clients_id:
        key = commands.key_of_message(command.message_id)
        if key != command.key:  # the id is used up, for requests with other keys and without one
            tx.write("remember_answer", *row, f"input {key}", "-", b"", command.at)
    return AcceptedRun(answer, begun.claimed, begun.stored)
