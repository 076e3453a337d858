"""Write-ahead of tool calls: a tool starts only after its start is stored in the log.

A crash can therefore never hide that a tool had started. A node that must not be repeated starts only
after the checkpoint before it is stored, which names it as the next node. LangChain calls the handler where the tool
is called: on the event loop, where it is awaited, or in the thread of a synchronous tool or node,
which blocks meanwhile. The same handler refuses model calls beyond a quota.
"""

import asyncio
import threading
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import CancelledError, Future, wait
from contextlib import contextmanager
from typing import Any

from stellwerk.agents.runtime.callback_handler import LoopCallbacks
from stellwerk.agents.runtime.context import Journal, RunContext, run_context
from stellwerk.agents.runtime.shapes import agent_behind
from stellwerk.agents.tools.spec import ARTIFACT_KEY
from stellwerk.logs import get_logger

logger = get_logger(__name__)

_TOO_LATE = "the run is over, nothing more is begun in it"


@contextmanager
def call_gate(
    idempotent_tools: Collection[str] = (), non_idempotent_nodes: Collection[str] = ()
) -> Iterator[list[LoopCallbacks]]:
    """The callbacks to add behind the run's own callback handler; none outside of a server.

    ``idempotent_tools`` start at once, like tools that are declared idempotent themselves.
    """
    context = run_context()
    if context.journal is None and context.usage is None:
        yield []
        return
    gate = _CallGate(context, idempotent_tools)
    gates: list[LoopCallbacks] = [gate]
    if context.journal is not None and non_idempotent_nodes:
        gates.append(_NodeGate(context.journal, non_idempotent_nodes))
    try:
        yield gates
    finally:
        gate.close()


class _CallGate(LoopCallbacks):
    """Delays non-idempotent tool calls until all facts are stored, and refuses model calls.

    A model call beyond a quota is refused here, behind all other handlers: LangChain creates a
    coroutine for each handler first, and an exception leaves the later ones never awaited. The gate
    gets no tokens.
    """

    ignore_llm = ignore_chain = ignore_retriever = ignore_retry = ignore_custom_event = True

    def __init__(self, context: RunContext, idempotent_tools: Collection[str]) -> None:
        super().__init__()
        self._idempotent_tools = idempotent_tools
        self._journal = context.journal
        self._timeout = context.timings.blocked_loop
        self._held: set[Future[None]] = set()
        self._over = False
        self._loop_answered = threading.Event()
        self._loop_answered.set()
        self._deadline = 0.0

    def on_chat_model_start(self, *_given: Any, **_about: Any) -> None:
        self._count_step()

    def close(self) -> None:
        """The run is over: release every blocked thread without starting its tool."""
        self._over = True
        for waiting in list(self._held):
            waiting.cancel()

    @property
    def on_tool_start(self) -> Callable[..., Any]:
        """LangChain awaits this on the loop only; in a thread it would swallow exceptions."""
        return self._awaited if threading.get_ident() == self._thread else self._in_thread

    async def _awaited(self, serialized: dict[str, Any] | None, _given: str, **about: Any) -> None:
        # On another loop: a synchronous tool was called on ours, blocked until the tool returns.
        journal = self._journal
        if journal and self._must_wait(serialized, about) and asyncio.get_running_loop() is self._loop:
            await journal.stored()
            if self._over:
                raise RuntimeError(_TOO_LATE)

    def _in_thread(self, serialized: dict[str, Any] | None, _given: str, **about: Any) -> None:
        if self._journal is None or not self._must_wait(serialized, about):
            return
        waiting = asyncio.run_coroutine_threadsafe(self._journal.stored(), self._loop)
        self._held.add(waiting)
        if self._over:
            waiting.cancel()
        try:
            while not waiting.done() and self._loop_runs():
                wait([waiting], self._timeout)
            if waiting.done():
                waiting.result()
            else:
                tool = (serialized or {}).get("name")
                logger.warning("loop_stands_still", tool=tool, seconds=self._timeout)
        except CancelledError:
            raise RuntimeError(_TOO_LATE) from None
        finally:
            self._held.discard(waiting)

    def _loop_runs(self) -> bool:
        """Whether the loop responds. Threads share one probe, so timeouts do not add up."""
        if self._loop_answered.is_set():
            self._loop_answered = threading.Event()
            self._deadline = self._loop.time() + self._timeout
            self._loop.call_soon_threadsafe(self._loop_answered.set)
        return self._loop_answered.wait(max(0.0, self._deadline - self._loop.time()))

    def _must_wait(self, serialized: dict[str, Any] | None, about: dict[str, Any]) -> bool:
        """False for idempotent tools, and for agents, whose own tools are checked instead."""
        name = str((serialized or {}).get("name"))
        ours = (about.get("metadata") or {}).get(ARTIFACT_KEY) or {}
        agent, _ = agent_behind(name, about.get("inputs") or {}, ours)
        return agent is None and not ours.get("idempotent") and name not in self._idempotent_tools


class _NodeGate(LoopCallbacks):
    """Delays the outer graph's non-idempotent nodes until the checkpoint before them is stored.

    LangGraph waits for it itself, but for the first one of a run.
    """

    ignore_llm = ignore_chat_model = ignore_agent = ignore_retriever = ignore_retry = ignore_custom_event = True

    def __init__(self, journal: Journal, nodes: Collection[str]) -> None:
        super().__init__()
        self._journal = journal
        self._nodes = nodes

    @property
    def on_chain_start(self) -> Callable[..., Any]:
        """Nodes of the outer graph start on the loop."""
        return self._awaited if threading.get_ident() == self._thread else self._in_thread

    async def _awaited(self, _serialized: Any, _inputs: Any, *, name: str | None = None, **about: Any) -> None:
        metadata = about.get("metadata") or {}
        is_node = name == metadata.get("langgraph_node") and "|" not in str(metadata.get("langgraph_checkpoint_ns", ""))
        if is_node and name in self._nodes and asyncio.get_running_loop() is self._loop:
            await self._journal.stored()

    def _in_thread(self, *_given: Any, **_about: Any) -> None:
        return
