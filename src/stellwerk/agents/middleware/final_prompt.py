"""FinalPrompt: once enough tool results are there, the answer is asked for with another prompt and without tools."""

from typing import Any

from langchain.agents.middleware import AgentMiddleware
from langchain_core.messages import SystemMessage, ToolMessage

from stellwerk.agents.middleware.conversation import since_input
from stellwerk.agents.middleware.kinds import Answer, AskModel, Request


class FinalPrompt(AgentMiddleware[Any, Any, Any]):
    def __init__(self, prompt: str, *, after: int) -> None:
        super().__init__()
        self._prompt, self._after = SystemMessage(prompt), after

    async def awrap_model_call(self, request: Request, handler: AskModel) -> Answer:
        results = sum(isinstance(message, ToolMessage) for message in since_input(request.state["messages"]))
        if results >= self._after:
            request = request.override(system_message=self._prompt, tools=[], tool_choice=None)
        return await handler(request)
