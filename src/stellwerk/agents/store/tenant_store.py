"""The stores of one tenant: what all share, and what belongs to each of its users, in a file of its own.

No operation on the shared store finds items of users, whichever namespace it names.
"""

import asyncio
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, cast
from urllib.parse import quote

import msgspec
from langgraph.store.base import GetOp, Item, ListNamespacesOp, MatchCondition, Op, PutOp, Result, SearchItem, SearchOp

from stellwerk.agents.store.index import Index
from stellwerk.agents.store.sqlite import SqliteStore, open_store
from stellwerk.redaction.redactor import Redactor
from stellwerk.spec.operator import StoreTtl

SHARED = "store.db"
OF_USERS = "store-users.db"
Namespace = tuple[str, ...]
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


@dataclass(slots=True)
class TenantStore:
    """The file of the users is opened when it is first used."""

    folder: Path
    redactor: Redactor
    index: Index | None
    resources: AsyncExitStack
    """Closes the files."""
    ttl: StoreTtl = field(default_factory=StoreTtl)
    _opened: dict[str, SqliteStore] = field(default_factory=dict)
    _opening: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def open(self) -> None:
        await self._file(SHARED)

    async def batch(self, ops: list[Op], *, user: str | None) -> list[Result]:
        """Carry out operations on what a user owns, or, without one, on what all share."""
        if user is None:
            return await (await self._file(SHARED)).abatch(ops)
        label = user_label(user)
        results = await (await self._file(OF_USERS)).abatch([_below(label, op) for op in ops])
        return [_without_label(result) for result in results]

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
        await (await self._file(OF_USERS)).forget((user_label(user),))

    def size(self) -> int:
        """Bytes of its files."""
        return sum(path.stat().st_size for name in (SHARED, OF_USERS) for path in self.folder.glob(f"{name}*"))

    async def _file(self, name: str) -> SqliteStore:
        async with self._opening:
            if name not in self._opened:
                opening = open_store(self.folder / name, self.redactor, self.index, self.ttl)
                self._opened[name] = await self.resources.enter_async_context(opening)
            return self._opened[name]


def user_label(user: str) -> str:
    """The first label of a user's namespaces; no label may have a dot, and an e-mail address has."""
    return "@" + quote(user, safe="").replace(".", "%2E")


def _below(label: str, op: Op) -> Op:
    match op:
        case GetOp() | PutOp():
            return op._replace(namespace=(label, *op.namespace))
        case SearchOp():
            return op._replace(namespace_prefix=(label, *op.namespace_prefix))
        case ListNamespacesOp():
            given = op.match_conditions or ()
            prefix = next((tuple(each.path) for each in given if each.match_type == "prefix"), ())
            others = tuple(each for each in given if each.match_type != "prefix")
            depth = None if op.max_depth is None else op.max_depth + 1
            return op._replace(match_conditions=(MatchCondition("prefix", (label, *prefix)), *others), max_depth=depth)


def _without_label(result: Result) -> Result:
    if isinstance(result, Item):
        result.namespace = result.namespace[1:]
    elif isinstance(result, list):
        return cast(Result, [_without_label(each) if isinstance(each, Item) else each[1:] for each in result])
    return result


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
