"""How far a call of an MCP server is, for the stream of the graph: now and then, however often the server says it."""

import asyncio
from collections.abc import Callable
from contextvars import copy_context
from typing import Any

from langgraph.config import get_stream_writer

from stellwerk.envelope.canonical import clean_text

INTERVAL = 0.25
"""Seconds between two updates of a call; what comes faster replaces what has not been told yet."""
MOST_UPDATES = 200
"""Updates of a call; the last of them is kept for how it ends."""
_WORDS = 500


class Progress:
    """Called by the library from a task of its own; ``close`` it when the call is over."""

    def __init__(self, tool_call_id: str | None) -> None:
        self._tool_call_id = tool_call_id
        self._context, self._write = copy_context(), _writer()
        self._untold: dict[str, Any] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._told = 0

    async def __call__(self, progress: float, total: float | None, message: str | None) -> None:
        said = None if message is None else clean_text(message[:_WORDS])
        update = {"progress": progress, "total": total, "message": said, "tool_call_id": self._tool_call_id}
        self._untold = {name: value for name, value in update.items() if value is not None}
        if self._timer is None:
            self._tell()

    def close(self) -> None:
        """Tell what is left to tell."""
        if self._timer is not None:
            self._timer.cancel()
        if self._untold is not None:
            self._context.run(self._write, self._untold)

    def _tell(self) -> None:
        self._timer = None
        if self._untold is not None and self._told < MOST_UPDATES - 1:
            self._context.run(self._write, self._untold)
            self._untold = None
            self._told += 1
            self._timer = asyncio.get_running_loop().call_later(INTERVAL, self._tell)


def _writer() -> Callable[[Any], None]:
    try:
        return get_stream_writer()
    except (RuntimeError, KeyError):  # called outside of a graph: nobody listens
        return _unheard


def _unheard(update: Any) -> None:
    """What nobody listens to."""
