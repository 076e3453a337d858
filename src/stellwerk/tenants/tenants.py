"""The tenants of a server: each has a name, and a number for clients that count their mandates."""

import re
from collections.abc import Sequence
from pathlib import PurePath
from typing import TypeVar

from msgspec import Struct, structs

from stellwerk.database.port import Database, Lock, Transaction, locking
from stellwerk.errors import Conflict, InvalidField, Unauthorized
from stellwerk.ids import Clock
from stellwerk.tenants.principals import LOCAL_TENANT, unknown_tenant

LOCKED = "your tenant is locked; ask the operator of the server"
_NAME = re.compile(r"[a-z][a-z0-9-]{0,62}")
Folder = TypeVar("Folder", bound=PurePath)


def folder_of(data: Folder, tenant: str) -> Folder:
    """The folder for files of a tenant's tools and agents; the operator's own is the whole."""
    return data if tenant == LOCAL_TENANT else data / "tenants" / tenant


class TenantInfo(Struct, frozen=True):
    """``number`` is the mandateId of workflows."""

    name: str
    number: int
    created_at: float
    locked: bool  # its credentials are rejected


class Tenants:
    """All are held in memory: there are few, and workflows show their numbers."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._known: dict[str, TenantInfo] = {}

    async def open(self) -> None:
        rows = await self._database.read(lambda tx: tx.rows("tenants"))
        for number, name, at, locked in rows:
            self._known[name] = TenantInfo(name, number, at, bool(locked))

    def all(self) -> list[TenantInfo]:
        return list(self._known.values())

    def find(self, name: str) -> TenantInfo | None:
        return self._known.get(name)

    async def make(self, name: str) -> TenantInfo:
        if _NAME.fullmatch(name) is None:
            said = "lower-case letters, digits and dashes, a letter first, 63 at most"
            raise InvalidField(f"name: {name[:80]!r} cannot be a tenant's; {said}", field="name")
        made = await self._database.submit(make_many, (name, self._clock.now()))
        self._known[name] = made
        return made

    async def lock(self, name: str, *, locked: bool) -> None:
        """From now on, and after a restart. The operator's own could not be unlocked again."""
        if name == LOCAL_TENANT:
            said = f"name: {name!r} is the operator's; revoke its keys one by one"
            raise InvalidField(said, field="name")
        if name not in self._known:
            raise unknown_tenant(name)
        await self._database.submit(lock_many, (name, locked), urgent=True)
        self._known[name] = structs.replace(self._known[name], locked=locked)


def refuse_locked(tx: Transaction, tenant: str) -> None:
    """Checked in the transaction: a request that came in just before the lock would begin after it."""
    if tx.row("tenant_is_locked", tenant) is not None:
        raise Unauthorized(LOCKED)


@locking(lambda _: [Lock("tenants")])
def make_many(tx: Transaction, items: Sequence[tuple[str, float]]) -> list[TenantInfo | Exception]:
    return [_make(tx, *item) for item in items]


@locking(lambda _: [Lock("tenants")])
def lock_many(tx: Transaction, items: Sequence[tuple[str, bool]]) -> list[None | Exception]:
    tx.run_many("lock_tenant", items)
    return [None] * len(items)


def _make(tx: Transaction, name: str, at: float) -> TenantInfo | Exception:
    if not tx.run("insert_tenant", name, at):
        said = f"there is a tenant {name!r} already; choose another name"
        return Conflict(said, code="tenant_exists")
    number = tx.row("tenant_number", name)
    assert number is not None
    return TenantInfo(name, number[0], at, locked=False)
