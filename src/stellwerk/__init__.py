"""Stellwerk: keep your LangGraph graph, delete your streaming code."""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

# Loaded when first asked for: a command that needs none of them starts in a blink.
_PUBLIC = {
    "AgentConfig": "stellwerk.spec.model",
    "AgentFactory": "stellwerk.agents.factory",
    "AgentSystem": "stellwerk.spec.model",
    "ChatMessage": "stellwerk.spec.chat",
    "Client": "stellwerk.client.client",
    "CompleteAgent": "stellwerk.spec.model",
    "CustomStateShared": "stellwerk.agents.state",
    "Envelope": "stellwerk.envelope.model",
    "RunnableAgent": "stellwerk.agents.runnable",
    "StreamAdapter": "stellwerk.stream.adapter",
    "StreamChunk": "stellwerk.envelope.chunk",
    "ToolResult": "stellwerk.envelope.results",
    "ToolSchema": "stellwerk.spec.model",
    "create_app": "stellwerk.app",
    "data_folder": "stellwerk.agents.data_folder",
    "opened": "stellwerk.api.embedding",
    "tool": "stellwerk.agents.tool_spec",
}

__all__ = [*sorted(_PUBLIC)]


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_PUBLIC[name]), name)
