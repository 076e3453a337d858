"""The client: a server, from Python and from the command line, over HTTP alone. Never imports the server itself."""

from importlib import import_module
from typing import Any

# Loaded when first asked for, as in the package above: the command line says --help without them.
_PUBLIC = {
    "Accepted": "stellwerk.client.answers",
    "Client": "stellwerk.client.client",
    "Event": "stellwerk.client.answers",
    "Problem": "stellwerk.client.problems",
    "Session": "stellwerk.client.answers",
    "Stopped": "stellwerk.client.answers",
    "Unreachable": "stellwerk.client.problems",
}

__all__ = [*sorted(_PUBLIC)]


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_PUBLIC[name]), name)
