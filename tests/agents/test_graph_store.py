"""What graphs remember beyond a session lies in a file: shared by all of them, safe at once, closed cleanly."""

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest
from langgraph.config import get_store
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.runtime import Runtime

from stellwerk.agents.checkpoints.saver import DurableSaver
from stellwerk.agents.graphs.registry import adopted
from stellwerk.agents.store.sqlite import open_store
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
