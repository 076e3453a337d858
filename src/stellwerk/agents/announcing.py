"""Announcing: no tool begins before the log has its start, whoever made the graph in which it is called.

Whatever a tool does after that, a crash cannot hide that it had begun. LangChain
calls a handler where the tool is called: on the event loop, where it is awaited,
or in the thread of a synchronous tool or node, which is held up meanwhile.
"""

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Future, wait
from contextlib import contextmanager
from typing import Any

from langchain_core.callbacks import BaseCallbackHandler

from stellwerk.agents.journal import Journal, current_journal
from stellwerk.agents.shapes import agent_behind
from stellwerk.agents.tools import ARTIFACT_KEY
from stellwerk.logs import get_logger

logger = get_logger(__name__)

_DEAF = 5.0
"""Seconds after which a thread takes it that the loop stands still, perhaps because it waits for this very thread."""
_TOO_LATE = "the run is over, nothing more is begun in it"


@contextmanager
def announcing() -> Iterator[list[BaseCallbackHandler]]:
    """What has to be among a graph's callbacks, behind whoever tells of its calls; nothing, if nothing is stored."""
    journal = current_journal()
    if journal is None:
        yield []
        return
    holding = _Holding(journal)
    try:
        yield [holding]
    finally:
        holding.close()


class _Holding(BaseCallbackHandler):
    """Holds up each tool call, unless it may be repeated, until all that was told so far is stored."""

    run_inline = True
    raise_error = True
    ignore_llm = ignore_chat_model = ignore_chain = ignore_retriever = ignore_retry = ignore_custom_event = True

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._loop, self._thread = asyncio.get_running_loop(), threading.get_ident()
        self._held: set[Future[None]] = set()
        self._over = False
        self._asked, self._deaf_at = threading.Event(), 0.0
        self._asked.set()

    def close(self) -> None:
        """Let go of every thread, without its tool: the run is over."""
        self._over = True
        for waiting in list(self._held):
            waiting.cancel()

    @property
    def on_tool_start(self) -> Callable[..., Any]:
        """LangChain awaits coroutine functions on the loop only; in a thread it would swallow what they raise."""
        return self._awaited if threading.get_ident() == self._thread else self._in_thread

    async def _awaited(self, serialized: dict[str, Any] | None, _given: str, **about: Any) -> None:
        # On another loop, somebody called a synchronous tool on ours, which stands still until it returns.
        if _must_wait(serialized, about) and asyncio.get_running_loop() is self._loop:
            await self._journal.stored()
            if self._over:
                raise RuntimeError(_TOO_LATE)

    def _in_thread(self, serialized: dict[str, Any] | None, _given: str, **about: Any) -> None:
        if not _must_wait(serialized, about):
            return
        waiting = asyncio.run_coroutine_threadsafe(self._journal.stored(), self._loop)
        self._held.add(waiting)
        if self._over:
            waiting.cancel()
        try:
            while not waiting.done() and self._is_heard():
                wait([waiting], _DEAF)
            if waiting.done():
                waiting.result()
            else:
                logger.warning("loop_stands_still", tool=(serialized or {}).get("name"), seconds=_DEAF)
        except CancelledError:
            raise RuntimeError(_TOO_LATE) from None
        finally:
            self._held.discard(waiting)

    def _is_heard(self) -> bool:
        """Whether the loop turns. Asked once for all threads, so that they do not wait one after the other."""
        if self._asked.is_set():
            self._asked, self._deaf_at = threading.Event(), self._loop.time() + _DEAF
            self._loop.call_soon_threadsafe(self._asked.set)
        return self._asked.wait(max(0.0, self._deaf_at - self._loop.time()))


def _must_wait(serialized: dict[str, Any] | None, about: dict[str, Any]) -> bool:
    """Not for a tool that may be called again, nor for an agent, which is judged by its own tools."""
    ours = (about.get("metadata") or {}).get(ARTIFACT_KEY) or {}
    agent, _ = agent_behind(str((serialized or {}).get("name")), about.get("inputs") or {}, ours)
    return agent is None and not ours.get("idempotent")
