"""The shapes that LangChain hands to middleware, named once."""

from collections.abc import Awaitable, Callable
from typing import Any

from langchain.agents.middleware import AgentMiddleware, ExtendedModelResponse, ModelRequest, ModelResponse
from langchain_core.messages import AIMessage, ToolMessage
from langgraph.types import Command

Middleware = AgentMiddleware[Any, Any, Any]
Request = ModelRequest[Any]
AskModel = Callable[[Request], Awaitable[ModelResponse[Any]]]
Answer = ModelResponse[Any] | AIMessage | ExtendedModelResponse[Any]
ToolOutcome = ToolMessage | Command[Any]
"""A tool that changes more of the state than the conversation gives a command."""
