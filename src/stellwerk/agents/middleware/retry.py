"""ModelRetry: a failed model call is tried again, unless it has spoken: what was said cannot be unsaid."""

import asyncio
import random
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from http import HTTPStatus
from types import TracebackType
from typing import Any, Self, TypeVar

from langchain.agents.middleware import AgentMiddleware
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.language_models import BaseChatModel
from langchain_core.runnables.config import merge_configs
from langgraph.config import get_config
from langgraph.errors import GraphBubbleUp

from stellwerk.agents.middleware.kinds import Answer, AskModel, Request
from stellwerk.agents.middleware.speech import FirstWords, first_words
from stellwerk.errors import StellwerkError

T = TypeVar("T")
_FIRST, _LONGEST = 0.5, 8.0
_PASSING = {HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.CONFLICT, HTTPStatus.TOO_EARLY, HTTPStatus.TOO_MANY_REQUESTS}
"""Answers of the 4xx range that time may change; the others say that the request itself is wrong."""


@dataclass(frozen=True)
class Patience:
    """How often and how patiently a model is asked again."""

    retries: int
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    chance: Callable[[], float] = random.random

    async def ask(self, model: BaseChatModel, call: Callable[[BaseChatModel], Awaitable[T]]) -> T:
        """The first result of ``call``; after the last failure its error, as it was raised."""
        for attempt in range(self.retries):
            with (ear := _ear()):
                return await call(ear.put_on(model))
            await self.sleep(self.delay(attempt))
        return await call(model)

    def delay(self, attempt: int) -> float:
        """Doubled each time, and spread, so that many runs do not come back at once."""
        return float(min(_FIRST * 2**attempt, _LONGEST) * (0.5 + self.chance() / 2))


class ModelRetry(AgentMiddleware[Any, Any, Any]):
    def __init__(self, patience: Patience) -> None:
        super().__init__()
        self._patience = patience

    async def awrap_model_call(self, request: Request, handler: AskModel) -> Answer:
        return await self._patience.ask(request.model, lambda model: handler(request.override(model=model)))


class _Forgiving(ABC):
    """Swallows the error of a model call that has not begun to speak, if it is worth another try."""

    @abstractmethod
    def spoke(self) -> bool: ...

    def put_on(self, model: BaseChatModel) -> BaseChatModel:
        return model

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        return error is not None and not self.spoke() and passing(error)


class _Asking(_Forgiving):
    """Asks whoever listens to the run."""

    def __init__(self, words: FirstWords) -> None:
        self._words, self._step = words, getattr(get_config().get("callbacks"), "parent_run_id", None)
        self._before = words[self._step]

    def spoke(self) -> bool:
        return self._words[self._step] > self._before


class _Overhearing(_Forgiving, BaseCallbackHandler):
    """Listens itself, where nobody else does: the graph was not run by a RunnableAgent."""

    run_inline = True

    def __init__(self) -> None:
        self._spoke = False

    def spoke(self) -> bool:
        return self._spoke

    def put_on(self, model: BaseChatModel) -> BaseChatModel:
        listeners = merge_configs({"callbacks": model.callbacks}, {"callbacks": [self]})["callbacks"]
        return model.model_copy(update={"callbacks": listeners})

    def on_llm_new_token(self, token: str | list[str | dict[str, Any]] = "", **kwargs: Any) -> None:
        self._spoke = self._spoke or bool(token)


def _ear() -> _Forgiving:
    words = first_words()
    return _Overhearing() if words is None else _Asking(words)


def passing(error: BaseException) -> bool:
    """Whether the same call may succeed a moment later."""
    if not isinstance(error, Exception) or isinstance(error, GraphBubbleUp | StellwerkError):
        return False
    status = getattr(error, "status_code", None)
    return not isinstance(status, int) or status >= HTTPStatus.INTERNAL_SERVER_ERROR or status in _PASSING
