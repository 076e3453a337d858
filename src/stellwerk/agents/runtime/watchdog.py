"""Watchdog of the event loop: logs which graph and node block it.

An ``async def`` node that calls ``time.sleep``, a synchronous client or a long computation blocks the
loop, and with it every session. A thread asks the loop for an answer now and then; if none comes in
time, it looks at what the loop's own thread is running.
"""

import asyncio
import sys
import sysconfig
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import Context
from pathlib import Path
from types import FrameType
from typing import Any

from langchain_core.runnables.config import var_child_runnable_config

import stellwerk
from stellwerk.agents.runtime.context import run_context_in
from stellwerk.logs import get_logger
from stellwerk.threads import context_in

logger = get_logger(__name__)

LOOP_BLOCKED = "loop_blocked"
_REMEDY = "await an async client, or asyncio.to_thread(…), or make the node or tool a plain def"
_LIBRARIES = (
    *(sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")),
    *stellwerk.__path__,
    "<",
)


@contextmanager
def watched_loop(after: float) -> Iterator[None]:
    """Watch the running loop inside the block; one that is blocked for ``after`` seconds is logged once."""
    watchdog = _Watchdog(asyncio.get_running_loop(), after)
    thread = threading.Thread(target=watchdog.watch, name="loop-watchdog", daemon=True)
    thread.start()
    try:
        yield
    finally:
        watchdog.over.set()


class _Watchdog:
    """Create it on the loop that it watches."""

    def __init__(self, loop: asyncio.AbstractEventLoop, after: float) -> None:
        self._loop, self._after = loop, after
        self._thread = threading.get_ident()
        self.over = threading.Event()

    def watch(self) -> None:
        while not self.over.wait(self._after / 4):
            answered = threading.Event()
            try:
                self._loop.call_soon_threadsafe(answered.set)
            except RuntimeError:  # the loop is closed
                return
            if answered.wait(self._after) or self.over.is_set():
                continue
            self._log()
            while not answered.wait(self._after) and not self.over.is_set():
                pass  # the same incident

    def _log(self) -> None:
        frame = sys._current_frames().get(self._thread)
        logger.warning(LOOP_BLOCKED, seconds=self._after, **_step(self._loop, frame), **_place(frame), remedy=_REMEDY)


def _step(loop: asyncio.AbstractEventLoop, frame: FrameType | None) -> dict[str, Any]:
    """System, node and session of the innermost step that runs now; empty if it is not in a graph."""
    context = _running_context(loop, frame)
    if context is None:
        return {}
    run = run_context_in(context)
    config = context.get(var_child_runnable_config) or {}
    space = str((config.get("metadata") or {}).get("langgraph_checkpoint_ns", ""))
    found = {"system": run.system, "session": run.documents.session_id if run.documents else None}
    # A namespace has the nodes from the outermost to the innermost, each with the id of its task.
    found["node"] = " > ".join(part.partition(":")[0] for part in space.split("|"))
    return {name: value for name, value in found.items() if value}


def _running_context(loop: asyncio.AbstractEventLoop, frame: FrameType | None) -> Context | None:
    if (found := context_in(frame)) is not None:
        return found
    task = asyncio.current_task(loop)
    get_context = getattr(task, "get_context", None)  # from Python 3.12 on
    return None if get_context is None else get_context()


def _place(frame: FrameType | None) -> dict[str, str]:
    """The innermost line that is not in a library."""
    while frame is not None:
        if not frame.f_code.co_filename.startswith(_LIBRARIES):
            return {"place": f"{Path(frame.f_code.co_filename).name}, line {frame.f_lineno}"}
        frame = frame.f_back
    return {}
