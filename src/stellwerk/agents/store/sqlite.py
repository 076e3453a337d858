"""LangGraph's store in an SQLite file, with an index for semantic search if one is configured.

It is not part of the log: writes are not fenced and have no envelopes.
"""

import asyncio
import re
import sqlite3
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
from langgraph.store.base import Op, PutOp, Result, SearchOp
from langgraph.store.sqlite.aio import AsyncSqliteStore

from stellwerk.agents.store.index import Index
from stellwerk.agents.store.operations import MadeBefore, embedded, made_before, redacted, ttl_config, way
from stellwerk.database.folder import begin_for_owner
from stellwerk.errors import EmbeddingFailed, StorageFull, StorageGone
from stellwerk.logs import get_logger
from stellwerk.redaction.redactor import Redactor
from stellwerk.spec.operator import StoreTtl

logger = get_logger(__name__)

_PAGE = 100
"""Items that are embedded at once when the index is made."""
_UNAVAILABLE = {
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_LOCKED,
}
_MADE_WITH = "CREATE TABLE IF NOT EXISTS stellwerk_index (made_with TEXT NOT NULL)"
_ITEMS = """
    SELECT rowid, prefix, key, value, updated_at FROM store WHERE rowid > ? ORDER BY rowid LIMIT ?
"""
# Not if the item was changed or deleted meanwhile: a change has made vectors of its own.
_ADD_VECTOR = """
    INSERT OR IGNORE INTO store_vectors (prefix, key, field_name, embedding)
    SELECT ?, ?, ?, ? WHERE EXISTS (SELECT 1 FROM store WHERE prefix = ? AND key = ? AND updated_at = ?)
"""
_SIMILARITY = "stellwerk_similarity"
_CONDITIONS = re.compile(r"AND s\.key = sv\.key(.*?)ORDER BY score DESC", re.DOTALL)
"""The namespace and the filter, in the library's statement for a search."""
_SEARCH = f"""
    WITH best AS (
        SELECT sv.prefix, sv.key, max({_SIMILARITY}(sv.embedding, ?)) AS score
        FROM store_vectors sv JOIN store s ON s.prefix = sv.prefix AND s.key = sv.key
        {{conditions}}
        GROUP BY sv.prefix, sv.key ORDER BY score DESC, sv.prefix, sv.key LIMIT ? OFFSET ?
    )
    SELECT s.prefix, s.key, s.value, s.created_at, s.updated_at, s.expires_at, s.ttl_minutes, best.score
    FROM best JOIN store s ON s.prefix = best.prefix AND s.key = best.key
    ORDER BY best.score DESC, s.prefix, s.key
"""
_KEEP_CREATED_AT = """
    ON CONFLICT (prefix, key) DO UPDATE SET value = excluded.value, updated_at = excluded.updated_at,
    expires_at = excluded.expires_at, ttl_minutes = excluded.ttl_minutes
"""

_EXPIRES = "SELECT EXISTS (SELECT 1 FROM store WHERE expires_at IS NOT NULL)"
_EXPIRE = "DELETE FROM store WHERE expires_at <= ?"
_SWEEP = 60.0
"""Seconds between two deletions of expired items, if nothing is read or stored meanwhile."""


class SqliteStore(AsyncSqliteStore):
    """Redacts known secrets, makes vectors before it locks the file, and undoes a batch that fails.

    Items are deleted when their time is over, before anything is read or stored. The overridden
    private methods are pinned by tests.
    """

    redactor = Redactor()
    index: Index | None = None
    expires = False
    """Whether there may be items that expire."""

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        cleaned = [redacted(self.redactor, op) for op in ops] if self.redactor else list(ops)
        if any(isinstance(op, PutOp) and op.ttl is not None for op in cleaned):
            self.expires = True
        if self.index is None:
            return await super().abatch(cleaned)
        with made_before(await embedded(self.index, cleaned, super()._prepare_batch_PUT_queries)):
            return await super().abatch(cleaned)

    async def setup(self) -> None:
        """With our own similarity: the library would load an SQLite extension, which many builds of Python cannot."""
        config, self.index_config = self.index_config, None
        await super().setup()
        self.index_config = config
        if self.index is not None:
            await self.conn.create_function(_SIMILARITY, 2, self.index.similarity, deterministic=True)
            for statement in self.VECTOR_MIGRATIONS:
                await self.conn.execute(statement)
        async with self.conn.execute(_EXPIRES) as cursor:
            self.expires = await cursor.fetchone() == (1,)

    async def drop_other_vectors(self, index: Index | None) -> bool:
        """Delete vectors that were made in another way; whether those of the items are to be made.

        Without an index, items change and their vectors do not: the next index starts from nothing.
        """
        async with self._cursor() as cursor:
            await cursor.execute(_MADE_WITH)
            await cursor.execute("SELECT made_with FROM stellwerk_index")
            made_with = [row[0] for row in await cursor.fetchall()]
            if index is not None and made_with == [way(index)]:
                return False
            await cursor.execute("DELETE FROM stellwerk_index")
            if index is None:
                return False
            await cursor.execute("DELETE FROM store_vectors")
            await cursor.execute("SELECT 1 FROM store LIMIT 1")
            has_items = await cursor.fetchone() is not None
            if not has_items:
                await cursor.execute("INSERT INTO stellwerk_index VALUES (?)", (way(index),))
        return has_items

    async def make_vectors(self, index: Index) -> None:
        """Make the vectors of all items that have none."""
        count = last = 0
        while page := await self._items_after(last):
            await self._add_vectors(index, page)
            count += len(page)
            last = page[-1][0]
        async with self._cursor() as cursor:
            await cursor.execute("INSERT INTO stellwerk_index VALUES (?)", (way(index),))
        if count:
            logger.info("store_index_made", items=count, embed=index.spec.embed)

    async def sweep(self) -> None:
        """Delete expired items, again and again."""
        while True:
            await asyncio.sleep(_SWEEP)
            if self.expires:
                with suppress(StorageFull, StorageGone):
                    async with self._cursor():
                        pass  # it begins with that

    async def forget(self, namespace: tuple[str, ...]) -> None:
        """Delete all items in and below a namespace."""
        prefix = ".".join(namespace)
        async with self._cursor() as cursor:
            below = f"{prefix}."
            await cursor.execute(
                "DELETE FROM store WHERE prefix = ? OR substr(prefix, 1, ?) = ?", (prefix, len(below), below)
            )

    async def _items_after(self, rowid: int) -> list[Any]:
        async with self._cursor() as cursor:
            await cursor.execute(_ITEMS, (rowid, _PAGE))
            return list(await cursor.fetchall())

    async def _add_vectors(self, index: Index, page: list[Any]) -> None:
        changed_at = {(prefix, key): at for _, prefix, key, _, at in page}
        puts = [PutOp(tuple(prefix.split(".")), key, msgspec.json.decode(value)) for _, prefix, key, value, _ in page]
        _, request = super()._prepare_batch_PUT_queries(list(enumerate(puts)))
        wanted = request[1] if request else ()
        made = await index.of_items([text for *_, text in wanted]) if wanted else []
        async with self._cursor() as cursor:
            for (prefix, key, field, _), vector in zip(wanted, made, strict=True):
                place = (prefix, key, changed_at[prefix, key])
                await cursor.execute(_ADD_VECTOR, (prefix, key, field, vector.tobytes(), *place))

    def _prepare_batch_PUT_queries(self, put_ops: Sequence[tuple[int, PutOp]]) -> Any:
        """A put keeps ``created_at``, and drops vectors of the value before."""
        queries, request = super()._prepare_batch_PUT_queries(put_ops)
        replace = "INSERT OR REPLACE INTO store ("
        kept: list[tuple[str, Sequence[Any]]] = []
        if self.index is not None:
            places = [(".".join(op.namespace), op.key) for _, op in put_ops]
            kept += [("DELETE FROM store_vectors WHERE prefix = ? AND key = ?", place) for place in places]
        for query, params in queries:
            if replace in query:
                query = query.replace(replace, "INSERT INTO store (") + _KEEP_CREATED_AT
            kept.append((query, params))
        return kept, request

    def _prepare_batch_search_queries(self, search_ops: Sequence[tuple[int, SearchOp]]) -> Any:
        """Searches by meaning rank every item, by the best of its vectors.

        The library ranks only twice as many vectors as a page has items, and would find nothing for later pages.
        """
        queries, texts = super()._prepare_batch_search_queries(search_ops)
        for number, _ in texts:
            query, params, refresh = queries[number]
            conditions = _CONDITIONS.search(query)
            assert conditions is not None, "another version of the library"
            del params[-3]  # that number of vectors
            queries[number] = (_SEARCH.format(conditions=conditions[1]), params, refresh)
        return queries, texts

    @asynccontextmanager
    async def _cursor(self, *, transaction: bool = True) -> AsyncIterator[Any]:
        """A transaction that is undone if it fails; the library would commit the half of it."""
        async with self.lock:
            try:
                await self.conn.execute("BEGIN")
                if self.expires:
                    await self.conn.execute(_EXPIRE, (datetime.now(UTC).isoformat(" "),))
                async with self.conn.cursor() as cursor:
                    yield cursor
                await self.conn.execute("COMMIT")
            except sqlite3.Error as error:
                raise _storage_error(error) from error
            finally:
                if self.conn.in_transaction:
                    await self.conn.execute("ROLLBACK")


def _storage_error(error: sqlite3.Error) -> Exception:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code == sqlite3.SQLITE_FULL:
        return StorageFull()
    if code in _UNAVAILABLE:
        return StorageGone(f"the store cannot be used: {error}; look at the disk and send this again")
    return error


@asynccontextmanager
async def open_store(
    path: Path, redactor: Redactor | None = None, index: Index | None = None, ttl: StoreTtl | None = None
) -> AsyncIterator[SqliteStore]:
    """Open or create the store, and close it with its thread and its tasks.

    Only for the event loop that opens it. Vectors of items that have none are made in the background.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    begin_for_owner(path)
    config: Any = None
    if index is not None:
        fields = index.spec.fields  # the library documents one name for them and reads the other
        config = {"embed": MadeBefore(), "dims": index.spec.dims, "fields": fields, "text_fields": fields}
    async with SqliteStore.from_conn_string(str(path), index=config, ttl=ttl_config(ttl)) as store:
        assert isinstance(store, SqliteStore)
        store.redactor = redactor or Redactor()
        await store.conn.execute("PRAGMA journal_mode=WAL")
        await store.conn.execute("PRAGMA foreign_keys=ON")  # a deleted item takes its vectors along
        store.index = index
        await store.setup()
        sweeping = asyncio.create_task(store.sweep())
        building: asyncio.Task[None] | None = None
        if await store.drop_other_vectors(index) and index is not None:
            building = asyncio.create_task(_make_vectors(store, index, path))
        try:
            yield store
        finally:
            for task in (sweeping, building, store._task):  # there is no close method, and this task would wait forever
                if task is not None:
                    task.cancel()
                    with suppress(asyncio.CancelledError):
                        await task


async def _make_vectors(store: SqliteStore, index: Index, path: Path) -> None:
    try:
        await store.make_vectors(index)
    except (EmbeddingFailed, StorageFull, StorageGone) as error:
        remedy = "searches miss the items that have no vectors; the next start tries again"
        logger.error("store_index_incomplete", path=str(path), reason=error.message, remedy=remedy)
