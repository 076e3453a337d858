"""HTTP client of a server, for Python and the command line. Never imports the server itself."""

from stellwerk.client.client import Client, Event, Problem, Unreachable
from stellwerk.client.responses import Accepted, Session, Stopped

__all__ = ["Accepted", "Client", "Event", "Problem", "Session", "Stopped", "Unreachable"]
