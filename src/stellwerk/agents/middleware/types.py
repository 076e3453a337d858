"""LangChain's middleware hooks: their types, and several layers as one middleware."""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, NotRequired

from langchain.agents import middleware
from langchain_core.messages import AIMessage, ToolMessage
from langgraph.types import Command

Middleware = middleware.AgentMiddleware[Any, Any, Any]
Request = middleware.ModelRequest[Any]
Response = middleware.ModelResponse[Any]
AskModel = Callable[[Request], Awaitable[Response]]
Answer = Response | AIMessage | middleware.ExtendedModelResponse[Any]
ToolRequest = middleware.ToolCallRequest
ToolOutcome = ToolMessage | Command[Any]
"""A command if the tool changes more of the state than the conversation."""
AskTool = Callable[[ToolRequest], Awaitable[ToolOutcome]]


class CustomStateShared(middleware.AgentState[Any]):
    """The state of an agent beside its conversation."""

    validated_agent_output: NotRequired[str]
    """The answer that validation accepted; empty while there is none for the current input."""


class CompositeMiddleware(Middleware):
    """Several layers around the same calls, the first one outermost.

    LangChain wraps every middleware in tracing, which costs a task and two copies of the context
    per call even when tracing is off. For layers as thin as ours that is more than their own work.
    The layers only wrap calls: they have no nodes, tools, state or commands.
    """

    def __init__(self, layers: Sequence[Middleware], *, name: str) -> None:
        self.layers, self._name = tuple(layers), name
        self._around_model = [layer for layer in layers if _overrides(layer, "awrap_model_call")]
        self._around_tool = [layer for layer in layers if _overrides(layer, "awrap_tool_call")]

    @property
    def name(self) -> str:
        return self._name

    async def awrap_model_call(self, request: Request, handler: AskModel) -> Answer:
        for layer in reversed(self._around_model):
            handler = partial(_answered, layer, handler)
        return await handler(request)

    async def awrap_tool_call(self, request: ToolRequest, handler: AskTool) -> ToolOutcome:
        for layer in reversed(self._around_tool):
            handler = partial(layer.awrap_tool_call, handler=handler)
        return await handler(request)


async def _answered(layer: Middleware, handler: AskModel, request: Request) -> Response:
    answer = await layer.awrap_model_call(request, handler)
    if isinstance(answer, AIMessage):  # a layer may answer instead of the model
        return middleware.ModelResponse(result=[answer])
    if not isinstance(answer, middleware.ModelResponse):
        raise TypeError(f"{layer.name} changes the state, so it cannot be part of a chain")
    return answer


def _overrides(layer: Middleware, hook: str) -> bool:
    return getattr(type(layer), hook) is not getattr(middleware.AgentMiddleware, hook)
