"""What was read in a document gets its place beside it, if the document is still there; on the writer's thread."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from stellwerk.database.port import Transaction


@dataclass(frozen=True, slots=True)
class Derived:
    tenant: str
    document_id: str
    part: Path
    target: Path


def place_many(tx: Transaction, items: Sequence[Derived]) -> list[bool | Exception]:
    """True if it lies beside its document now; False if that was removed before it could."""
    return [_place(tx, item) for item in items]


def _place(tx: Transaction, item: Derived) -> bool:
    if tx.row("document", item.tenant, item.document_id) is None:
        return False
    item.part.rename(item.target)
    return True
