"""A thread that waits for the event loop gets its answer, or learns that the loop waits for it."""

import asyncio
import threading
from contextvars import ContextVar

import pytest

from stellwerk.agents.checkpoints.saver import LoopCalls
from stellwerk.errors import BlockedLoop, StorageGone

name: ContextVar[str] = ContextVar("name", default="none")


async def who() -> str:
    await asyncio.sleep(0)
    return f"{name.get()} on {threading.current_thread().name}"


async def test_the_work_is_done_on_the_loop_in_the_context_of_the_thread() -> None:
    calls = LoopCalls()

    def work() -> str:
        name.set("ann")
        return calls.wait_for(who())

    assert await asyncio.to_thread(work) == f"ann on {threading.current_thread().name}"
    assert name.get() == "none"


async def test_what_the_work_raises_is_raised_in_the_thread() -> None:
    calls = LoopCalls()

    async def fails() -> None:
        raise StorageGone("the disk is gone")

    with pytest.raises(StorageGone, match="the disk is gone"):
        await asyncio.to_thread(lambda: calls.wait_for(fails()))


async def test_on_the_loop_itself_it_is_refused_at_once() -> None:
    with pytest.raises(BlockedLoop, match=r"await ainvoke\(\)"):
        LoopCalls().wait_for(who())


async def test_a_thread_that_the_loop_waits_for_is_let_go() -> None:
    calls, raised = LoopCalls(check_after=0.1), list[BaseException]()

    def work() -> None:
        try:
            calls.wait_for(who())
        except BlockedLoop as error:
            raised.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()  # as an async node does that waits for a thread
    assert len(raised) == 1


def test_once_the_loop_is_closed_a_thread_does_not_wait_for_it() -> None:
    async def made() -> LoopCalls:
        return LoopCalls()

    calls = asyncio.run(made())
    with pytest.raises(RuntimeError, match="closed"):
        calls.wait_for(who())
