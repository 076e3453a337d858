"""Repair: a run that was stopped leaves tool calls without results, and providers refuse such a conversation.

Each gets a result that says so, in what the model is sent. The state keeps what happened.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from langchain.agents.middleware import AgentMiddleware
from langchain_core.messages import AIMessage, AnyMessage, ToolMessage

from stellwerk.agents.middleware.kinds import Answer, AskModel, Request


class Repair(AgentMiddleware[Any, Any, Any]):
    async def awrap_model_call(self, request: Request, handler: AskModel) -> Answer:
        return await handler(request.override(messages=list(repaired(request.messages))))


def repaired(messages: Sequence[AnyMessage]) -> Iterator[AnyMessage]:
    """The same conversation, in which every tool call has its result right behind the message that asked for it."""
    open_calls: dict[str, ToolMessage] = {}
    for message in messages:
        if isinstance(message, ToolMessage):
            open_calls.pop(message.tool_call_id, None)
        else:
            # Ids may repeat over rounds, so a result counts only up to whoever speaks next.
            yield from open_calls.values()
            open_calls = _results(message) if isinstance(message, AIMessage) else {}
        yield message
    yield from open_calls.values()


def _results(message: AIMessage) -> dict[str, ToolMessage]:
    asked = [(call["id"], call["name"]) for call in [*message.tool_calls, *message.invalid_tool_calls]]
    return {
        call_id: ToolMessage(
            f"{name or 'The tool'} did not complete: the run was stopped.",
            tool_call_id=call_id,
            name=name or "unknown",
            status="error",
        )
        for call_id, name in asked
        if call_id
    }
