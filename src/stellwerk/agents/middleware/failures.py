"""Failures of calls: models are retried; tool errors and timeouts go to the model; runs go on.

A failed model call is tried again with backoff, unless it has streamed a token. Of a tool error the
model gets one line, the operator's log the whole error.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, TypeVar

from langchain.agents.middleware import AgentMiddleware, ToolCallRequest, ToolErrorMiddleware
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import ToolMessage
from langchain_core.runnables.config import RunnableConfig, merge_configs, var_child_runnable_config
from langgraph.errors import GraphBubbleUp

from stellwerk.agents.middleware.types import Answer, AskModel, AskTool, Middleware, Request, ToolOutcome
from stellwerk.agents.runtime.callback_handler import RunCallbackHandler
from stellwerk.agents.runtime.conversation import names_of
from stellwerk.errors import CorruptStore, Fenced, QuotaExceeded, StellwerkError
from stellwerk.logs import get_logger

logger = get_logger(__name__)

T = TypeVar("T")
_FIRST_DELAY, _LONGEST_DELAY = 0.5, 8.0
_TRANSIENT = {HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.CONFLICT, HTTPStatus.TOO_EARLY, HTTPStatus.TOO_MANY_REQUESTS}
"""4xx statuses that time may change; the others mean that the request itself is wrong."""
_LONGEST_TEXT = 500
ENDS_THE_RUN = (QuotaExceeded, Fenced, CorruptStore)
"""Errors that are not the tool's, and that the model cannot handle."""


@dataclass(frozen=True)
class RetryPolicy:
    """How often, and after which delays, a model call is retried."""

    retries: int
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    chance: Callable[[], float] = random.random

    async def ask(self, call: Callable[[], Awaitable[T]]) -> T:
        """The first result of ``call``; after the last failure its error, as it was raised."""
        for attempt in range(self.retries):
            with _watched() as has_streamed:
                try:
                    return await call()
                except Exception as error:
                    if has_streamed() or not is_transient(error):
                        raise
            await self.sleep(self.delay(attempt))
        return await call()

    def delay(self, attempt: int) -> float:
        """Exponential backoff with jitter, so that many runs do not retry at once."""
        return float(min(_FIRST_DELAY * 2**attempt, _LONGEST_DELAY) * (0.5 + self.chance() / 2))


class ModelRetry(AgentMiddleware[Any, Any, Any]):
    def __init__(self, retry_policy: RetryPolicy) -> None:
        super().__init__()
        self._retry_policy = retry_policy

    async def awrap_model_call(self, request: Request, handler: AskModel) -> Answer:
        return await self._retry_policy.ask(lambda: handler(request))


class _FirstToken(BaseCallbackHandler):
    """Notices the first token of a model call in a graph that no RunnableAgent runs."""

    run_inline = True

    def __init__(self) -> None:
        self.seen = False

    def on_llm_new_token(self, token: str | list[str | dict[str, Any]] = "", **kwargs: Any) -> None:
        self.seen = self.seen or bool(token)


@contextmanager
def _watched() -> Iterator[Callable[[], bool]]:
    """Whether the model call within the block has streamed a token by now."""
    config = var_child_runnable_config.get() or RunnableConfig()
    callbacks = config.get("callbacks")
    handlers = getattr(callbacks, "handlers", ())
    own = next((each for each in handlers if isinstance(each, RunCallbackHandler)), None)
    if own is not None:
        counted, step = own.first_tokens, getattr(callbacks, "parent_run_id", None)
        before = counted[step]
        yield lambda: counted[step] > before
        return
    first = _FirstToken()
    merged = merge_configs({"callbacks": callbacks}, {"callbacks": [first]})["callbacks"]
    token = var_child_runnable_config.set({**config, "callbacks": merged})
    try:
        yield lambda: first.seen
    finally:
        var_child_runnable_config.reset(token)


def is_transient(error: Exception) -> bool:
    """Whether the same call may succeed a moment later."""
    if isinstance(error, GraphBubbleUp | StellwerkError):
        return False
    status = getattr(error, "status_code", None)
    return not isinstance(status, int) or status >= HTTPStatus.INTERNAL_SERVER_ERROR or status in _TRANSIENT


def tool_errors(agent: str) -> Middleware:
    def report(error: Exception, request: ToolCallRequest) -> str | None:
        if isinstance(error, ENDS_THE_RUN):
            return None
        call = request.tool_call
        logger.warning("tool_raised", agent=agent, tool=call["name"], tool_call_id=call["id"], exc_info=error)
        return one_line(error)

    return ToolErrorMiddleware(report)


def one_line(error: Exception) -> str:
    text = " ".join(f"{type(error).__name__}: {error}".split()).removesuffix(":")
    return text if len(text) <= _LONGEST_TEXT else text[: _LONGEST_TEXT - 1] + "…"


class ToolTimeouts(AgentMiddleware[Any, Any, Any]):
    """Cancels slow tool calls. Blocked threads cannot be cancelled: such tools run in processes."""

    def __init__(self, of_all: float | None, of_each: Mapping[str, float]) -> None:
        super().__init__()
        self._of_all, self._of_each = of_all, of_each

    async def awrap_tool_call(self, request: ToolCallRequest, handler: AskTool) -> ToolOutcome:
        # The sub-agent behind a call is last, and its own rule has precedence.
        *_, name = names = names_of(request.tool_call)
        limits = [self._of_each[known] for known in reversed(names) if known in self._of_each]
        seconds = limits[0] if limits else self._of_all
        cut = asyncio.timeout(seconds)
        try:
            async with cut:
                return await handler(request)
        except TimeoutError:
            if not cut.expired():  # the tool's own
                raise
            said = f"{name} was cut off after {seconds:g} seconds; it may have done part of its work"
            call = request.tool_call
            return ToolMessage(said, tool_call_id=call["id"] or "", name=call["name"], status="error")
