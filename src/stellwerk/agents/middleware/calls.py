"""Single calls: a log line each, retries of model calls, errors and timeouts of tool calls.

A failed model call is tried again with backoff, unless it has streamed a token. Of a tool error the
model gets one line, the operator's log the whole error. Log lines never have content.
"""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage, ToolMessage
from langchain_core.runnables.config import RunnableConfig, merge_configs, var_child_runnable_config
from langgraph.config import get_config
from langgraph.errors import GraphBubbleUp, GraphDrained

from stellwerk.agents.middleware.types import Answer, AskModel, AskTool, Middleware, Request, ToolOutcome, ToolRequest
from stellwerk.agents.runtime.callback_handler import RunCallbackHandler
from stellwerk.agents.runtime.conversation import names_of
from stellwerk.errors import CorruptStore, Fenced, QuotaExceeded, StellwerkError, StorageFull, StorageGone
from stellwerk.logs import get_logger

logger = get_logger(__name__)

T = TypeVar("T")
_FIRST_DELAY = 0.5
_LONGEST_DELAY = 8.0
_TRANSIENT = {408, 409, 425, 429}
"""4xx statuses that time may change: timeout, conflict, too early, too many requests."""
_LONGEST_TEXT = 500
ENDS_THE_RUN = (QuotaExceeded, Fenced, CorruptStore, StorageFull, StorageGone)
"""Errors that are not the tool's, and that the model cannot handle."""


class CallLogEntry:
    """The log line of one call, written when the call ends."""

    def __init__(self, event: str, **known: Any) -> None:
        self._event, self._known = event, known
        self._began = time.monotonic()
        self.status = "ok"

    def tokens(self, *messages: BaseMessage) -> None:
        for message in messages:
            if usage := getattr(message, "usage_metadata", None):
                self._known |= {key: usage[key] for key in ("input_tokens", "output_tokens")}

    def __enter__(self) -> "CallLogEntry":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_error: object) -> None:
        if kind is not None and issubclass(kind, GraphDrained):
            self.status = "paused"  # by a shutdown; the call continues after the next start
        elif kind is not None and issubclass(kind, GraphBubbleUp):
            self.status = "waiting"  # for the user
        elif kind is not None:
            self.status = "error"
            self._known["error"] = kind.__name__
        session = get_config().get("configurable", {}).get("thread_id")
        took = round((time.monotonic() - self._began) * 1000, 1)
        logger.info(self._event, session=session, **self._known, ms=took, status=self.status)


def model_call_entry(agent: str, model: BaseChatModel) -> CallLogEntry:
    name = getattr(model, "model", None) or getattr(model, "model_name", None) or model._llm_type
    return CallLogEntry("model_call", agent=agent, model=str(name))


@dataclass(eq=False)
class CallLog(Middleware):
    agent: str

    async def awrap_model_call(self, request: Request, handler: AskModel) -> Answer:
        with model_call_entry(self.agent, request.model) as line:
            response = await handler(request)
            line.tokens(*response.result)
        return response

    async def awrap_tool_call(self, request: ToolRequest, handler: AskTool) -> ToolOutcome:
        call = request.tool_call
        called = {"tool": call["name"], "tool_call_id": call["id"]}
        with CallLogEntry("tool_call", agent=self.agent, **called) as line:
            outcome = await handler(request)
            if isinstance(outcome, ToolMessage):
                line.status = "ok" if outcome.status == "success" else "error"
        return outcome


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


class _FirstToken(BaseCallbackHandler):
    """Notices the first token of a model call in a graph that no RunnableAgent runs."""

    run_inline = True
    seen = False

    def on_llm_new_token(self, token: str | list[str | dict[str, Any]] = "", **kwargs: Any) -> None:
        self.seen = self.seen or bool(token)


@contextmanager
def _watched() -> Iterator[Callable[[], bool]]:
    """Whether the model call within the block has streamed a token by now."""
    config = var_child_runnable_config.get() or RunnableConfig()
    callbacks: Any = config.get("callbacks")
    handlers = getattr(callbacks, "handlers", ())
    own = next((each for each in handlers if isinstance(each, RunCallbackHandler)), None)
    if own is not None:
        counted, step = own.first_tokens, callbacks.parent_run_id
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
    return not isinstance(status, int) or status >= 500 or status in _TRANSIENT


@dataclass(eq=False)
class ModelRetry(Middleware):
    retry_policy: RetryPolicy

    async def awrap_model_call(self, request: Request, handler: AskModel) -> Answer:
        return await self.retry_policy.ask(lambda: handler(request))


@dataclass(eq=False)
class ToolErrors(Middleware):
    """An exception of a tool goes to the model as its result, and to the log whole."""

    agent: str

    async def awrap_tool_call(self, request: ToolRequest, handler: AskTool) -> ToolOutcome:
        try:
            return await handler(request)
        except (GraphBubbleUp, *ENDS_THE_RUN):
            raise
        except Exception as error:
            call = request.tool_call
            called = {"tool": call["name"], "tool_call_id": call["id"]}
            logger.warning("tool_raised", agent=self.agent, **called, exc_info=error)
            return ToolMessage(one_line(error), tool_call_id=call["id"] or "", name=call["name"], status="error")


def one_line(error: Exception) -> str:
    text = " ".join(f"{type(error).__name__}: {error}".split()).removesuffix(":")
    return text if len(text) <= _LONGEST_TEXT else text[: _LONGEST_TEXT - 1] + "…"


@dataclass(eq=False)
class ToolTimeouts(Middleware):
    """Cancels slow tool calls. Blocked threads cannot be cancelled: such tools run in processes."""

    of_all: float | None
    of_each: Mapping[str, float]

    async def awrap_tool_call(self, request: ToolRequest, handler: AskTool) -> ToolOutcome:
        call = request.tool_call
        seconds = self.of_all
        for name in names_of(call):  # the rule for a sub-agent, named last, has precedence
            seconds = self.of_each.get(name, seconds)
        cut = asyncio.timeout(seconds)
        try:
            async with cut:
                return await handler(request)
        except TimeoutError:
            if not cut.expired():  # the tool's own
                raise
            said = f"{name} was cut off after {seconds:g} seconds; it may have done part of its work"
            return ToolMessage(said, tool_call_id=call["id"] or "", name=call["name"], status="error")
