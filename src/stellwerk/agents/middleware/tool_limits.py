"""ToolLimits: so many tool calls for one input, of all tools and of single ones.

LangChain's own limit keeps its count for one input outside the checkpoint, so an approval in between would reset it,
and two of them answer the same call twice, which providers refuse. Here the count follows from the conversation.
"""

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from langchain.agents.middleware import AgentMiddleware, ToolCallRequest
from langchain_core.messages import ToolCall, ToolMessage

from stellwerk.agents.middleware.conversation import calls_of, since_input
from stellwerk.agents.middleware.kinds import ToolOutcome


class ToolLimits(AgentMiddleware[Any, Any, Any]):
    def __init__(self, of_all: int | None, of_each: Mapping[str, int]) -> None:
        super().__init__()
        self._of_all, self._of_each = of_all, of_each

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[ToolOutcome]]
    ) -> ToolOutcome:
        call = request.tool_call
        asked = calls_of(since_input(request.state["messages"]))
        refusals = refused(asked, self._of_all, self._of_each)
        # Ids may repeat over rounds; the call that runs now is the last of its id.
        why = next(
            (why for other, why in reversed(list(zip(asked, refusals, strict=True))) if other["id"] == call["id"]), None
        )
        if why is None:
            return await handler(request)
        return ToolMessage(why, tool_call_id=call["id"] or "", name=call["name"], status="error")


def refused(calls: Sequence[ToolCall], of_all: int | None, of_each: Mapping[str, int]) -> list[str | None]:
    """For each call in order why it may not run, or None; a refused call uses nothing up."""
    ran: Counter[str] = Counter()
    verdicts: list[str | None] = []
    for call in calls:
        limit = of_each.get(call["name"])
        why = None
        if limit is not None and ran[call["name"]] >= limit:
            why = f"Refused: {call['name']} may be called {limit} times for one message. Do not call it again."
        elif of_all is not None and ran.total() >= of_all:
            why = f"Refused: {of_all} tool calls are allowed for one message. Answer with what you have."
        else:
            ran[call["name"]] += 1
        verdicts.append(why)
    return verdicts
