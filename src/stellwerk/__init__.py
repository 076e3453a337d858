"""Stellwerk: keep your LangGraph graph, delete your streaming code."""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

__version__ = "0.1.0"

# Loaded when first asked for: a command that needs none of them starts in a blink.
_PUBLIC = {
    "AgentConfig": "stellwerk.spec.model",
    "AgentFactory": "stellwerk.agents.build.factory",
    "AgentSystem": "stellwerk.spec.model",
    "ChatMessage": "stellwerk.spec.model",
    "Client": "stellwerk.client.client",
    "CompleteAgent": "stellwerk.spec.model",
    "CustomStateShared": "stellwerk.agents.middleware.types",
    "Envelope": "stellwerk.envelope.model",
    "Principal": "stellwerk.tenants.principals",
    "RunnableAgent": "stellwerk.agents.runtime.runnable",
    "StreamAdapter": "stellwerk.stream.adapter",
    "StreamChunk": "stellwerk.envelope.chunk",
    "ToolResult": "stellwerk.envelope.results",
    "ToolSchema": "stellwerk.spec.model",
    "adapt": "stellwerk.agents.recorded.adapt",
    "create_app": "stellwerk.app",
    "data_folder": "stellwerk.agents.runtime.context",
    "event_line": "stellwerk.agents.recorded.adapt",
    "opened": "stellwerk.api.http.mounting",
    "tool": "stellwerk.agents.tools.spec",
}

__all__ = [*sorted(_PUBLIC)]


def loaded_when_asked_for(module: str, places: Mapping[str, str]) -> Callable[[str], Any]:
    """The ``__getattr__`` of a module whose names are defined in others: name by place."""

    def load(name: str) -> Any:
        if name not in places:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        return getattr(import_module(places[name]), name)

    return load


__getattr__ = loaded_when_asked_for(__name__, _PUBLIC)
