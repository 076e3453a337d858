"""HTTP client of a server, asynchronous and without the server's own code.

Its event stream reconnects after the last position, so that each event is given once.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, Self, TypeVar, Unpack

import httpx2
import msgspec
from msgspec import Struct

from stellwerk.client.jobs import JobRequests
from stellwerk.client.paths import part
from stellwerk.client.responses import (
    Accepted,
    ChangedGraphState,
    EventPage,
    GraphCheckpoint,
    GraphState,
    History,
    MessageParameters,
    Session,
    SessionDefaults,
    SessionPage,
    Stopped,
    Withdrawn,
)
from stellwerk.envelope.model import Envelope
from stellwerk.envelope.ndjson import LineBuffer, LineTooLong
from stellwerk.errors import StellwerkError

URL = "http://127.0.0.1:8000"
Profile = Literal["user", "debug"]
IfBusy = Literal["reject", "enqueue", "interrupt"]

_PAGE = 1000
_TIMEOUT = httpx2.Timeout(60.0, connect=10.0)
_STREAM_TIMEOUT = httpx2.Timeout(45.0, connect=10.0)
"""A server sends a heartbeat every 15 seconds: one that misses three is taken to be gone."""
_LONGEST_PAUSE = 5.0
_NDJSON = {"Accept": "application/x-ndjson"}
_Kind = TypeVar("_Kind")


class _Head(Struct, frozen=True):
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
        """Raises ``msgspec.ValidationError`` if the server is newer, and the type is unknown here."""
        stored = {name: value for name, value in self.data.items() if name not in _PLACE}
        known: Envelope = msgspec.convert(stored, Envelope)
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
        return self.status in (502, 503, 504)


class Unreachable(StellwerkError):
    """No response, or one that is not Stellwerk's."""

    code = "unreachable"

    def __init__(self, url: str, reason: str) -> None:
        remedy = "is it running? `stellwerk serve` starts one"
        super().__init__(f"no server answers at {url}: {reason}; {remedy}")


Lost = Callable[[Unreachable | Problem], None]
"""Called for every attempt to reconnect that fails."""


class Client(JobRequests):
    """Sessions of the server at ``url``; to be used as ``async with Client() as client``.

    ``key`` is sent as a bearer token, to a server that asks for one. ``first_pause`` is how long a
    broken stream waits before it reconnects. Every method raises ``Problem`` if the server rejects
    the request, and ``Unreachable`` if there is no response.
    """

    def __init__(self, url: str = URL, key: str | None = None, *, first_pause: float = 0.2) -> None:
        self.url = url.rstrip("/")
        self.first_pause = first_pause
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        self.http = httpx2.AsyncClient(headers=headers, timeout=_TIMEOUT)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_raised: object) -> None:
        await self.close()

    async def close(self) -> None:
        await self.http.aclose()

    async def sessions(self, *, limit: int = 50) -> list[Session]:
        """List sessions, the one with the latest activity first."""
        found: list[Session] = []
        query: dict[str, Any] = {}
        while len(found) < limit:
            query["limit"] = min(limit - len(found), 500)
            page = await self.ask(SessionPage, "GET", "/sessions", params=query)
            found += page.sessions
            if page.next is None:
                break
            query["before"] = page.next
        return found

    async def session(self, session_id: str) -> Session:
        return await self.ask(Session, "GET", f"/sessions/{part(session_id)}")

    async def begin(
        self,
        system: str = "demo",
        *,
        user: str | None = None,
        workflow: bool = False,
        config: Mapping[str, Any] | None = None,
        context: Mapping[str, Any] | None = None,
    ) -> Session:
        """Create a session, which is listed as a chat or as a ``workflow``.

        ``config`` and ``context`` are for graphs: its messages have them, key by key, unless they have their own.
        """
        given = {"agent_system_id": system, "user_id": user, "workflow": workflow, "config": config, "context": context}
        body = {name: value for name, value in given.items() if value}  # an older server may not know the others
        return await self.ask(Session, "POST", "/sessions", json=body)

    async def change(self, session_id: str, **defaults: Unpack[SessionDefaults]) -> Session:
        """Replace the ``config`` or ``context`` of a session, for messages from now on; None removes it."""
        return await self.ask(Session, "PATCH", f"/sessions/{part(session_id)}", json=defaults)

    async def send(
        self,
        session_id: str,
        text: str = "",
        *,
        documents: Sequence[str] = (),
        if_busy: IfBusy = "reject",
        key: str | None = None,
        **parameters: Unpack[MessageParameters],
    ) -> Accepted:
        """Send a message, perhaps with files that were uploaded before.

        The parameters ``input``, ``config`` and ``context`` are for graphs, by the schemas of the agent
        system. With ``after_seconds`` or ``start_at`` the run starts later; its end is sent to ``webhook``.
        With an idempotency ``key`` it may be sent again if it is unknown whether it arrived.
        """
        body = {"text": text, "if_busy": if_busy, "documents": list(documents), **parameters}
        path = f"/sessions/{part(session_id)}/messages"
        return await self.ask(Accepted, "POST", path, json=body, key=key)

    async def answer(
        self,
        session_id: str,
        text: str | None = None,
        *,
        data: Any = None,
        ask_id: str = "",
        refused: bool = False,
        key: str | None = None,
    ) -> Accepted:
        """Answer a question; the only one if ``ask_id`` is left out."""
        body = {"text": text, "data": data, "ask_id": ask_id, "refused": refused}
        path = f"/sessions/{part(session_id)}/answers"
        return await self.ask(Accepted, "POST", path, json=body, key=key)

    async def stop(self, session_id: str, *, reason: str | None = None) -> Stopped:
        path = f"/sessions/{part(session_id)}/stop"
        return await self.ask(Stopped, "POST", path, json={"reason": reason})

    async def withdraw(self, session_id: str, message_id: str) -> Withdrawn:
        """Withdraw an enqueued message, before its round starts."""
        return await self.ask(Withdrawn, "DELETE", f"/sessions/{part(session_id)}/inbox/{part(message_id)}")

    async def state(self, session_id: str, *, checkpoint_id: str | None = None) -> GraphState:
        """The state of the session's graph, now or at a checkpoint."""
        query = {} if checkpoint_id is None else {"checkpoint_id": checkpoint_id}
        return await self.ask(GraphState, "GET", f"/sessions/{part(session_id)}/state/values", params=query)

    async def history(self, session_id: str, *, before: str | None = None, limit: int = 20) -> list[GraphCheckpoint]:
        """Checkpoints of the session's graph, the newest first; ``before`` is the last one seen."""
        query: dict[str, Any] = {"limit": limit} if before is None else {"limit": limit, "before": before}
        page = await self.ask(History, "GET", f"/sessions/{part(session_id)}/state/history", params=query)
        return page.checkpoints

    async def update_state(
        self,
        session_id: str,
        values: Any,
        *,
        as_node: str | None = None,
        checkpoint_id: str | None = None,
        key: str | None = None,
    ) -> ChangedGraphState:
        """Change the state of the session's graph, as if a node had returned the values."""
        body = {"values": values, "as_node": as_node, "checkpoint_id": checkpoint_id}
        path = f"/sessions/{part(session_id)}/state"
        return await self.ask(ChangedGraphState, "POST", path, json=body, key=key)

    async def upload(self, file: Path) -> str:
        """Upload a file and return its id, for a message."""
        with file.open("rb") as opened:
            uploaded = await self.ask(dict[str, Any], "POST", "/files", files={"file": (file.name, opened)})
        return str(uploaded["id"])

    async def download(self, document_id: str) -> bytes:
        return (await self.request("GET", f"/files/{part(document_id)}")).content

    async def delete(self, session_id: str) -> None:
        await self.request("DELETE", f"/sessions/{part(session_id)}")

    async def events(
        self, session_id: str, *, after: int = 0, profile: Profile = "user"
    ) -> AsyncGenerator[Event, None]:
        """Read the log as it is now."""
        while True:
            query = {"after": after, "limit": _PAGE, "profile": profile}
            page = await self.ask(EventPage, "GET", f"/sessions/{part(session_id)}/events", params=query)
            for line in page.events:
                yield Event(bytes(line))
            if page.next == after:
                return
            after = page.next

    def follow(
        self,
        session_id: str,
        *,
        after: int = 0,
        until: Literal["run_end"] | None = None,
        profile: Profile = "user",
        lost: Lost | None = None,
    ) -> AsyncGenerator[Event, None]:
        """Stream the events after a position, then new ones, across broken connections.

        Only the first attempt must succeed. Later the stream reconnects by position until the
        server is back, and calls ``lost`` for every attempt that fails. ``until="run_end"`` ends it
        with the next end of a run. To leave earlier and go on, use ``contextlib.aclosing``.
        """
        query = {"profile": profile} if until is None else {"profile": profile, "until": until}
        return _ReconnectingStream(self, session_id, query, lost).events(after)

    async def ask(self, kind: type[_Kind], method: str, path: str, *, key: str | None = None, **more: Any) -> _Kind:
        """Send any request, and decode the response as this type."""
        headers = {} if key is None else {"Idempotency-Key": key}
        response = await self.request(method, path, headers=headers, **more)
        try:
            return msgspec.json.decode(response.content, type=kind)
        except msgspec.DecodeError as error:
            raise Unreachable(self.url, f"what answers is no Stellwerk ({reason_of(error)})") from error

    async def request(self, method: str, path: str, **more: Any) -> httpx2.Response:
        """Send any request; ``more`` is for httpx."""
        try:
            response = await self.http.request(method, self.url + path, **more)
        except (httpx2.TransportError, httpx2.InvalidURL) as error:
            raise Unreachable(self.url, reason_of(error)) from error
        if not response.is_success:
            raise problem_of(response)
        return response


@dataclass(slots=True)
class _ReconnectingStream:
    client: Client
    session_id: str
    query: Mapping[str, str]
    lost: Lost | None
    connected: bool = False
    """The first attempt has succeeded: from then on the stream reconnects."""

    async def events(self, after: int) -> AsyncGenerator[Event, None]:
        pause = self.client.first_pause
        while True:
            try:
                async with aclosing(self._connection(after)) as connection:
                    async for event in connection:
                        if event.position <= after:
                            continue
                        yield event
                        after = event.position
                        pause = self.client.first_pause
                        if event.type == self.query.get("until"):
                            return
                if await self._all_read(after):
                    return
            except (Unreachable, Problem) as error:
                if not self.connected or (isinstance(error, Problem) and not error.passing):
                    raise
                if self.lost is not None:
                    self.lost(error)
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    async def _connection(self, after: int) -> AsyncGenerator[Event, None]:
        lines = LineBuffer()
        url = f"{self.client.url}/sessions/{part(self.session_id)}/stream"
        query = {**self.query, "after": str(after)}
        stream = self.client.http.stream("GET", url, params=query, headers=_NDJSON, timeout=_STREAM_TIMEOUT)
        try:
            async with stream as response:
                if not response.is_success:
                    await response.aread()
                    raise problem_of(response)
                self.connected = True
                async for piece in response.aiter_raw():
                    for line in lines.feed(piece):
                        yield Event(line)
        except (httpx2.TransportError, httpx2.InvalidURL, LineTooLong, msgspec.DecodeError) as error:
            raise Unreachable(self.client.url, reason_of(error)) from error

    async def _all_read(self, after: int) -> bool:
        """Whether the run is over; else the stream ended because the server shuts down."""
        if "until" not in self.query:
            return False
        session = await self.client.session(self.session_id)
        return session.status != "running" and session.position <= after


class _Body(Struct, frozen=True):
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
