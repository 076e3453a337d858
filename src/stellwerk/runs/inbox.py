"""Enqueued messages: withdraw one of them, before its round starts."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from stellwerk.database.port import Transaction, locking, session_lock
from stellwerk.envelope.frames import Stored
from stellwerk.envelope.model import Message, decode
from stellwerk.errors import Conflict, NotFound, StellwerkError
from stellwerk.log.transactions import unknown_session
from stellwerk.runs import commands, transactions
from stellwerk.runs.commands import Withdrawn
from stellwerk.runs.replacing import said_as
from stellwerk.runs.run_info import unknown_run
from stellwerk.tenants.quotas import NO_LIMITS


@dataclass(frozen=True, slots=True, kw_only=True)
class Withdraw:
    """By the id of the message, or of the run that it would start."""

    tenant: str
    session_id: str
    at: float
    message_id: str = ""
    run_id: str = ""


class WithdrawResult(NamedTuple):
    withdrawn: Withdrawn
    stored: list[Stored]


@locking(lambda item: [session_lock(item.session_id)])
def withdraw_many(tx: Transaction, items: Sequence[Withdraw]) -> list[WithdrawResult | Exception]:
    return transactions.each(_withdraw, tx, items)


def removal(tx: Transaction, tenant: str, session_id: str, message_id: str, *, at: float) -> Message:
    """The envelope of a withdrawn message.

    It will start nothing, so the same request must not get the answer that it was accepted.
    """
    tx.run("drop_answer", tenant, session_id, f"input {commands.key_of_message(message_id)}")
    return commands.withdrawal(message_id, at=at)


def _withdraw(tx: Transaction, item: Withdraw) -> WithdrawResult:
    tenant, session_id = item.tenant, item.session_id
    if tx.row("head", session_id, tenant) is None:
        raise unknown_session(session_id)
    row = tx.row("enqueued_message", session_id, tenant, item.message_id, item.run_id)
    message = None if row is None else decode(row[1])
    if row is None or not isinstance(message, Message):
        raise _not_waiting(tx, item)
    tx.write("take_from_inbox", session_id, tenant, row[0])
    removed = removal(tx, tenant, session_id, message.payload.message_id, at=item.at)
    noted = transactions.append_input(tx, tenant, session_id, [removed], NO_LIMITS)
    return WithdrawResult(commands.withdrawn_from(message), noted.stored)


def _not_waiting(tx: Transaction, item: Withdraw) -> StellwerkError:
    if item.run_id:
        problem = unknown_run(item.run_id)
        is_known = tx.row("run_of_session", item.session_id, item.tenant, item.run_id) is not None
    else:
        problem = NotFound("message", item.message_id, remedy="the transcript has the messages of this session")
        is_known = bool(said_as(tx, item.tenant, item.session_id, item.message_id))
    if not is_known:
        return problem
    said = "this message is not waiting any more: its round has started, or it was withdrawn"
    return Conflict(f"{said}; to end a round, stop it", code="not_waiting")
