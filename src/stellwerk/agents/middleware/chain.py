"""Chain: several layers around the same calls, as one middleware.

LangChain puts tracing around every middleware, a task and two copies of the context for each call, also when nobody
traces. For layers as thin as ours that costs more than what they do.
"""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

from langchain.agents.middleware import AgentMiddleware, ModelResponse, ToolCallRequest
from langchain_core.messages import AIMessage

from stellwerk.agents.middleware.kinds import Answer, AskModel, Middleware, Request, ToolOutcome

AskTool = Callable[[ToolCallRequest], Awaitable[ToolOutcome]]


class Chain(AgentMiddleware[Any, Any, Any]):
    """Calls its layers one inside the other, the first one outermost.

    For layers that wrap calls and nothing else: no nodes, no tools, no state of their own, no commands.
    """

    def __init__(self, layers: Sequence[Middleware], *, name: str) -> None:
        super().__init__()
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

    async def awrap_tool_call(self, request: ToolCallRequest, handler: AskTool) -> ToolOutcome:
        for layer in reversed(self._around_tool):
            handler = partial(layer.awrap_tool_call, handler=handler)
        return await handler(request)


async def _answered(layer: Middleware, handler: AskModel, request: Request) -> ModelResponse[Any]:
    answer = await layer.awrap_model_call(request, handler)
    if isinstance(answer, AIMessage):  # a layer may answer in the model's place
        return ModelResponse(result=[answer])
    if not isinstance(answer, ModelResponse):
        raise TypeError(f"{layer.name} changes the state, so it cannot be part of a chain")
    return answer


def _overrides(layer: Middleware, hook: str) -> bool:
    return getattr(type(layer), hook) is not getattr(AgentMiddleware, hook)
