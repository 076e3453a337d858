"""Tools that take too long, will not stop, or try to end the server: each costs one error of its own call."""

import asyncio
import threading
from typing import Any

import pytest

from stellwerk.agents.tools.call import langchain_tool
from stellwerk.agents.tools.registry import tool
from stellwerk.errors import ToolFailed, ToolTimeout
from tests.agents.tool_runs import Ends, called, graph_calling
from tests.crash.waiting import eventually


async def swallow_the_cancellation(released: asyncio.Event) -> None:
    while not released.is_set():
        try:
            await released.wait()
        except asyncio.CancelledError:
            continue


@pytest.mark.requirement("004.tools.timeouts")
@pytest.mark.parametrize("kind", ["loop", "thread"])
async def test_a_tool_that_takes_too_long_is_one_error(kind: str) -> None:
    released = threading.Event()

    @tool(timeout=0.05)
    def block() -> str:
        """Block a thread."""
        released.wait(60)
        return "late"

    @tool(timeout=0.05)
    async def wait() -> str:
        """Wait for ever."""
        await asyncio.Event().wait()
        return "never"

    ends, spec = Ends(), wait if kind == "loop" else block
    graph = graph_calling([langchain_tool(spec)], spec.name, {})
    with pytest.raises(ToolTimeout, match="took longer than 0.05 s"):
        await graph.ainvoke({"messages": [("user", "go")]}, {"callbacks": [ends]})
    released.set()  # the thread goes on until it comes to its end; nobody waits for it
    assert ends.errors == ["ToolTimeout"]


async def test_a_stop_does_not_wait_for_a_tool_that_swallows_its_cancellation() -> None:
    began, released = asyncio.Event(), asyncio.Event()

    @tool
    async def cling() -> str:
        """Ignore every stop."""
        began.set()
        await swallow_the_cancellation(released)
        return "late"

    run = asyncio.create_task(called(cling))
    await began.wait()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert not released.is_set()
    released.set()
    await eventually(lambda: len(asyncio.all_tasks()) == 1, within=10, what="it does not end even now")


def leave() -> str:
    """End the program."""
    raise SystemExit(3)


async def leave_soon() -> str:
    """End the program from the loop."""
    raise SystemExit(3)


def interrupt_all() -> str:
    """Behave as if somebody had pressed Ctrl-C."""
    raise KeyboardInterrupt


def stop_iterating() -> str:
    """Forget a default."""
    return str(next(iter([])))


async def cancel_itself() -> str:
    """Cancel the task it runs in."""
    raise asyncio.CancelledError


@pytest.mark.parametrize(
    ("function", "says"),
    [
        (leave, "ended by SystemExit"),
        (leave_soon, "ended by SystemExit"),
        (interrupt_all, "ended by KeyboardInterrupt"),
        (stop_iterating, "ended by StopIteration"),
        (cancel_itself, "cancelled itself"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
async def test_what_would_end_the_server_is_an_error_of_the_tool(function: Any, says: str) -> None:
    with pytest.raises(ToolFailed, match=says):
        await called(tool(function))


@pytest.mark.parametrize("kind", ["loop", "thread"])
async def test_what_a_function_raises_arrives_as_it_is(kind: str) -> None:
    @tool
    def fail_here() -> str:
        """Fail."""
        raise LookupError("sold out")

    @tool
    async def fail_there() -> str:
        """Fail."""
        raise LookupError("sold out")

    with pytest.raises(LookupError, match="sold out"):
        await called(fail_there if kind == "loop" else fail_here)
