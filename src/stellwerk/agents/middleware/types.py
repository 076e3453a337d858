"""Types of LangChain's middleware hooks."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from langchain.agents.middleware import (
    AgentMiddleware,
    ExtendedModelResponse,
    ModelRequest,
    ModelResponse,
    ToolCallRequest,
)
from langchain_core.messages import AIMessage, ToolMessage
from langgraph.types import Command

from stellwerk.agents.runtime.conversation import with_notes

Middleware = AgentMiddleware[Any, Any, Any]
Request = ModelRequest[Any]
AskModel = Callable[[Request], Awaitable[ModelResponse[Any]]]
Answer = ModelResponse[Any] | AIMessage | ExtendedModelResponse[Any]
ToolOutcome = ToolMessage | Command[Any]
"""A command if the tool changes more of the state than the conversation."""
AskTool = Callable[[ToolCallRequest], Awaitable[ToolOutcome]]


def outcome_with_notes(outcome: ToolOutcome, **notes: Any) -> ToolOutcome:
    """The outcome of a tool with notes on its message, which may be inside a command."""
    if isinstance(outcome, ToolMessage):
        return with_notes(outcome, **notes)
    match outcome:
        case Command(update={"messages": [*others, ToolMessage() as result], **rest}):
            return replace(outcome, update={**rest, "messages": [*others, with_notes(result, **notes)]})
        case _:
            return outcome
