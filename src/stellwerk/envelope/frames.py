"""Frames: stored bytes as NDJSON or SSE, spliced and never parsed.

A stored body has neither its session nor its position. Both are put in front of
it here, so an envelope is serialised once and sent to every reader as it is.
"""

from typing import Literal, NamedTuple

Origin = Literal["live", "replay"]


class Stored(NamedTuple):
    """A stored envelope and its position in the log."""

    position: int
    body: bytes


def line(session_id: str, stored: Stored, origin: Origin) -> bytes:
    """Return the envelope as clients read it: one line of JSON without its line end."""
    return b'{"position":%d,"origin":"%b","session_id":"%b",%b' % (
        stored.position,
        origin.encode(),
        session_id.encode(),
        stored.body[1:],
    )


def sse(session_id: str, stored: Stored, origin: Origin) -> bytes:
    return b"id: %d\ndata: %b\n\n" % (stored.position, line(session_id, stored, origin))


def ndjson(session_id: str, stored: Stored, origin: Origin) -> bytes:
    return line(session_id, stored, origin) + b"\n"
