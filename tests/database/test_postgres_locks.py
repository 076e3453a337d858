"""Locks by name among processes: held between transactions, by one at a time, and lost with the connection."""

import asyncio
from collections.abc import AsyncIterator

import psycopg
import pytest

from stellwerk.database.port import Database
from stellwerk.database.postgres import Postgres
from stellwerk.errors import StorageGone
from tests.database.conftest import Postgresql
from tests.postgres import ROLE


@pytest.fixture
def url(postgresql: Postgresql) -> str:
    return postgresql.new()


@pytest.fixture
async def nodes(url: str) -> AsyncIterator[list[Postgres]]:
    opened = [Postgres(url) for _ in range(3)]
    for node in opened:
        await node.open()
    yield opened
    for node in opened:
        await node.close()


async def test_a_name_is_held_by_one_caller_of_one_node_at_a_time(nodes: list[Postgres]) -> None:
    holders = 0

    async def hold(node: Database, *names: str) -> None:
        nonlocal holders
        async with node.locked(*names):
            holders += 1
            assert holders == 1
            await node.read(lambda tx: tx.rows("tenants_of_documents"))
            holders -= 1

    orders = (("a", "b"), ("b", "a"), ("a", "a", "c"))
    async with asyncio.timeout(120):
        await asyncio.gather(*(hold(node, *names) for node in nodes for names in orders * 3))


async def test_other_names_are_not_waited_for(nodes: list[Postgres]) -> None:
    one, other, _ = nodes
    async with asyncio.timeout(60), one.locked("a"), other.locked("b"), one.locked("c"):
        waiting = asyncio.create_task(other.locked("a").__aenter__())
        await asyncio.sleep(0.05)
        assert not waiting.done()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
    async with asyncio.timeout(60), other.locked("a", "c"):
        pass


async def test_the_locks_of_a_node_that_is_cut_off_are_free_and_it_gets_new_ones_later(
    nodes: list[Postgres], url: str, postgresql: Postgresql
) -> None:
    one, other, _ = nodes
    async with asyncio.timeout(60), one.locked("a"):
        with psycopg.connect(url, autocommit=True) as beside:
            beside.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND pid <> pg_backend_pid()"
            )
        async with other.locked("a"):
            pass
    async with asyncio.timeout(60), one.locked("b"), one.locked("a"):
        postgresql.run("postgres", f"ALTER DATABASE {url.partition('@/')[2].partition('?')[0]} ALLOW_CONNECTIONS false")
        with psycopg.connect(postgresql.server.url("postgres", user="postgres"), autocommit=True) as beside:
            beside.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = %s", [ROLE])
    with pytest.raises(StorageGone, match="the database cannot be used"):
        async with one.locked("b"):
            pass
