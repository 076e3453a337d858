"""The stores of one tenant: what all share, and what belongs to each of its users.

In files, the users have one of their own. In a store that tenants share, the first labels of every
namespace are the tenant, and whose it is. No operation on the shared store finds items of users,
whichever namespace it names.
"""

import asyncio
from collections.abc import Iterable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, Protocol, cast

import msgspec
from langgraph.store.base import GetOp, Item, ListNamespacesOp, MatchCondition, Op, PutOp, Result, SearchItem, SearchOp

from stellwerk.agents.store.index import Index
from stellwerk.agents.store.operations import Namespace, below, label, without_labels
from stellwerk.agents.store.sqlite import SqliteStore, open_store
from stellwerk.redaction.redactor import Redactor
from stellwerk.spec.operator import StoreTtl

SHARED = "store.db"
OF_USERS = "store-users.db"
IndexedFields = Literal[False] | list[str] | None
"""Paths to make searchable: none of them, these, or those of the index."""


class StoreItem(msgspec.Struct, frozen=True, kw_only=True):
    """An item of the store; its key is unique in its namespace."""

    namespace: list[str]
    key: str
    value: dict[str, Any]
    created_at: float
    updated_at: float


class FoundItem(StoreItem, frozen=True, kw_only=True):
    """An item of the store that a search found."""

    score: float | None
    """How well it fits the query, at most 1; null without a query or an index."""


class ItemSearch(msgspec.Struct, frozen=True, kw_only=True):
    namespace_prefix: Namespace = ()
    query: str | None = None
    filter: dict[str, Any] | None = None
    limit: int = 10
    offset: int = 0


class NamespaceSearch(msgspec.Struct, frozen=True, kw_only=True):
    prefix: Namespace = ()
    suffix: Namespace = ()
    max_depth: int | None = None
    limit: int = 100
    offset: int = 0


class AnyStore(Protocol):
    async def abatch(self, ops: Iterable[Op]) -> list[Result]: ...

    async def forget(self, namespace: Namespace) -> None:
        """Delete all items in and below a namespace."""


class StorePlaces(Protocol):
    """Where a tenant's items are."""

    async def of(self, user: str | None) -> tuple[AnyStore, Namespace]:
        """The store of a user, or what all share; and the labels before every namespace in it."""

    async def size(self) -> int:
        """Bytes of all items, about."""


class SharedStore(Protocol):
    """A store that all tenants share."""

    def of_tenant(self, tenant: str, redactor: Redactor) -> StorePlaces: ...


@dataclass(slots=True)
class StoreFiles:
    """The file of the users is opened when it is first used."""

    folder: Path
    redactor: Redactor
    index: Index | None
    resources: AsyncExitStack
    """Closes the files."""
    ttl: StoreTtl = field(default_factory=StoreTtl)
    _opened: dict[str, SqliteStore] = field(default_factory=dict)
    _opening: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def of(self, user: str | None) -> tuple[SqliteStore, Namespace]:
        return (await self._file(SHARED), ()) if user is None else (await self._file(OF_USERS), (user_label(user),))

    async def size(self) -> int:
        return sum(path.stat().st_size for name in (SHARED, OF_USERS) for path in self.folder.glob(f"{name}*"))

    async def _file(self, name: str) -> SqliteStore:
        async with self._opening:
            if name not in self._opened:
                opening = open_store(self.folder / name, self.redactor, self.index, self.ttl)
                self._opened[name] = await self.resources.enter_async_context(opening)
            return self._opened[name]


@dataclass(frozen=True, slots=True)
class TenantStore:
    places: StorePlaces
    index: Index | None = None
    ttl: StoreTtl = field(default_factory=StoreTtl)

    async def open(self) -> None:
        await self.places.of(None)

    async def batch(self, ops: list[Op], *, user: str | None) -> list[Result]:
        """Carry out operations on what a user owns, or, without one, on what all share."""
        store, labels = await self.places.of(user)
        if not labels:
            return await store.abatch(ops)
        results = await store.abatch([below(labels, op) for op in ops])
        return [without_labels(len(labels), result) for result in results]

    async def get(self, user: str | None, namespace: Namespace, key: str) -> StoreItem | None:
        [found] = await self.batch([GetOp(namespace, key)], user=user)
        return StoreItem(**_fields(found)) if isinstance(found, Item) else None

    async def put(
        self,
        user: str | None,
        place: tuple[Namespace, str],
        value: dict[str, Any],
        index: IndexedFields = None,
        *,
        ttl: float | None = None,
    ) -> None:
        """``ttl`` is in minutes; None is the default of the server."""
        await self.batch([PutOp(*place, value, index, self.ttl.default_ttl if ttl is None else ttl)], user=user)

    async def delete(self, user: str | None, namespace: Namespace, key: str) -> None:
        await self.batch([PutOp(namespace, key, None)], user=user)

    async def search(self, user: str | None, wanted: ItemSearch) -> list[FoundItem]:
        op = SearchOp(wanted.namespace_prefix, wanted.filter, wanted.limit, wanted.offset, wanted.query)
        [found] = await self.batch([op], user=user)
        return [FoundItem(**_fields(each), score=each.score) for each in cast(list[SearchItem], found)]

    async def namespaces(self, user: str | None, wanted: NamespaceSearch) -> list[list[str]]:
        given = (("prefix", wanted.prefix), ("suffix", wanted.suffix))
        conditions = tuple(MatchCondition(kind, path) for kind, path in given if path)  # type: ignore[arg-type]
        op = ListNamespacesOp(conditions, wanted.max_depth, wanted.limit, wanted.offset)
        [found] = await self.batch([op], user=user)
        return [list(each) for each in cast(list[Namespace], found)]

    async def forget_user(self, user: str) -> None:
        """Delete everything that belongs to a user."""
        store, labels = await self.places.of(user)
        await store.forget(labels)

    async def size(self) -> int:
        """Bytes of all items, about."""
        return await self.places.size()


def user_label(user: str) -> str:
    return label("@", user)


def _fields(item: Item) -> dict[str, Any]:
    return {
        "namespace": list(item.namespace),
        "key": item.key,
        "value": item.value,
        "created_at": _seconds(item.created_at),
        "updated_at": _seconds(item.updated_at),
    }


def _seconds(at: datetime) -> float:
    """SQLite's own times are UTC and do not say so."""
    return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()
