"""Responses of a server as frozen data, and the errors of the client: a rejected request, an unreachable server.

Fields that a newer server adds are ignored.
"""

from functools import cached_property
from typing import Any

import httpx2
import msgspec

from stellwerk.envelope.model import Envelope
from stellwerk.envelope.payloads import FilePart
from stellwerk.errors import StellwerkError

_PASSING = (502, 503, 504)


class Session(msgspec.Struct, frozen=True, kw_only=True):
    """A session and its status."""

    id: str
    agent_system_id: str
    title: str | None = None
    """The beginning of the first message, in one line."""
    created_at: float
    last_activity_at: float | None = None
    """None from an older server."""
    position: int
    """The last position of its log."""
    status: str
    round: int
    awaiting_user_input: bool = False
    user_id: str | None = None


class Withdrawn(msgspec.Struct, frozen=True, kw_only=True):
    """An enqueued message that a stop withdrew: it starts nothing, and may be sent again."""

    message_id: str
    text: str
    documents: tuple[FilePart, ...] = ()


class Accepted(msgspec.Struct, frozen=True, kw_only=True):
    """A message or an answer that is stored in the log."""

    round: int
    run_id: str
    position: int
    after: int
    """The cursor that shows the run whole."""
    status: str
    """accepted, enqueued behind another round, or noted while other questions are open."""
    message_id: str | None = None
    ask_id: str | None = None
    open_asks: tuple[str, ...] = ()
    withdrawn: tuple[Withdrawn, ...] = ()
    """The enqueued messages that were withdrawn because this one interrupted a round."""


class Stopped(msgspec.Struct, frozen=True, kw_only=True):
    """A session without a current run."""

    status: str
    round: int
    position: int
    run_id: str | None = None
    withdrawn: tuple[Withdrawn, ...] = ()


class EventPage(msgspec.Struct, frozen=True, kw_only=True):
    events: list[msgspec.Raw]
    next: int


class SessionPage(msgspec.Struct, frozen=True, kw_only=True):
    sessions: list[Session]
    next: str | None = None


class _Head(msgspec.Struct, frozen=True):
    position: int
    type: str


_PLACE = ("position", "origin", "session_id")
"""Fields that are not part of the stored envelope."""
_HEADS = msgspec.json.Decoder(_Head)


class Event:
    """One envelope with its position; decoded when it is first used."""

    def __init__(self, line: bytes) -> None:
        self.line = line
        """The JSON object as it came."""
        head = _HEADS.decode(line)
        self.position = head.position
        self.type = head.type

    @cached_property
    def envelope(self) -> Envelope:
        """
        Raises:
            msgspec.ValidationError: the server is newer, and the type is unknown here.
        """
        known: Envelope = msgspec.convert({k: v for k, v in self.data.items() if k not in _PLACE}, Envelope)
        return known

    @cached_property
    def data(self) -> dict[str, Any]:
        """The envelope as a dictionary, also if its type is unknown."""
        found: dict[str, Any] = msgspec.json.decode(self.line)
        return found

    def __repr__(self) -> str:
        return f"Event({self.position}, {self.type!r})"


class Problem(StellwerkError):
    """The server rejected a request. ``code`` and ``detail`` are those of its response."""

    def __init__(self, status: int, code: str, detail: str, *, field: str | None = None) -> None:
        super().__init__(detail, field=field)
        self.status = status
        self.code = code
        self.detail = detail

    @property
    def passing(self) -> bool:
        """Whether it may be gone in a moment, because the server is starting or shutting down."""
        return self.status in _PASSING


class Unreachable(StellwerkError):
    """No response, or one that is not Stellwerk's."""

    code = "unreachable"

    def __init__(self, url: str, reason: str) -> None:
        super().__init__(f"no server answers at {url}: {reason}; is it running? `stellwerk serve` starts one")


class _Body(msgspec.Struct, frozen=True):
    code: str
    detail: str
    field: str | None = None


def problem_of(response: httpx2.Response) -> Problem:
    """The problem in a response; that of a proxy, without our body, is described by its status."""
    status = response.status_code
    try:
        body = msgspec.json.decode(response.content, type=_Body)
    except msgspec.DecodeError:
        request = response.request
        return Problem(status, "bad_answer", f"{request.method} {request.url} was answered with {status}")
    return Problem(status, body.code, body.detail, field=body.field)


def reason_of(error: Exception) -> str:
    return str(error) or type(error).__name__
