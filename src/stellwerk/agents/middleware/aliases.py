"""Aliases: a model may call a tool by any of its names."""

from collections.abc import Mapping
from typing import Any

from langchain.agents.middleware import AgentMiddleware
from langchain_core.messages import AIMessage, BaseMessage

from stellwerk.agents.middleware.kinds import Answer, AskModel, Request


class Aliases(AgentMiddleware[Any, Any, Any]):
    def __init__(self, names: Mapping[str, str]) -> None:
        super().__init__()
        self._names = names

    async def awrap_model_call(self, request: Request, handler: AskModel) -> Answer:
        response = await handler(request)
        response.result = [self._named(message) for message in response.result]
        return response

    def _named(self, message: BaseMessage) -> BaseMessage:
        if not isinstance(message, AIMessage) or not any(call["name"] in self._names for call in message.tool_calls):
            return message
        calls = [{**call, "name": self._names.get(call["name"], call["name"])} for call in message.tool_calls]
        return message.model_copy(update={"tool_calls": calls})
