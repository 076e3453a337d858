"""PostgreSQL behind the port: durable appends, messages that are accepted, and how many updates change no index.

Its server is the one that tests start, with a disk that is waited for; or that of STELLWERK_BENCHMARK_POSTGRES.
"""

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import psycopg

from benchmarks.append import events_per_second
from benchmarks.figures import Figure, at_least, at_most, seen, share
from benchmarks.store import Store
from stellwerk.database.postgres import Postgres
from stellwerk.ids import SortableIds, SystemClock
from stellwerk.log.durable import DurableLog
from stellwerk.log.log import CreateSession
from stellwerk.log.notify import WakeUps
from stellwerk.runs.accept import accept_many
from stellwerk.runs.commands import Send
from stellwerk.tenants.principals import LOCAL_TENANT
from tests.postgres import PostgresServer, folder_of_run

SECONDS = 3.0
AT_ONCE = 20
_REAL = {"fsync": "on", "full_page_writes": "on", "autovacuum": "on", "shared_buffers": "256MB"}
_CASES = ((1, 18_000), (10, 45_000))
_UPDATES = "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = 'session'"


async def measure(_: Path) -> list[Figure]:
    figures = []
    async with _server() as url, _opened(url) as store:
        for batch, budget in _CASES:
            before = await asyncio.to_thread(_updates, url)
            best = max([await events_per_second(store, 200, batch, SECONDS) for _ in range(3)])
            figures.append(at_least(f"PostgreSQL, 200 sessions, batches of {batch}", best, "events/s", budget))
            all_, hot = (now - then for now, then in zip(await asyncio.to_thread(_updates, url), before, strict=True))
            figures.append(at_least("updates that change no index", 100 * hot / max(all_, 1), "%", 95))
        figures += await _intake(store)
    return figures


async def _intake(store: Store) -> list[Figure]:
    seconds: list[float] = []
    sessions = [store.ids.new() for _ in range(600)]
    for session_id in sessions:
        await store.log.create(CreateSession(LOCAL_TENANT, session_id, "benchmark", 0.0))
    waiting = iter(sessions)

    async def client() -> None:
        for session_id in waiting:
            start = time.perf_counter()
            command = Send(
                tenant=LOCAL_TENANT,
                session_id=session_id,
                run_id=store.ids.new(),
                at=1.0,
                system="benchmark",
                system_version=1,
                text="How is the weather?",
                message_id=store.ids.new(),
                key=f"key {session_id}",
            )
            await store.database.submit(accept_many, command)
            seconds.append(time.perf_counter() - start)

    start = time.perf_counter()
    await asyncio.gather(*(client() for _ in range(AT_ONCE)))
    rate = len(sessions) / (time.perf_counter() - start)
    return [
        at_least(f"messages accepted, {AT_ONCE} at once", rate, "/s", 600),
        at_most("a message accepted, half of them in", share(seconds, 0.5) * 1000, "ms", 15),
        seen("a message accepted, 99 of 100 in", share(seconds, 0.99) * 1000, "ms"),
    ]


def _updates(url: str) -> tuple[int, int]:
    with psycopg.connect(url) as connection:
        connection.execute("SELECT pg_stat_force_next_flush()") if connection.info.server_version >= 150000 else None
        return connection.execute(_UPDATES).fetchall()[0]


@asynccontextmanager
async def _server() -> AsyncIterator[str]:
    given = os.environ.get("STELLWERK_BENCHMARK_POSTGRES")  # noqa: TID251
    if given is not None:
        yield given
        return
    with folder_of_run() as folder:
        server = PostgresServer(folder, _REAL)
        await asyncio.to_thread(server.create)
        await asyncio.to_thread(server.start)
        try:
            await asyncio.to_thread(server.add_role)
            await asyncio.to_thread(_create, server.url("postgres"))
            yield server.url("benchmark")
        finally:
            await asyncio.to_thread(server.stop, signal.SIGINT)


def _create(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE DATABASE benchmark")


@asynccontextmanager
async def _opened(url: str) -> AsyncIterator[Store]:
    database = Postgres(url)
    await database.open()
    wakes = WakeUps()
    try:
        yield Store(database, DurableLog(database, wakes), wakes, SortableIds(SystemClock()))
    finally:
        await database.close()
