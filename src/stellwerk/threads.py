"""Threads: some for the graphs of the operator's own, others for short work of the server itself.

LangChain runs every plain ``def`` node and tool in the event loop's default
executor. A thread cannot be ended: one whose run was stopped goes on for as
long as its function likes. ``RunThreads`` is that executor. It has a thread for
whatever comes, so that none of these keeps another waiting; what bounds them is
the number of runs, and of tasks in each. ``in_thread`` is for our own work: a
small pool of its own, which no graph can fill.
"""

import asyncio
import os
import threading
from collections.abc import Callable, Iterator, Sized
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from functools import partial
from typing import ParamSpec, TypeVar
from weakref import WeakSet

P = ParamSpec("P")
R = TypeVar("R")

_MOST = 100_000
"""More than any system lets a process have."""
_LONG = 16 * 1024
"""Characters or bytes whose search is worth a thread."""
_own = ThreadPoolExecutor(min(32, (os.cpu_count() or 1) + 4), "stellwerk")


async def in_thread(function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Short work of the server's own, in a thread and in the caller's context. It must wait for no other thread."""
    work = partial(copy_context().run, function, *args, **kwargs)
    return await asyncio.get_running_loop().run_in_executor(_own, work)


async def searched(text: Sized, search: Callable[[], R]) -> R:
    """What a search through a text gives: a long one takes its time, and the event loop goes on meanwhile."""
    return search() if len(text) < _LONG else await in_thread(search)


class RunWork:
    """What one run does in threads."""

    def __init__(self) -> None:
        self.threads = 0
        """At work now."""
        self.is_over = False


_work: ContextVar[RunWork | None] = ContextVar("stellwerk_run_work", default=None)
_all: WeakSet[RunWork] = WeakSet()
_counting = threading.Lock()


@contextmanager
def working(work: RunWork) -> Iterator[None]:
    """What goes to a thread in the block is work of this run. Threads that do not return before its end are left."""
    _all.add(work)
    token = _work.set(work)
    try:
        yield
    finally:
        work.is_over = True
        _work.reset(token)


def left() -> int:
    """Threads of this process that still work for a run that is over."""
    return sum(work.threads for work in list(_all) if work.is_over)


def counted(function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
    """Call the function in this thread, which counts as one of the run in whose context it is."""
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

    def __init__(self) -> None:
        super().__init__(_MOST, "run")

    def submit(self, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> "Future[R]":
        return super().submit(partial(copy_context().run, counted, fn, *args, **kwargs))

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Threads that are left are not waited for: they may never return."""
        super().shutdown(wait=wait and not left(), cancel_futures=cancel_futures)
