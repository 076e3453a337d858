"""LangGraph's store, for what graphs remember beyond a session: one SQLite file per tenant.

``get_store()`` and ``runtime.store`` of every graph use it. It is not part of the log: writes are
not fenced and have no envelopes. One per tenant, because a graph chooses its namespaces freely.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, cast

from langgraph.store.base import BaseStore, GetOp, Op, PutOp, Result, SearchOp
from langgraph.store.memory import InMemoryStore
from langgraph.store.sqlite.aio import AsyncSqliteStore

from stellwerk.database.folder import begin_for_owner
from stellwerk.redaction.redactor import Redactor


class _RedactingStore(AsyncSqliteStore):
    """Known secrets are redacted in writes and queries."""

    redactor = Redactor()

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        return await super().abatch([self._clean(op) for op in ops] if self.redactor else ops)

    def _clean(self, op: Op) -> Op:
        redact = self.redactor.redact_text
        match op:
            case PutOp(namespace=namespace, key=key, value=value):
                clean = op._replace(value=cast("dict[str, Any] | None", self.redactor.redact(value)))
                return clean._replace(namespace=tuple(map(redact, namespace)), key=redact(key))
            case GetOp(namespace=namespace, key=key):
                return op._replace(namespace=tuple(map(redact, namespace)), key=redact(key))
            case SearchOp(namespace_prefix=namespace):
                return op._replace(namespace_prefix=tuple(map(redact, namespace)))
        return op


def unused_parts(store: BaseStore) -> str:
    """What is lost when a graph's own store is replaced; empty if it has neither items nor an index."""
    lost: list[str] = []
    if not isinstance(store, InMemoryStore):
        lost.append("items in it")  # it outlives the process, and to ask it may take long
    elif store.search((), limit=1):
        lost.append("its items")
    if getattr(store, "index_config", None):
        lost.append("its index for semantic search")
    return " and ".join(lost)


@asynccontextmanager
async def open_store(path: Path, redactor: Redactor | None = None) -> AsyncIterator[BaseStore]:
    """Open or create the store, and close it with its thread and its task.

    Only for the event loop that opens it; nodes on other threads may use its synchronous methods.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    begin_for_owner(path)
    async with _RedactingStore.from_conn_string(str(path)) as store:
        assert isinstance(store, _RedactingStore)
        store.redactor = redactor or Redactor()
        await store.conn.execute("PRAGMA journal_mode=WAL")
        await store.setup()
        try:
            yield store
        finally:
            task = store._task  # there is no close method, and this task would wait forever
            if task is not None:
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task
