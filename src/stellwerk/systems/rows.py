"""The rows of registered agent systems: what becomes of them, each operation within one transaction."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from stellwerk.database.port import Transaction


@dataclass(frozen=True, slots=True)
class Registration:
    tenant: str
    name: str
    text: str
    at: float


@dataclass(frozen=True, slots=True)
class Listed:
    id: str
    version: int
    created_at: float
    updated_at: float
    description: str = ""


def register_many(tx: Transaction, items: Sequence[Registration]) -> list[int | Exception]:
    return [_register(tx, item) for item in items]


def withdraw_many(tx: Transaction, systems: Sequence[tuple[str, str]]) -> list[bool | Exception]:
    """No round begins with these systems any more; False if there was none. Rows that nobody refers to go at once."""
    return [_withdraw(tx, tenant, name) for tenant, name in systems]


def purge(tx: Transaction, _items: Sequence[None]) -> list[int | Exception]:
    """Remove withdrawn systems whose last session was deleted."""
    return [tx.run("purge_systems")]


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _register(tx: Transaction, item: Registration) -> int:
    """The version that has this text; the same text makes no new version."""
    last = tx.row("last_system", item.tenant, item.name)
    if last is not None and last[1] == digest(item.text):
        tx.run("reinstate_system", item.tenant, item.name, last[0])
        return int(last[0])
    version = 1 if last is None else int(last[0]) + 1
    tx.run("insert_system", item.tenant, item.name, version, digest(item.text), item.text.encode(), item.at)
    return version


def _withdraw(tx: Transaction, tenant: str, name: str) -> bool:
    withdrawn = tx.run("withdraw_system", tenant, name)
    tx.run("purge_systems")
    return withdrawn > 0
