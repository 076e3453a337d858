"""A tool that fails does not end the run: the model hears the class and one line, the operator's log the whole."""

from langchain.agents.middleware import ToolCallRequest, ToolErrorMiddleware

from stellwerk.agents.middleware.kinds import Middleware
from stellwerk.errors import CorruptStore, Fenced, QuotaExceeded
from stellwerk.logs import get_logger

logger = get_logger(__name__)

_LONGEST = 500
ENDS_THE_RUN = (QuotaExceeded, Fenced, CorruptStore)
"""Not the tool's fault, and nothing that the model could do about it."""


def tool_errors(agent: str) -> Middleware:
    def told(error: Exception, request: ToolCallRequest) -> str | None:
        if isinstance(error, ENDS_THE_RUN):
            return None
        call = request.tool_call
        logger.warning("tool_raised", agent=agent, tool=call["name"], tool_call_id=call["id"], exc_info=error)
        return one_line(error)

    return ToolErrorMiddleware(told)


def one_line(error: Exception) -> str:
    text = " ".join(f"{type(error).__name__}: {error}".split()).removesuffix(":")
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
