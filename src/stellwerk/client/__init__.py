"""The client: a server, from Python and from the command line, over HTTP alone. Never imports the server itself."""

from stellwerk import loaded_when_asked_for

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
__getattr__ = loaded_when_asked_for(__name__, _PUBLIC)
