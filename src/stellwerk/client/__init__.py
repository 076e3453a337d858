"""HTTP client of a server, for Python and the command line. Never imports the server itself."""

from stellwerk import loaded_when_asked_for

# Imported on first use, so that `--help` does not load them.
_PUBLIC = {
    "Accepted": "stellwerk.client.responses",
    "Client": "stellwerk.client.client",
    "Event": "stellwerk.client.responses",
    "Problem": "stellwerk.client.responses",
    "Session": "stellwerk.client.responses",
    "Stopped": "stellwerk.client.responses",
    "Unreachable": "stellwerk.client.responses",
}

__all__ = [*sorted(_PUBLIC)]
__getattr__ = loaded_when_asked_for(__name__, _PUBLIC)
