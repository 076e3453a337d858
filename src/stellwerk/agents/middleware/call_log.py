"""Call log: a structured line per model and tool call: agent, duration, outcome, never content."""

import time
from types import TracebackType
from typing import Any

from langchain.agents.middleware import AgentMiddleware, ToolCallRequest
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage, ToolMessage
from langgraph.config import get_config
from langgraph.errors import GraphBubbleUp, GraphDrained

from stellwerk.agents.middleware.types import Answer, AskModel, AskTool, Request, ToolOutcome
from stellwerk.logs import get_logger

logger = get_logger(__name__)


class CallLogEntry:
    """The log line of one call, written when the call ends."""

    def __init__(self, event: str, **known: Any) -> None:
        self._event, self._known, self._began = event, known, 0.0
        self.status = "ok"

    def tokens(self, *messages: BaseMessage) -> None:
        for message in messages:
            if usage := getattr(message, "usage_metadata", None):
                self._known |= {"input_tokens": usage["input_tokens"], "output_tokens": usage["output_tokens"]}

    def __enter__(self) -> "CallLogEntry":
        self._began = time.monotonic()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None and issubclass(kind, GraphDrained):
            self.status = "paused"  # by a shutdown; the call continues after the next start
        elif kind is not None and issubclass(kind, GraphBubbleUp):
            self.status = "waiting"  # for the user
        elif kind is not None:
            self.status = "error"
            self._known |= {"error": kind.__name__}
        session = get_config().get("configurable", {}).get("thread_id")
        took = round((time.monotonic() - self._began) * 1000, 1)
        logger.info(self._event, session=session, **self._known, ms=took, status=self.status)


def model_call_entry(agent: str, model: BaseChatModel) -> CallLogEntry:
    name = getattr(model, "model", None) or getattr(model, "model_name", None) or model._llm_type
    return CallLogEntry("model_call", agent=agent, model=str(name))


class CallLog(AgentMiddleware[Any, Any, Any]):
    def __init__(self, agent: str) -> None:
        super().__init__()
        self._agent = agent

    async def awrap_model_call(self, request: Request, handler: AskModel) -> Answer:
        with model_call_entry(self._agent, request.model) as line:
            response = await handler(request)
            line.tokens(*response.result)
        return response

    async def awrap_tool_call(self, request: ToolCallRequest, handler: AskTool) -> ToolOutcome:
        call = request.tool_call
        with CallLogEntry("tool_call", agent=self._agent, tool=call["name"], tool_call_id=call["id"]) as line:
            outcome = await handler(request)
            if isinstance(outcome, ToolMessage):
                line.status = "ok" if outcome.status == "success" else "error"
        return outcome
