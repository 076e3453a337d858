"""ToolTimeout: a tool that takes too long costs one tool error; the model hears which tool and how long."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from langchain.agents.middleware import AgentMiddleware, ToolCallRequest
from langchain_core.messages import ToolMessage

from stellwerk.agents.middleware.conversation import names_of
from stellwerk.agents.middleware.kinds import ToolOutcome


class ToolTimeout(AgentMiddleware[Any, Any, Any]):
    """Cancels the call. A tool that blocks a thread goes on unseen, so those run in processes of their own."""

    def __init__(self, of_all: float | None, of_each: Mapping[str, float]) -> None:
        super().__init__()
        self._of_all, self._of_each = of_all, of_each

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[ToolOutcome]]
    ) -> ToolOutcome:
        # The sub-agent behind a call is named last, and is what a rule for it means.
        *_, name = names = names_of(request.tool_call)
        seconds = next((self._of_each[known] for known in reversed(names) if known in self._of_each), self._of_all)
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
