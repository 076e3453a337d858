"""FinalPrompt: once enough tool results are there, the answer is asked for with another prompt and without tools."""

from typing import Any

from langchain.agents.middleware import AgentMiddleware
from langchain_core.messages import AIMessage, BaseMessage, SystemMessage, ToolMessage

from stellwerk.agents.middleware.conversation import since_input
from stellwerk.agents.middleware.kinds import Answer, AskModel, Request

FINAL = "stellwerk_final"
"""A tag of ours: tools that this model call asks for are not called."""
_CALLS = ("tool_calls", "function_call")


class FinalPrompt(AgentMiddleware[Any, Any, Any]):
    def __init__(self, prompt: str, *, after: int) -> None:
        super().__init__()
        self._prompt, self._after = SystemMessage(prompt), after

    async def awrap_model_call(self, request: Request, handler: AskModel) -> Answer:
        results = sum(isinstance(message, ToolMessage) for message in since_input(request.state["messages"]))
        if results < self._after:
            return await handler(request)
        final = request.model.model_copy(update={"tags": [*(request.model.tags or []), FINAL]})
        asked = request.override(model=final, system_message=self._prompt, tools=[], tool_choice=None)
        response = await handler(asked)
        response.result = [_without_calls(message) for message in response.result]
        return response


def _without_calls(message: BaseMessage) -> BaseMessage:
    """What a model says beside the tools that it was not offered; calls also stand in places of the providers' own."""
    if not isinstance(message, AIMessage) or not (message.tool_calls or message.invalid_tool_calls):
        return message
    rest = {key: value for key, value in message.additional_kwargs.items() if key not in _CALLS}
    return message.model_copy(
        update={
            "content": str(message.text),
            "tool_calls": [],
            "invalid_tool_calls": [],
            "additional_kwargs": rest,
        }
    )
