"""Changes of the store of graphs are admitted here before they are made: it has a file of its own."""

from collections.abc import Sequence
from dataclasses import dataclass

from stellwerk.database.port import Transaction, locking
from stellwerk.errors import LimitReached, Unauthorized
from stellwerk.tenants.quotas import Limits, limit_locks, refuse_bytes
from stellwerk.tenants.tenants import refuse_locked


@dataclass(frozen=True, slots=True)
class StoreWrite:
    tenant: str
    limits: Limits
    size: int
    """Bytes of the store with the change; 0 for a deletion."""


@locking(lambda write: limit_locks(write.limits, write.tenant))
def admit_many(tx: Transaction, items: Sequence[StoreWrite]) -> list[None | Exception]:
    """The audit entry of a change is committed with its admission."""
    return [_admit(tx, item) for item in items]


def _admit(tx: Transaction, write: StoreWrite) -> None | Exception:
    try:
        refuse_locked(tx, write.tenant)
        if write.size:
            refuse_bytes(tx, write.limits, write.size, write.tenant)
    except (Unauthorized, LimitReached) as error:
        return error
    return None
