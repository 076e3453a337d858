"""Thread pools: one for synchronous nodes and tools of graphs, one for the server itself.

LangChain runs every plain ``def`` node and tool in the event loop's default executor. A thread
cannot be ended: after a stop of its run it continues until its function returns. ``RunThreads`` is
that executor. It creates a thread whenever one is needed, so no thread waits for another; their
number is bounded by the number of runs and of tasks in each. ``in_thread`` is for work of the
server: a small separate pool, which no graph can fill. ``exits_contained`` makes the tasks of an
event loop on which graphs run. ``collect_seldom`` is for such a loop as well.
"""

import asyncio
import gc
import os
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import Context, ContextVar, copy_context
from functools import partial
from types import FrameType
from typing import Any, NoReturn, ParamSpec, TypeVar
from weakref import WeakSet

P = ParamSpec("P")
R = TypeVar("R")

_MOST = 100_000
"""More than any system lets a process have."""
_GENERATIONS = (10_000, 5, 1_000_000)
"""Only young objects are collected automatically: a full collection stops all runs."""
_COLLECT = 300.0
"""Seconds between full collections. A run leaves about 200 objects to them."""
_own = ThreadPoolExecutor(min(32, (os.cpu_count() or 1) + 4), "stellwerk")


async def in_thread(function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Do short work of the server in a thread. It must not wait for another thread."""
    work = partial(copy_context().run, function, *args, **kwargs)
    return await asyncio.get_running_loop().run_in_executor(_own, work)


class RunWork:
    """The threads of one run."""

    def __init__(self) -> None:
        self.threads = 0
        self.is_over = False


_work: ContextVar[RunWork | None] = ContextVar("stellwerk_run_work", default=None)
_all: WeakSet[RunWork] = WeakSet()
_counting = threading.Lock()


@contextmanager
def working(work: RunWork) -> Iterator[None]:
    """Count threads started in the block as those of this run; survivors are abandoned."""
    _all.add(work)
    token = _work.set(work)
    try:
        yield
    finally:
        work.is_over = True
        _work.reset(token)


def left() -> int:
    """The number of abandoned threads: their run is over, their function has not returned."""
    return sum(work.threads for work in list(_all) if work.is_over)


def exit_now(code: int) -> NoReturn:
    """End the process. Python would wait for abandoned threads, which may never return."""
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(code)


def counted(function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
    """Call the function, and count this thread for the run of its context meanwhile."""
    work = _work.get()
    if work is None:
        return function(*args, **kwargs)
    with _counting:
        work.threads += 1
    try:
        return function(*args, **kwargs)
    finally:
        with _counting:
            work.threads -= 1


class RunThreads(ThreadPoolExecutor):
    """The default executor of an event loop on which graphs run (``loop.set_default_executor``)."""

    def __init__(self, most: int = _MOST, name: str = "run") -> None:
        super().__init__(most, name)

    def submit(self, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> "Future[R]":
        return super().submit(partial(copy_context().run, counted, fn, *args, **kwargs))

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Abandoned threads are not waited for: they may never return."""
        super().shutdown(wait=wait and not left(), cancel_futures=cancel_futures)


def context_in(frame: FrameType | None) -> Context | None:
    """The context of the task that runs in the stack of this frame, if ``exits_contained`` made it."""
    while frame is not None:
        if frame.f_code.co_name == "containing" and frame.f_code.co_filename == __file__:
            found = frame.f_locals.get("_context")
            return found if isinstance(found, Context) else None
        frame = frame.f_back
    return None


def exits_contained(loop: asyncio.AbstractEventLoop, coro: Any, **given: Any) -> "asyncio.Task[Any]":
    """A task in which ``sys.exit`` is an error like others: one graph must not end the process."""

    async def containing() -> Any:
        _context = copy_context()  # for ``context_in``
        try:
            return await coro
        except SystemExit as left:
            raise RuntimeError(f"the code called sys.exit({left.code!r})") from left

    return asyncio.Task(containing(), loop=loop, **given)


def collect_seldom(loop: asyncio.AbstractEventLoop) -> None:
    """Freeze the objects of the start, and collect garbage in full only now and then."""
    gc.set_threshold(*_GENERATIONS)
    gc.collect()
    gc.freeze()

    def again() -> None:
        gc.collect()
        loop.call_later(_COLLECT, again)

    loop.call_later(_COLLECT, again)
