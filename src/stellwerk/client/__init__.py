"""HTTP client of a server, for Python and the command line. Never imports the server itself."""

from stellwerk.client.client import Accepted, Client, Event, Problem, Session, Stopped, Unreachable

__all__ = ["Accepted", "Client", "Event", "Problem", "Session", "Stopped", "Unreachable"]
