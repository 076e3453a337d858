"""What graphs remember beyond a session lies in a file: shared by all of them, safe at once, closed cleanly.

Items with a ``ttl`` expire.
"""

import asyncio
import threading
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from langgraph.config import get_store
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.runtime import Runtime

from stellwerk.agents.checkpoints.saver import DurableSaver
from stellwerk.agents.graphs.registry import adopted
from stellwerk.agents.runtime.context import RunContext, running_in
from stellwerk.agents.store.graph_store import GraphStore
from stellwerk.agents.store.sqlite import open_store
from stellwerk.agents.store.tenant_store import StoreFiles, TenantStore
from stellwerk.redaction.redactor import Redactor
from stellwerk.spec.operator import StoreScope, StoreTtl
from tests.crash.waiting import eventually

NOTES = ("notes",)


async def by_get_store(state: MessagesState) -> dict[str, Any]:
    await get_store().aput(NOTES, "colour", {"is": state["messages"][-1].text})
    return {}


async def by_runtime(state: MessagesState, runtime: Runtime[None]) -> dict[str, Any]:
    assert runtime.store is not None
    await runtime.store.aput(NOTES, "colour", {"is": state["messages"][-1].text})
    return {}


def on_a_thread(state: MessagesState) -> dict[str, Any]:
    get_store().put(NOTES, "colour", {"is": state["messages"][-1].text})
    return {}


@pytest.mark.parametrize("node", [by_get_store, by_runtime, on_a_thread], ids=lambda node: node.__name__)
async def test_what_a_node_puts_away_is_there_after_a_restart(saver: DurableSaver, tmp_path: Path, node: Any) -> None:
    builder = StateGraph(MessagesState)
    builder.add_node("node", node)
    builder.add_edge(START, "node")
    async with open_store(tmp_path / "stores/acme.db") as store:
        graph = adopted(builder.compile(), name="own", saver=saver, store=store)
        await graph.ainvoke({"messages": [("user", "blue")]}, {"configurable": {"thread_id": "thread"}})
    async with open_store(tmp_path / "stores/acme.db") as store:
        found = await store.aget(NOTES, "colour")
        assert found is not None and found.value == {"is": "blue"}


async def test_many_write_at_once_and_through_two_openings(tmp_path: Path) -> None:
    async with open_store(tmp_path / "store.db") as one, open_store(tmp_path / "store.db") as other:
        await asyncio.gather(
            *(
                store.aput(NOTES, f"{name}{n}", {"n": n})
                for n in range(100)
                for name, store in (("a", one), ("b", other))
            )
        )
        assert len(await one.asearch(NOTES, limit=300)) == 200


async def test_closing_leaves_no_thread_and_no_task_behind(tmp_path: Path) -> None:
    threads, tasks = set(threading.enumerate()), asyncio.all_tasks()
    async with open_store(tmp_path / "store.db") as store:
        await store.aput(NOTES, "a", {"n": 1})
        assert set(threading.enumerate()) - threads
    # A thread that has said that it is done takes another moment to be gone.
    await eventually(lambda: set(threading.enumerate()) == threads, within=30, what="a thread is left")
    assert asyncio.all_tasks() == tasks


SOON = 0.01
"""Minutes."""


async def gone(store: Any, key: str) -> None:
    async def is_gone() -> bool:
        return await store.aget(NOTES, key, refresh_ttl=False) is None

    await eventually(is_gone, within=30, what=f"{key} is still there")


async def test_an_item_whose_time_is_over_is_deleted_and_others_stay(tmp_path: Path) -> None:
    async with open_store(tmp_path / "store.db") as store:
        await store.aput(NOTES, "soon", {"n": 1}, ttl=SOON)
        await store.aput(NOTES, "later", {"n": 2}, ttl=100)
        await store.aput(NOTES, "never", {"n": 3})
        await gone(store, "soon")
        assert sorted(item.key for item in await store.asearch(NOTES)) == ["later", "never"]
        async with store.conn.execute("SELECT count(*) FROM store") as cursor:
            assert await cursor.fetchone() == (2,), "it is in the file no more"


async def test_time_that_passes_while_the_store_is_closed_counts(tmp_path: Path) -> None:
    async with open_store(tmp_path / "store.db") as store:
        await store.aput(NOTES, "soon", {"n": 1}, ttl=SOON)
    await asyncio.sleep(SOON * 60)
    async with open_store(tmp_path / "store.db") as store:
        assert await store.aget(NOTES, "soon") is None


async def expires_at(store: Any, key: str) -> str:
    async with store.conn.execute("SELECT expires_at FROM store WHERE key = ?", (key,)) as cursor:
        (found,) = await cursor.fetchone()
    return str(found)[:19]


@pytest.mark.parametrize("refreshes", [True, False])
async def test_the_time_begins_again_when_an_item_is_read_if_that_is_set(tmp_path: Path, refreshes: bool) -> None:
    async with open_store(tmp_path / "store.db", ttl=StoreTtl(refresh_on_read=refreshes)) as store:
        await store.aput(NOTES, "read", {"n": 1}, ttl=100)
        before = await expires_at(store, "read")
        await store.conn.execute("UPDATE store SET expires_at = datetime(expires_at, '-1 hour')")
        assert await store.aget(NOTES, "read") is not None
        assert (await expires_at(store, "read") >= before) is refreshes
        await store.conn.execute("UPDATE store SET expires_at = datetime(expires_at, '-1 minute')")
        unchanged = await expires_at(store, "read")
        assert await store.aget(NOTES, "read", refresh_ttl=False) is not None
        assert await expires_at(store, "read") == unchanged


@pytest.mark.parametrize("scope", ["shared", "user"])
async def test_graphs_that_name_no_time_get_the_default(tmp_path: Path, scope: StoreScope) -> None:
    async with AsyncExitStack() as resources:
        ttl = StoreTtl(default_ttl=SOON)
        stores = TenantStore(StoreFiles(tmp_path, Redactor(), None, resources, ttl), ttl=ttl)
        store = GraphStore(stores, {"desk": scope}).of_graph("desk")
        with running_in(RunContext(user="ann")):
            await store.aput(NOTES, "default", {"n": 1})
            await store.aput(NOTES, "none", {"n": 2}, ttl=None)
            await gone(store, "default")
            assert [item.key for item in await store.asearch(NOTES)] == ["none"]
