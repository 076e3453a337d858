"""The list of workflows: what each of them is called and where it stands, without folding their logs."""

import re
from typing import Any

import msgspec
from msgspec import Struct

from stellwerk.database.port import Database, Transaction
from stellwerk.envelope.model import Message, decode
from stellwerk.errors import InvalidField
from stellwerk.ids import ID_LENGTH
from stellwerk.views.status import Status
from stellwerk.views.workflow import NAME, iso
from stellwerk.workflows.folds import mandate, user_number

_ID = re.compile(rf"[0-9A-Za-z]{{{ID_LENGTH}}}")
_PAGES = {True: "workflow_page", False: "workflow_page_without_chats"}
_AFTER_ALL = "~"
"""Sorts behind every id."""


class WorkflowHead(Struct, frozen=True, kw_only=True, rename="camel"):
    """A workflow in a list."""

    id: str
    mandate_id: int
    user_id: int
    name: str
    started_at: str
    status: str
    last_activity: str
    current_round: int
    awaiting_user_input: bool
    failed_tasks: int


async def listed(database: Database, tenant: str, *, before: str | None, limit: int, chats: bool) -> list[WorkflowHead]:
    """Newest first; ``before`` is the id of the last one seen, which may have been deleted meanwhile.

    Without ``chats`` only those that were started as workflows.

    Raises:
        InvalidField: that is no id.
    """
    if before and not _ID.fullmatch(before):
        told = (
            f"before: {before[:60]!r} is not the id of a workflow; send that of the last one you have, or leave it out"
        )
        raise InvalidField(told, field="before")

    def page(tx: Transaction) -> list[WorkflowHead]:
        number = mandate(tx, tenant)
        rows = tx.rows(_PAGES[chats], tenant, before or _AFTER_ALL, limit)
        return [_head(number, row, *tx.rows("workflow_ends", row[0], tenant)) for row in rows]

    return await database.read(page)


def _head(number: int, row: tuple[Any, ...], ends: tuple[Any, ...]) -> WorkflowHead:
    (workflow_id, user, state), (first, started_at, last_activity) = row, ends
    status = msgspec.json.decode(state, type=Status)
    return WorkflowHead(
        id=workflow_id,
        mandate_id=number,
        user_id=user_number(user),
        name="" if first is None else _name(first),
        started_at=iso(started_at),
        status=status.status,
        last_activity=iso(last_activity),
        current_round=status.round,
        awaiting_user_input=status.awaiting_user_input,
        failed_tasks=0 if status.status == "running" else len(status.failed_tasks),
    )


def _name(body: bytes) -> str:
    message = decode(body)
    assert isinstance(message, Message)
    return message.payload.text[:NAME]
