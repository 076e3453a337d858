"""Config and context of a session: defaults for its messages, stored with the session.

They become part of each message when it is accepted, so its runs keep them whatever changes later.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from stellwerk.agents.runtime.conversation import NO_PARAMETERS, RunParameters
from stellwerk.database.port import Transaction, locking, session_lock
from stellwerk.log.transactions import unknown_session
from stellwerk.runs.transactions import each
from stellwerk.tenants.tenants import refuse_locked


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeDefaults:
    """Replaces what is given; None removes it."""

    tenant: str
    session_id: str
    config: dict[str, Any] | None | UnsetType = UNSET
    context: dict[str, Any] | None | UnsetType = UNSET


@locking(lambda change: [session_lock(change.session_id)])
def change_defaults_many(tx: Transaction, changes: Sequence[ChangeDefaults]) -> list[None | Exception]:
    return each(_change, tx, changes)


def _change(tx: Transaction, change: ChangeDefaults) -> None:
    refuse_locked(tx, change.tenant)
    before = stored_defaults(tx, change.tenant, change.session_id)
    config = before.config if change.config is UNSET else change.config
    context = before.context if change.context is UNSET else change.context
    encoded = encoded_defaults(RunParameters(config=config, context=context))
    if not tx.run("set_session_defaults", encoded, change.session_id, change.tenant):
        raise unknown_session(change.session_id)


def stored_defaults(tx: Transaction, tenant: str, session_id: str) -> RunParameters:
    row = tx.row("session_defaults", session_id, tenant)
    return NO_PARAMETERS if row is None or row[0] is None else msgspec.json.decode(row[0], type=RunParameters)


def encoded_defaults(defaults: RunParameters) -> bytes | None:
    return None if defaults.is_empty else msgspec.json.encode(defaults)
