"""The list of workflows: what each of them is called and where it stands, without folding their logs."""

from typing import Any

import msgspec
from msgspec import Struct

from stellwerk.database.port import Database
from stellwerk.envelope.model import Message, decode
from stellwerk.envelope.payloads import TextPart
from stellwerk.views.status import Status
from stellwerk.views.workflow import NAME, iso
from stellwerk.workflows.folds import MANDATE, user_number

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


async def listed(database: Database, tenant: str, *, before: str | None, limit: int) -> list[WorkflowHead]:
    """Newest first; ``before`` is the id of the last one seen."""
    rows = await database.read(lambda tx: tx.rows("workflows", tenant, before or _AFTER_ALL, limit))
    return [_head(row) for row in rows]


def _head(row: tuple[Any, ...]) -> WorkflowHead:
    workflow_id, user, state, first, started_at, last_activity = row
    status = msgspec.json.decode(state, type=Status)
    return WorkflowHead(
        id=workflow_id,
        mandate_id=MANDATE,
        user_id=user_number(user),
        name="" if first is None else _name(first),
        started_at=iso(started_at),
        status=status.status,
        last_activity=iso(last_activity),
        current_round=status.round,
    )


def _name(body: bytes) -> str:
    message = decode(body)
    assert isinstance(message, Message)
    text = "\n".join(part.text for part in message.payload.content if isinstance(part, TextPart))
    return text[:NAME]
