"""Metering: where there are limits, every model and tool call of a run is asked for before it is made.

Our own agents ask in their middleware (``check``), before anything is told of a
call; for the graphs of others callbacks ask, at any depth, and count. Where
nothing is limited, the tap counts.
"""

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import AIMessage
from langchain_core.outputs import LLMResult

from stellwerk.tenants.ledger import Meter

_meter: ContextVar[Meter | None] = ContextVar("stellwerk_meter", default=None)


@contextmanager
def metering(meter: Meter) -> Iterator[None]:
    """Whatever agents do inside of the block is metered."""
    token = _meter.set(meter)
    try:
        with meter.running():
            yield
    finally:
        _meter.reset(token)


def check() -> None:
    """
    Raises:
        QuotaExceeded: the tenant, or the session, has used what it may; the run ends as failed.
    """
    if (meter := _meter.get()) is not None:
        meter.check()


def counted_alone() -> Meter | None:
    """The meter of a run in which nothing is limited: nobody asks, and whoever hears the calls anyway counts them."""
    meter = _meter.get()
    return None if meter is None or meter.limited else meter


def metered(*others: BaseCallbackHandler) -> list[BaseCallbackHandler]:
    """The callbacks of a graph, with those that ask for it, where there is a limit.

    A tool is refused before the others hear of it. A model after that: LangChain makes a coroutine for each of them
    first, and whoever raises leaves those behind him without an end. Nobody asks where nothing is limited: each one
    who hears of models hears of every token.
    """
    meter = _meter.get()
    return [*others] if meter is None or not meter.limited else [_Tools(meter), *others, _Models(meter)]


class _Tools(BaseCallbackHandler):
    run_inline = True
    raise_error = True
    ignore_llm = ignore_chat_model = ignore_chain = ignore_retriever = ignore_retry = ignore_custom_event = True

    def __init__(self, meter: Meter) -> None:
        self._meter = meter

    def on_tool_start(self, *_given: Any, **_about: Any) -> None:
        self._meter.check()


class _Models(BaseCallbackHandler):
    run_inline = True
    raise_error = True
    ignore_agent = ignore_chain = ignore_retriever = ignore_retry = ignore_custom_event = True

    def __init__(self, meter: Meter) -> None:
        self._meter = meter
        self._loop, self._thread = asyncio.get_running_loop(), threading.get_ident()

    def on_chat_model_start(self, *_given: Any, **_about: Any) -> None:
        self._meter.check()
        self._count(self._meter.step)

    def on_llm_start(self, *_given: Any, **_about: Any) -> None:
        self._meter.check()
        self._count(self._meter.step)

    def on_llm_end(self, response: LLMResult, **_about: Any) -> None:
        made = response.generations[0] if response.generations else []
        message = getattr(made[0], "message", None) if made else None
        if isinstance(message, AIMessage) and (usage := message.usage_metadata) is not None:
            self._count(self._meter.spend, usage["input_tokens"] + usage["output_tokens"])

    def _count(self, count: Callable[..., None], *amount: int) -> None:
        if threading.get_ident() == self._thread:
            count(*amount)
        else:  # a synchronous node or tool, on a thread of its own
            self._loop.call_soon_threadsafe(count, *amount)
