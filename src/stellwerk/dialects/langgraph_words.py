"""Words that both of LangGraph's streams have for what a graph's state does not hold."""

from typing import Any

import msgspec

from stellwerk.envelope.model import Document, Error, Log, State, Update, Warning
from stellwerk.envelope.payloads import Logged

MODEL, TOOLS, START = "model", "tools", "__start__"
"""Nodes, as LangChain's agents call them, where the log names none."""


def node_of(envelope: State | Update) -> str:
    """Which node changed the state."""
    return envelope.payload.node or envelope.agent or TOOLS


def custom(envelope: Document | Log | Warning | Error) -> tuple[str | None, Any] | None:
    """What goes to the custom stream, and its name; what a node wrote has none and goes as it was written."""
    match envelope:
        case Log(payload=logged):
            return None, _logged(logged)
        case Error(payload=problem) if problem.fatal:
            return None  # the end of the run says it
        case Document(payload=filed):
            return "document", msgspec.to_builtins(filed)
        case Warning(payload=problem):
            return "warning", msgspec.to_builtins(problem)
        case Error(payload=problem):
            return "error", msgspec.to_builtins(problem)


def _logged(logged: Logged) -> Any:
    if logged.data is not None:
        return logged.data
    more = msgspec.to_builtins(logged)
    return logged.message if more.keys() == {"message"} else more
