"""LangGraph's store on PostgreSQL, shared by all tenants; semantic search needs the extension pgvector.

Every namespace begins with the tenant. It is not part of the log: writes are not fenced and have
no envelopes.
"""

import asyncio
import re
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import psycopg
from langgraph.store.base import Op, PutOp, Result, SearchOp
from langgraph.store.postgres import AsyncPostgresStore
from psycopg import errors
from psycopg.rows import dict_row
from psycopg_pool import AsyncConnectionPool, PoolTimeout

from stellwerk.agents.store.index import Index, Vector
from stellwerk.agents.store.operations import (
    MadeBefore,
    Namespace,
    embedded,
    label,
    made_before,
    redacted,
    ttl_config,
    way,
)
from stellwerk.errors import EmbeddingFailed, InvalidInput, SettingsError, StorageFull, StorageGone
from stellwerk.logs import get_logger
from stellwerk.redaction.redactor import Redactor
from stellwerk.spec.operator import StoreTtl

logger = get_logger(__name__)

_CONNECTIONS = 4
_PATIENCE = 5.0
"""Seconds until a connection must be free, and rows that another transaction holds."""
_PAGE = 100
"""Items that are embedded at once when the index is made."""
_SIZE_KNOWN = 5.0
"""Seconds for which the size of a tenant's items is not asked again."""
_SWEEP = 60.0
"""Seconds between two deletions of expired items; none of them is found meanwhile."""
_SESSION = {"statement_timeout": "20s", "idle_in_transaction_session_timeout": "10s"}
_LOCK = "langgraph_store"
_NO_VECTORS = (
    "store.index needs the extension pgvector on PostgreSQL: install it on its machine, "
    "and let a superuser run CREATE EXTENSION vector in this database; or leave store.index out"
)
_MADE_WITH = """
    CREATE TABLE IF NOT EXISTS stellwerk_index (made_with text NOT NULL, is_complete boolean NOT NULL DEFAULT false)
"""
_ITEMS = """
    SELECT prefix, key, value, updated_at FROM store WHERE (prefix, key) > (%s, %s) ORDER BY prefix, key LIMIT %s
"""
# Not if the item was changed or deleted meanwhile: a change has made vectors of its own.
_ADD_VECTOR = """
    INSERT INTO store_vectors (prefix, key, field_name, embedding)
    SELECT %s, %s, %s, %s::vector WHERE EXISTS (SELECT 1 FROM store WHERE prefix = %s AND key = %s AND updated_at = %s)
    ON CONFLICT DO NOTHING
"""
_BASE = re.compile(
    r"SELECT store\.prefix.*?WHERE (.*?)ORDER BY store\.updated_at DESC\s+LIMIT %s\s+OFFSET %s", re.DOTALL
)
"""The library's statement for a search without a query."""
_SEARCH = """
    WITH best AS (
        SELECT store.prefix, store.key,
            max(coalesce(nullif(1 - (sv.embedding <=> %s::vector), 'NaN'), 0)) AS score
        FROM store JOIN store_vectors sv ON sv.prefix = store.prefix AND sv.key = store.key
        WHERE {conditions}
        GROUP BY store.prefix, store.key ORDER BY score DESC, store.prefix, store.key LIMIT %s OFFSET %s
    )
    SELECT s.prefix, s.key, s.value, s.created_at, s.updated_at, best.score
    FROM best JOIN store s ON s.prefix = best.prefix AND s.key = best.key
    ORDER BY best.score DESC, s.prefix, s.key
"""
_SIZE = r"""
    SELECT coalesce(sum(length(prefix) + length(key) + pg_column_size(value)), 0) AS size
    FROM store WHERE prefix LIKE %s ESCAPE '\'
"""
_FORGET = r"DELETE FROM store WHERE prefix = %s OR prefix LIKE %s ESCAPE '\'"


Locked = Callable[[str], AbstractAsyncContextManager[None]]
"""``Database.locked``."""


class PostgresStore(AsyncPostgresStore):
    """Makes vectors before it takes a connection, ranks every item, and undoes a batch that fails.

    The overridden private methods are pinned by tests.
    """

    # Without the index for near neighbours: it would look among the items of all tenants.
    VECTOR_MIGRATIONS = AsyncPostgresStore.VECTOR_MIGRATIONS[:2]
    index: Index | None = None

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        wanted = list(ops)
        vectors: Mapping[str, Vector] = {}
        if self.index is not None:
            vectors = await embedded(self.index, wanted, super()._prepare_batch_PUT_queries)
        with _storage_errors(), made_before({text: vector.tolist() for text, vector in vectors.items()}):
            return await super().abatch(wanted)

    def of_tenant(self, tenant: str, redactor: Redactor) -> "StoreRows":
        return StoreRows(self, tenant, redactor)

    async def setup(self) -> None:
        """Make the tables; for one process at a time.

        Raises:
            SettingsError: there is an index, and no pgvector.
        """
        try:
            await super().setup()
        except (errors.FeatureNotSupported, errors.UndefinedFile, errors.InsufficientPrivilege) as error:
            if self.index is None:
                raise
            raise SettingsError(f"{_NO_VECTORS} ({str(error).splitlines()[0]})") from error
        async with self._cursor() as cursor:
            await cursor.execute(_MADE_WITH)
            if self.index is None:  # items change and their vectors do not: the next index starts from nothing
                await cursor.execute("DELETE FROM stellwerk_index")

    async def drop_other_vectors(self, index: Index) -> bool:
        """Delete vectors that were made in another way; whether those of the items are to be made."""
        async with self._cursor() as cursor:
            await cursor.execute("SELECT made_with, is_complete FROM stellwerk_index")
            row = await cursor.fetchone()
            if row is not None and row["made_with"] == way(index):
                return not row["is_complete"]
            await cursor.execute("DROP TABLE store_vectors")
            await cursor.execute("DELETE FROM vector_migrations WHERE v > 0")
            await cursor.execute("DELETE FROM stellwerk_index")
            await cursor.execute("INSERT INTO stellwerk_index (made_with) VALUES (%s)", (way(index),))
        await super().setup()
        return True

    async def make_vectors(self, index: Index) -> None:
        """Make the vectors of all items that have none."""
        count, last = 0, ("", "")
        while page := await self._items_after(*last):
            await self._add_vectors(index, page)
            count += len(page)
            last = page[-1]["prefix"], page[-1]["key"]
        async with self._cursor() as cursor:
            await cursor.execute("UPDATE stellwerk_index SET is_complete = true WHERE made_with = %s", (way(index),))
        if count:
            logger.info("store_index_made", items=count, embed=index.spec.embed)

    async def forget(self, namespace: Namespace) -> None:
        with _storage_errors():
            async with self._cursor() as cursor:
                prefix = ".".join(namespace)
                await cursor.execute(_FORGET, (prefix, _below(prefix)))

    async def size(self, namespace: Namespace) -> int:
        with _storage_errors():
            async with self._cursor() as cursor:
                await cursor.execute(_SIZE, (_below(".".join(namespace)),))
                row = await cursor.fetchone()
        return int(row["size"]) if row else 0

    async def _items_after(self, prefix: str, key: str) -> list[Any]:
        with _storage_errors():
            async with self._cursor() as cursor:
                await cursor.execute(_ITEMS, (prefix, key, _PAGE))
                return list(await cursor.fetchall())

    async def _add_vectors(self, index: Index, page: Sequence[Any]) -> None:
        changed_at = {(row["prefix"], row["key"]): row["updated_at"] for row in page}
        puts = [PutOp(tuple(row["prefix"].split(".")), row["key"], row["value"]) for row in page]
        _, request = super()._prepare_batch_PUT_queries(list(enumerate(puts)))
        wanted = request[1] if request else ()
        made = await index.of_items([text for *_, text in wanted]) if wanted else []
        with _storage_errors():
            async with self._cursor(pipeline=True) as cursor:
                for (prefix, key, name, _), vector in zip(wanted, made, strict=True):
                    place = (prefix, key, changed_at[prefix, key])
                    await cursor.execute(_ADD_VECTOR, (prefix, key, name, vector.tolist(), *place))

    def _prepare_batch_PUT_queries(self, put_ops: Sequence[tuple[int, PutOp]]) -> Any:
        """A put drops vectors of the value before."""
        queries, request = super()._prepare_batch_PUT_queries(put_ops)
        if self.index is not None:
            places = [(".".join(op.namespace), op.key) for _, op in put_ops]
            queries[:0] = [("DELETE FROM store_vectors WHERE prefix = %s AND key = %s", place) for place in places]
        return queries, request

    def _prepare_batch_search_queries(self, search_ops: Sequence[tuple[int, SearchOp]]) -> Any:
        """Searches by meaning rank every item, by the best of its vectors.

        The library ranks only some vectors more than a page has items, and would find nothing for later pages.
        """
        plain = [(number, op._replace(query=None)) for number, op in search_ops]
        queries, _ = super()._prepare_batch_search_queries(plain)
        if self.index is None:
            return queries, []
        for number, (_, op) in enumerate(search_ops):
            if op.query:
                statement, params = queries[number]
                conditions = _BASE.search(statement)
                assert conditions is not None, "another version of the library"
                found = _SEARCH.format(conditions=conditions[1])
                statement = f"{statement[: conditions.start()]}{found}{statement[conditions.end() :]}"
                (vector,) = MadeBefore().embed_documents([op.query])
                queries[number] = statement, [vector, *params]
        return queries, []


@dataclass(slots=True)
class StoreRows:
    """The places of a tenant in the store that all share."""

    store: PostgresStore
    tenant: str
    redactor: Redactor
    _known: tuple[float, int] = field(default=(0.0, 0))

    async def of(self, user: str | None) -> "tuple[_Redacting, Namespace]":
        owner = "-" if user is None else label("@", user)
        return _Redacting(self.store, self.redactor), (label("t-", self.tenant), owner)

    async def size(self) -> int:
        until, size = self._known
        if time.monotonic() >= until:
            size = await self.store.size((label("t-", self.tenant),))
            self._known = time.monotonic() + _SIZE_KNOWN, size
        return size


@dataclass(frozen=True, slots=True)
class _Redacting:
    store: PostgresStore
    redactor: Redactor

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        return await self.store.abatch([redacted(self.redactor, op) for op in ops] if self.redactor else list(ops))

    async def forget(self, namespace: Namespace) -> None:
        await self.store.forget(namespace)


@asynccontextmanager
async def open_postgres_store(
    options: Mapping[str, Any],
    locked: Locked,
    index: Index | None = None,
    ttl: StoreTtl | None = None,
    patience: float = _PATIENCE,
) -> AsyncIterator[PostgresStore]:
    """Open the store of all tenants, and close it with its connections and its tasks.

    ``options`` are of psycopg. Vectors of items that have none are made in the background.
    """
    config: Any = None
    if index is not None:
        config = {"embed": MadeBefore(), "dims": index.spec.dims, "fields": index.spec.fields}
    pool: AsyncConnectionPool[Any] = AsyncConnectionPool(
        kwargs={**options, "autocommit": True, "prepare_threshold": 0, "row_factory": dict_row},
        min_size=1,
        max_size=_CONNECTIONS,
        timeout=patience,
        configure=partial(_configure, patience),
        check=AsyncConnectionPool.check_connection,
        open=False,
    )
    async with pool:
        store = PostgresStore(pool, index=config, ttl={**ttl_config(ttl), "omit_expired": True})
        store.index = index
        sweeping = asyncio.create_task(_sweep(store))
        building: asyncio.Task[None] | None = None
        try:
            async with locked(_LOCK):
                with _storage_errors():
                    await store.setup()
                    is_incomplete = index is not None and await store.drop_other_vectors(index)
            if index is not None and is_incomplete:
                building = asyncio.create_task(_make_vectors(store, index, locked))
            yield store
        finally:
            for task in (sweeping, building, store._task):  # there is no close method, and this task would wait forever
                if task is not None:
                    task.cancel()
                    with suppress(asyncio.CancelledError):
                        await task


async def _configure(patience: float, connection: psycopg.AsyncConnection[Any]) -> None:
    for name, value in {**_SESSION, "lock_timeout": f"{patience * 1000:.0f}ms"}.items():
        await connection.execute("SELECT set_config(%s, %s, false)", (name, value))


async def _sweep(store: PostgresStore) -> None:
    """Delete expired items, again and again."""
    while True:
        await asyncio.sleep(_SWEEP)
        try:
            with _storage_errors():
                await store.sweep_ttl()
        except (StorageFull, StorageGone) as error:
            logger.warning("store_not_swept", reason=error.message)


async def _make_vectors(store: PostgresStore, index: Index, locked: Locked) -> None:
    try:
        async with locked(f"{_LOCK}:index"):
            if await store.drop_other_vectors(index):
                await store.make_vectors(index)
    except (EmbeddingFailed, StorageFull, StorageGone) as error:
        remedy = "searches miss the items that have no vectors; the next start tries again"
        logger.error("store_index_incomplete", reason=error.message, remedy=remedy)


@contextmanager
def _storage_errors() -> Iterator[None]:
    try:
        yield
    except errors.DiskFull as error:
        raise StorageFull from error
    except (errors.UntranslatableCharacter, psycopg.DataError) as error:
        raise InvalidInput(f"the store takes no such text: {str(error).splitlines()[0]}; leave NUL out") from error
    except (PoolTimeout, psycopg.OperationalError, psycopg.InterfaceError) as error:
        reason = (str(error) or type(error).__name__).splitlines()[0]
        raise StorageGone(f"the store cannot be used: {reason}; send this again") from error


def _below(prefix: str) -> str:
    """A pattern of LIKE for the namespaces below this one."""
    return re.sub(r"([\\%_])", r"\\\1", prefix) + ".%"
