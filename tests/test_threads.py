"""The executor of graphs has a thread for whatever comes, and knows which of them a run has left behind."""

import asyncio
import threading
from collections.abc import Iterator

import pytest

from stellwerk.threads import RunThreads, RunWork, in_thread, left, working


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    made = threading.Event()
    yield made
    made.set()


async def test_work_never_waits_for_the_work_of_others(gate: threading.Event) -> None:
    asyncio.get_running_loop().set_default_executor(RunThreads())
    others = [asyncio.create_task(asyncio.to_thread(gate.wait)) for _ in range(100)]
    assert await asyncio.to_thread(lambda: "done") == "done"
    assert not any(task.done() for task in others)
    gate.set()
    await asyncio.gather(*others)


async def test_a_thread_is_left_from_the_end_of_its_run_until_it_returns(gate: threading.Event) -> None:
    threads, began, work = RunThreads(), threading.Event(), RunWork()

    def hangs() -> None:
        began.set()
        gate.wait()

    with working(work):
        future = threads.submit(hangs)
        began.wait()
        assert (work.threads, left()) == (1, 0)
    assert (work.threads, left()) == (1, 1)
    threads.shutdown()  # does not wait for it
    assert not future.done()
    gate.set()
    future.result()
    assert (work.threads, left()) == (0, 0)


async def test_work_of_no_run_is_waited_for_at_the_end() -> None:
    threads, done = RunThreads(), list[str]()
    threads.submit(done.append, "done")
    threads.shutdown()
    assert done == ["done"]


async def test_work_of_the_servers_own_is_done_in_threads_that_no_graph_can_fill(gate: threading.Event) -> None:
    asyncio.get_running_loop().set_default_executor(RunThreads())
    others = [asyncio.create_task(asyncio.to_thread(gate.wait)) for _ in range(100)]
    assert (await in_thread(lambda: threading.current_thread().name)).startswith("stellwerk")
    gate.set()
    await asyncio.gather(*others)
