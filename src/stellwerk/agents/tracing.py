"""LangSmith's tracing, which LangChain wraps around every middleware: free of charge as long as nobody traces."""

from collections.abc import Awaitable, Callable
from contextvars import Context
from typing import Any

import langsmith
from langsmith.utils import tracing_is_enabled


def trace_in_place() -> None:
    """Without tracing there is nothing to do on another thread; going there costs more than the middleware does."""
    langsmith.set_runtime_overrides(aio_to_thread=_in_place)


async def _in_place(
    default: Callable[..., Awaitable[Any]], context: Context, function: Callable[..., Any], /, *args: Any, **kwargs: Any
) -> Any:
    if tracing_is_enabled():
        return await default(context, function, *args, **kwargs)
    return context.run(function, *args, **kwargs)
