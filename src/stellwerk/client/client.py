"""HTTP client of a server, asynchronous and without the server's own code.

Its event stream reconnects after the last position, so that each event is given once.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self, TypeVar
from urllib.parse import quote

import httpx2
import msgspec

from stellwerk.client.responses import (
    Accepted,
    Event,
    EventPage,
    Problem,
    Session,
    SessionPage,
    Stopped,
    Unreachable,
    problem_of,
    reason_of,
)
from stellwerk.envelope.ndjson import LineBuffer, LineTooLong
from stellwerk.errors import InvalidInput

URL = "http://127.0.0.1:8000"
Profile = Literal["user", "debug"]
IfBusy = Literal["reject", "enqueue", "interrupt"]

_PAGE = 1000
_TIMEOUT = httpx2.Timeout(60.0, connect=10.0)
_STREAM_TIMEOUT = httpx2.Timeout(45.0, connect=10.0)
"""A server sends a heartbeat every 15 seconds: one that misses three is taken to be gone."""
_LONGEST_PAUSE = 5.0
_NDJSON = {"Accept": "application/x-ndjson"}
Lost = Callable[[Unreachable | Problem], None]
"""Called for every attempt to reconnect that fails."""
_Kind = TypeVar("_Kind")


class Client:
    """Sessions of the server at ``url``; to be used as ``async with Client() as client``.

    ``key`` is sent as a bearer token, to a server that asks for one. ``first_pause`` is how long a
    broken stream waits before it reconnects. Every method raises ``Problem`` if the server rejects
    the request, and ``Unreachable`` if there is no response.
    """

    def __init__(self, url: str = URL, key: str | None = None, *, first_pause: float = 0.2) -> None:
        self.url = url.rstrip("/")
        self._first_pause = first_pause
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        self._http = httpx2.AsyncClient(headers=headers, timeout=_TIMEOUT)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        await self._http.aclose()

    async def sessions(self, *, limit: int = 50) -> list[Session]:
        """List sessions, the one with the latest activity first."""
        found: list[Session] = []
        before: dict[str, Any] = {}
        while len(found) < limit:
            query = {"limit": min(limit - len(found), 500), **before}
            page = await self.ask(SessionPage, "GET", "/sessions", params=query)
            found += page.sessions
            if page.next is None:
                break
            before = {"before": page.next}
        return found

    async def session(self, session_id: str) -> Session:
        return await self.ask(Session, "GET", f"/sessions/{part(session_id)}")

    async def begin(self, system: str = "demo", *, user: str | None = None, workflow: bool = False) -> Session:
        """Create a session, which is listed as a chat or as a ``workflow``."""
        body: dict[str, Any] = {"agent_system_id": system}
        if user is not None:
            body["user_id"] = user
        if workflow:
            body["workflow"] = True
        return await self.ask(Session, "POST", "/sessions", json=body)

    async def send(
        self,
        session_id: str,
        text: str,
        *,
        documents: Sequence[str] = (),
        if_busy: IfBusy = "reject",
        key: str | None = None,
    ) -> Accepted:
        """Send a message, perhaps with files that were uploaded before.

        With an idempotency ``key`` it may be sent again if it is unknown whether it arrived.
        """
        body = {"text": text, "if_busy": if_busy} | ({"documents": list(documents)} if documents else {})
        return await self.ask(Accepted, "POST", f"/sessions/{part(session_id)}/messages", json=body, key=key)

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
        return await self.ask(Accepted, "POST", f"/sessions/{part(session_id)}/answers", json=body, key=key)

    async def stop(self, session_id: str, *, reason: str | None = None) -> Stopped:
        return await self.ask(Stopped, "POST", f"/sessions/{part(session_id)}/stop", json={"reason": reason})

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
        with the next end of a run. To leave earlier and continue with something else, use
        ``contextlib.aclosing``.
        """
        query = {"profile": profile} if until is None else {"profile": profile, "until": until}
        stream = _ReconnectingStream(self, self._http, session_id, query, lost, self._first_pause)
        return stream.events(after)

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
            response = await self._http.request(method, self.url + path, **more)
        except (httpx2.TransportError, httpx2.InvalidURL) as error:
            raise Unreachable(self.url, reason_of(error)) from error
        if not response.is_success:
            raise problem_of(response)
        return response


def part(text: str) -> str:
    """Quote one part of a path, whatever was typed.

    Raises:
        InvalidInput: the path would name something else.
    """
    if text in ("", ".", ".."):
        raise InvalidInput(f"{text!r} names nothing; say the id or the name of what you mean")
    return quote(text, safe="")


@dataclass(slots=True)
class _ReconnectingStream:
    client: Client
    http: httpx2.AsyncClient
    session_id: str
    query: Mapping[str, str]
    lost: Lost | None
    first_pause: float
    """Seconds before the first attempt to reconnect; each further one waits twice as long."""
    connected: bool = False
    """The first attempt has succeeded: from then on the stream reconnects."""

    async def events(self, after: int) -> AsyncGenerator[Event, None]:
        pause = self.first_pause
        while True:
            try:
                async with aclosing(self._connection(after)) as connection:
                    async for event in connection:
                        if event.position <= after:
                            continue
                        yield event
                        after = event.position
                        pause = self.first_pause
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
        try:
            async with self.http.stream("GET", url, params=query, headers=_NDJSON, timeout=_STREAM_TIMEOUT) as response:
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
