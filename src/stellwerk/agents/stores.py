"""Where graphs remember things beyond a session: LangGraph's store, in a file of its own.

``get_store()`` and ``runtime.store`` of every graph lead here. It is not part
of the log: what a graph writes there has no fence and is in no envelope. One
file per tenant, because a graph chooses its namespaces freely.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from langgraph.store.base import BaseStore
from langgraph.store.sqlite.aio import AsyncSqliteStore


@asynccontextmanager
async def open_store(path: Path) -> AsyncIterator[BaseStore]:
    """Open or create the store, and close it with its thread and its task.

    Only for the event loop that opens it; nodes on other threads may use its synchronous methods.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    async with AsyncSqliteStore.from_conn_string(str(path)) as store:
        await store.conn.execute("PRAGMA journal_mode=WAL")
        await store.setup()
        try:
            yield store
        finally:
            await _end(store._task)  # It has no method to close it; left alone, this task waits for ever.


async def _end(task: asyncio.Task[None] | None) -> None:
    if task is not None:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
