"""Changes to the model request: final prompt, results of dangling tool calls, images, aliases."""

from collections.abc import Mapping
from dataclasses import dataclass

from langchain_core.messages import AIMessage, BaseMessage, SystemMessage, ToolMessage

from stellwerk.agents.middleware.types import Answer, AskModel, Middleware, Request
from stellwerk.agents.runtime.conversation import since_input, with_missing_results
from stellwerk.agents.runtime.images import NOTE, takes_images, with_images
from stellwerk.agents.runtime.shapes import FINAL

_NO_RESULT = "{} did not complete: the run was stopped."
_CALLS = ("tool_calls", "function_call")


@dataclass(eq=False)
class FinalPrompt(Middleware):
    """After enough tool results, requests the answer with another prompt and without tools."""

    prompt: str
    after: int

    async def awrap_model_call(self, request: Request, handler: AskModel) -> Answer:
        said = since_input(request.state["messages"])
        if sum(isinstance(message, ToolMessage) for message in said) < self.after:
            return await handler(request)
        model = request.model.model_copy(update={"tags": [*(request.model.tags or []), FINAL]})
        prompt = SystemMessage(self.prompt)
        final = request.override(model=model, system_message=prompt, tools=[], tool_choice=None)
        response = await handler(final)
        response.result = [_without_calls(message) for message in response.result]
        return response


def _without_calls(message: BaseMessage) -> BaseMessage:
    """The message without tool calls, also in provider-specific fields; no tools were offered."""
    if not isinstance(message, AIMessage) or not (message.tool_calls or message.invalid_tool_calls):
        return message
    rest = {key: value for key, value in message.additional_kwargs.items() if key not in _CALLS}
    no_calls = {"tool_calls": [], "invalid_tool_calls": [], "additional_kwargs": rest}
    return message.model_copy(update={"content": str(message.text), **no_calls})


class DanglingToolCalls(Middleware):
    """A stopped run leaves tool calls without results, and providers reject such a conversation.

    Each gets an error result in the model request. The state keeps what happened.
    """

    async def awrap_model_call(self, request: Request, handler: AskModel) -> Answer:
        messages = list(with_missing_results(request.messages, _NO_RESULT))
        return await handler(request.override(messages=messages))


class Images(Middleware):
    """Inserts the images of which the messages hold references."""

    async def awrap_model_call(self, request: Request, handler: AskModel) -> Answer:
        has_images = any(NOTE in message.response_metadata for message in request.messages)
        # An earlier version of the system may have had a model that takes images.
        if has_images and takes_images(request.model):
            request = request.override(messages=await with_images(request.messages))
        return await handler(request)


@dataclass(eq=False)
class Aliases(Middleware):
    """Replaces aliases of tools in tool calls by the tools' names."""

    names: Mapping[str, str]

    async def awrap_model_call(self, request: Request, handler: AskModel) -> Answer:
        response = await handler(request)
        response.result = [self._named(message) for message in response.result]
        return response

    def _named(self, message: BaseMessage) -> BaseMessage:
        requested = message.tool_calls if isinstance(message, AIMessage) else []
        if not any(call["name"] in self.names for call in requested):
            return message
        calls = [{**call, "name": self.names.get(call["name"], call["name"])} for call in requested]
        return message.model_copy(update={"tool_calls": calls})
