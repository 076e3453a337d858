"""Intake: what comes from outside becomes envelopes and a run in one transaction, or is refused and changes nothing."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec

from stellwerk.database.port import Transaction
from stellwerk.documents.store import refer_all, refuse_lost
from stellwerk.envelope.frames import Stored
from stellwerk.envelope.model import Envelope, Message, RunStart, decode
from stellwerk.envelope.payloads import RunStarted
from stellwerk.errors import Conflict, Overloaded
from stellwerk.log import tables as log
from stellwerk.log.log import Lease, entry, placed
from stellwerk.runs import commands
from stellwerk.runs.commands import Accepted, Command, Regenerate, Reply, Send, Stop, Withdrawn
from stellwerk.runs.machine import advance, place
from stellwerk.runs.tables import Claimed, claim, each, raise_epoch, stand, standing
from stellwerk.tenants.limits import Limits, refuse_another_run, refuse_bytes
from stellwerk.tenants.tenants import refuse_locked
from stellwerk.views.status import Status

C = TypeVar("C", bound=Command, covariant=True)


@dataclass(frozen=True, slots=True)
class Intake(Generic[C]):
    """A command that wants to become a run."""

    command: C
    claim: bool
    """There is a free slot here: take the lease at once."""
    depth: int
    """How many runs of a tenant may wait here, and how many messages in one session."""
    limits: Limits = Limits()
    """Of its tenant: how many runs, and how many bytes."""


class Taken(NamedTuple):
    answer: Accepted
    claimed: Claimed | None
    stored: list[Stored]


class Halted(NamedTuple):
    """Where a stop found the session; what it claimed has yet to be closed."""

    status: Status
    claimed: Claimed | None
    stored: list[Stored]
    withdrawn: list[Withdrawn]
    """Messages that waited, and were taken back."""


class _Begun(NamedTuple):
    last: int
    after: int
    claimed: Claimed | None
    stored: list[Stored]


def accept_many(tx: Transaction, intakes: Sequence[Intake[Send]]) -> list[Taken | Exception]:
    return each(_accept, tx, intakes)


def reply_many(tx: Transaction, intakes: Sequence[Intake[Reply]]) -> list[Taken | Exception]:
    return each(_reply, tx, intakes)


def regenerate_many(tx: Transaction, intakes: Sequence[Intake[Regenerate]]) -> list[Taken | Exception]:
    return each(_regenerate, tx, intakes)


def stop_many(tx: Transaction, stops: Sequence[Stop]) -> list[Halted | Exception]:
    return each(_stop, tx, stops)


def _accept(tx: Transaction, intake: Intake[Send]) -> Taken:
    send = intake.command
    status, known = _known(tx, send)
    if known is not None:
        return Taken(known, None, [])
    refuse_lost(tx, send.tenant, send.documents)
    if send.if_busy == "enqueue" and place(status) in ("running", "awaiting"):
        if _count(tx, "count_enqueued", send.session_id, send.tenant) >= intake.depth:
            raise Overloaded("as many messages wait in this session as this server takes; send this again later")
        files = commands.documents_of(send, trace_id=None, run_id=None)
        position, stored = _append(tx, intake, [*files, commands.message_of(send, run_id=None)])
        refer_all(tx, send.tenant, send.session_id, send.documents)
        later = (send.message_id, send.run_id, send.system, send.system_version)
        tx.run("put_into_inbox", send.session_id, position, send.tenant, *later)
        begun = _Begun(position, position - len(stored), None, stored)
        return _taken(tx, send, status, begun, message_id=send.message_id, status="enqueued")
    advance(status, "message")
    start = _start_of_message(send, status)
    earlier = commands.earlier_messages(send)
    files = commands.documents_of(send, trace_id=send.run_id, run_id=send.run_id)
    message = commands.message_of(send, run_id=send.run_id)
    begun = _begin(tx, intake, start, [*earlier, start, *files, message])
    refer_all(tx, send.tenant, send.session_id, send.documents)
    withdrawn = list(send.withdrawn) or msgspec.UNSET
    return _taken(tx, send, start, begun, message_id=send.message_id, withdrawn=withdrawn)


def start_next(tx: Transaction, tenant: str, session_id: str, *, at: float) -> list[Stored]:
    """Let the message that waits longest in a session start its round, unless the session is busy."""
    waiting = tx.row("inbox_of", session_id, tenant)
    status = standing(tx, tenant, session_id)
    if waiting is None or place(status) in ("running", "awaiting"):
        return []
    position, message_id, run_id, system, version = waiting
    send = Send(
        tenant=tenant,
        session_id=session_id,
        run_id=run_id,
        at=at,
        text="",
        system=system,
        system_version=version,
        message_id=message_id,
    )
    start = _start_of_message(send, status)
    tx.run("take_from_inbox", session_id, tenant, position)
    return _begin(tx, Intake(send, claim=False, depth=sys.maxsize), start, [start]).stored


def _start_of_message(send: Send, status: Status) -> RunStart:
    started = RunStarted(
        round=status.round + 1,
        trigger="message",
        system=send.system,
        system_version=send.system_version,
        message_id=send.message_id,
    )
    return commands.start_of(send, started, trace_id=send.run_id)


def _reply(tx: Transaction, intake: Intake[Reply]) -> Taken:
    reply, ask_id = intake.command, intake.command.answer.ask_id
    status, known = _known(tx, reply)
    if known is not None:
        return Taken(known, None, [])
    _refuse_unasked(ask_id, status)
    refuse_lost(tx, reply.tenant, reply.documents)
    if not reply.is_checked:
        raise Conflict("the question was not open yet when this came; send it again", code="not_asked")
    rest = tuple(ask for ask in status.open_asks if ask != ask_id)
    if rest:  # the graph goes on when it can go on with all of them
        files = commands.documents_of(reply, trace_id=status.trace_id, run_id=None)
        told = commands.answer_of(reply, trace_id=status.trace_id, run_id=None)
        position, stored = _append(tx, intake, [*files, told])
        refer_all(tx, reply.tenant, reply.session_id, reply.documents)
        stand(tx, reply.tenant, reply.session_id, [told])
        begun = _Begun(position, position - len(stored), None, stored)
        return _taken(tx, reply, status, begun, ask_id=ask_id, status="noted", open_asks=rest)
    start = _start_of_trace(reply, status, "answer", asks=list(status.asked))
    files = commands.documents_of(reply, trace_id=start.trace_id, run_id=reply.run_id)
    told = commands.answer_of(reply, trace_id=start.trace_id, run_id=reply.run_id)
    begun = _begin(tx, intake, start, [start, *files, told])
    refer_all(tx, reply.tenant, reply.session_id, reply.documents)
    return _taken(tx, reply, start, begun, ask_id=ask_id)


def _regenerate(tx: Transaction, intake: Intake[Regenerate]) -> Taken:
    command = intake.command
    status, known = _known(tx, command)
    if known is not None:
        return Taken(known, None, [])
    advance(status, "message")
    if status.message_id is None:
        raise Conflict("there is no answer yet that could be given anew; send a message", code="nothing_said")
    if tx.row("trace_of_run", command.session_id, command.tenant, status.run_id) == (None, None):
        raise Conflict("the last answer was given before this session was forked; send a message", code="nothing_said")
    started = RunStarted(
        round=status.round + 1,
        trigger="regenerate",
        system=command.system,
        system_version=command.system_version,
        message_id=status.message_id,
        replaces=status.run_id,
    )
    start = commands.start_of(command, started, trace_id=command.run_id)
    return _taken(tx, command, start, _begin(tx, intake, start, [start]), message_id=status.message_id)


def _refuse_unasked(ask_id: str, status: Status) -> None:
    asks = ", ".join(status.open_asks)
    if not status.awaiting_user_input or not asks:
        raise Conflict("nothing is asked in this session; send a message instead", code="nothing_asked")
    if not ask_id:
        said = f"several questions are open; say in ask_id which one is answered: {asks}"
        raise Conflict(said, code="which_question")
    if ask_id not in status.open_asks:
        raise Conflict(f"the question {ask_id!r} is not open; open are: {asks}", code="not_asked")


def _stop(tx: Transaction, stop: Stop) -> Halted:
    """From here on the driver can write nothing; whoever stops has the lease, and closes what is open."""
    if tx.row("head", stop.session_id, stop.tenant) is None:
        raise log.unknown_session(stop.session_id)
    status = standing(tx, stop.tenant, stop.session_id)
    waiting = _withdraw_enqueued(tx, stop)
    withdrawn = [commands.withdrawn(message.message_id, at=stop.at) for message in waiting]
    match place(status):
        case "running":
            request = commands.stop_of(stop, trace_id=status.trace_id, run_id=status.run_id or "")
            _, stored = _append(tx, Intake(stop, True, 0), [*withdrawn, request])
            row = tx.row("unfinished_run", stop.session_id, stop.tenant)
            return Halted(status, None if row is None else claim(tx, row, at=stop.at), stored, waiting)
        case "awaiting":
            start = _start_of_trace(stop, status, "stop")
            request = commands.stop_of(stop, trace_id=start.trace_id, run_id=stop.run_id)
            begun = _begin(tx, Intake(stop, True, 0), start, [*withdrawn, start, request])
            return Halted(status, begun.claimed, begun.stored, waiting)
        case _:
            stored = _append(tx, Intake(stop, True, 0), withdrawn)[1] if withdrawn else []
            return Halted(status, None, stored, waiting)


def _start_of_trace(command: Reply | Stop, status: Status, trigger: Any, asks: list[str] | None = None) -> RunStart:
    """A run that goes on with a trace: under the same version of the system."""
    started = RunStarted(
        round=status.round + 1,
        trigger=trigger,
        system=command.system,
        system_version=status.system_version,
        ask_ids=asks,
    )
    return commands.start_of(command, started, trace_id=status.trace_id or command.run_id)


def _withdraw_enqueued(tx: Transaction, stop: Stop) -> list[Withdrawn]:
    """After a stop nothing starts by itself: the messages that wait are given back to the one who stops."""
    waiting = [decode(bytes(body)) for (body,) in tx.rows("messages_in_inbox", stop.session_id, stop.tenant)]
    tx.run("empty_inbox", stop.session_id, stop.tenant)
    return [commands.withdrawn_from(message) for message in waiting if isinstance(message, Message)]


def _begin(tx: Transaction, intake: Intake[Command], start: RunStart, told: Sequence[Envelope]) -> _Begun:
    """Store the first envelopes of a run, and the run."""
    command, round_ = intake.command, start.payload.round
    if not intake.claim and _count(tx, "count_waiting", command.tenant) >= intake.depth:
        raise Overloaded("as many of your runs wait as this server takes; send this again in a few seconds")
    refuse_another_run(tx, intake.limits, command.tenant)
    last, stored = _append(tx, intake, told)
    first = last - len(told) + 1 + list(told).index(start)
    stand(tx, command.tenant, command.session_id, told)
    epoch = raise_epoch(tx, command.tenant, command.session_id) if intake.claim else 0
    state = "running" if intake.claim else "waiting"
    place = (command.run_id, command.session_id, command.tenant, start.trace_id, round_, first, state, epoch)
    tx.run("insert_run", *place, command.at)
    lease = Lease(command.tenant, command.session_id, command.run_id, epoch)
    own = [each for each in stored if each.position >= first]
    return _Begun(last, first - 1, Claimed(lease, first - 1, told=own) if intake.claim else None, stored)


def _append(tx: Transaction, intake: Intake[Command], told: Sequence[Envelope]) -> tuple[int, list[Stored]]:
    entries, by = [entry(envelope) for envelope in told], intake.command
    refuse_bytes(tx, intake.limits, sum(len(each.body) for each in entries), by.tenant, by.session_id)
    last = log.append_unfenced(tx, by.tenant, by.session_id, entries)
    return last, placed(last, entries)


def _known(tx: Transaction, command: Command) -> tuple[Status, Accepted | None]:
    """Where the session stands; and what was answered to the same request before."""
    if tx.row("head", command.session_id, command.tenant) is None:
        raise log.unknown_session(command.session_id)
    refuse_locked(tx, command.tenant)
    status = standing(tx, command.tenant, command.session_id)
    return status, recalled(tx, command.tenant, command.session_id, key=command.key, request=command.request)


def recalled(tx: Transaction, tenant: str, session_id: str, *, key: str | None, request: str) -> Accepted | None:
    """What was answered to the request with this key, if it came before.

    Raises:
        Conflict: it was another request.
    """
    known = key and tx.row("recall_answer", tenant, session_id, f"input {key}")
    if not known:
        return None
    if known[0] != request:
        raise Conflict("this Idempotency-Key was used with another request; take a new key", code="key_reused")
    return msgspec.json.decode(known[1], type=Accepted)


def _taken(tx: Transaction, command: Command, about: RunStart | Status, begun: _Begun, **details: Any) -> Taken:
    """What is answered, and remembered for whoever asks again. What starts no run is told the round under way."""
    if isinstance(about, RunStart):
        round_, run_id = about.payload.round, command.run_id
    else:
        round_, run_id = about.round, about.run_id or ""
    answer = Accepted(round=round_, run_id=run_id, position=begun.last, after=begun.after, **details)
    if command.key:
        row = (command.tenant, command.session_id, f"input {command.key}", command.request)
        tx.run("remember_answer", *row, msgspec.json.encode(answer), command.at)
    return Taken(answer, begun.claimed, begun.stored)


def _count(tx: Transaction, query: str, *params: object) -> int:
    return int(tx.rows(query, *params)[0][0])
