"""Changes to the model request: final prompt, results of dangling tool calls, images, aliases."""

from collections.abc import Mapping
from typing import Any

from langchain.agents.middleware import AgentMiddleware
from langchain_core.messages import AIMessage, BaseMessage, SystemMessage, ToolMessage

from stellwerk.agents.middleware.types import Answer, AskModel, Request
from stellwerk.agents.runtime.conversation import since_input, with_missing_results
from stellwerk.agents.runtime.images import takes_images, with_images
from stellwerk.agents.runtime.shapes import FINAL
from stellwerk.spec.model import AgentConfig

_NO_RESULT = "{} did not complete: the run was stopped."
_CALLS = ("tool_calls", "function_call")


def prompt_of(config: AgentConfig) -> str:
    """The system prompt, followed by the mission; empty if there is neither."""
    parts = [config.system_prompt, f"# Mission\n\n{config.mission}" if config.mission else ""]
    return "\n\n".join(part for part in parts if part)


class FinalPrompt(AgentMiddleware[Any, Any, Any]):
    """After enough tool results, requests the answer with another prompt and without tools."""

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
    """The message without tool calls, also in provider-specific fields; no tools were offered."""
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


class DanglingToolCalls(AgentMiddleware[Any, Any, Any]):
    """A stopped run leaves tool calls without results, and providers reject such a conversation.

    Each gets an error result in the model request. The state keeps what happened.
    """

    async def awrap_model_call(self, request: Request, handler: AskModel) -> Answer:
        messages = list(with_missing_results(request.messages, _NO_RESULT, unnamed="The tool"))
        return await handler(request.override(messages=messages))


class Images(AgentMiddleware[Any, Any, Any]):
    """Inserts the images of which the messages hold references."""

    async def awrap_model_call(self, request: Request, handler: AskModel) -> Answer:
        # An earlier version of the system may have had a model that takes images.
        if takes_images(request.model):
            request = request.override(messages=await with_images(request.messages))
        return await handler(request)


class Aliases(AgentMiddleware[Any, Any, Any]):
    """Replaces aliases of tools in tool calls by the tools' names."""

    def __init__(self, names: Mapping[str, str]) -> None:
        super().__init__()
        self._names = names

    async def awrap_model_call(self, request: Request, handler: AskModel) -> Answer:
        response = await handler(request)
        response.result = [self._named(message) for message in response.result]
        return response

    def _named(self, message: BaseMessage) -> BaseMessage:
        requested = message.tool_calls if isinstance(message, AIMessage) else []
        if not any(call["name"] in self._names for call in requested):
            return message
        calls = [{**call, "name": self._names.get(call["name"], call["name"])} for call in requested]
        return message.model_copy(update={"tool_calls": calls})
