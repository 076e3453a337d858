"""The client's side of HTTP, as cheap as it can be: raw sockets, nothing parsed before the end."""

import asyncio
import json
from dataclasses import dataclass
from typing import Any, Self, cast

from stellwerk.ids import SystemClock

HOST = "127.0.0.1"
_RUN_END = b'"type":"run_end"'
_FRAME_END = b"\n\n"
_clock = SystemClock()


@dataclass(frozen=True, slots=True)
class Link:
    """One kept connection for requests, one after the other."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    @classmethod
    async def to(cls, port: int) -> Self:
        return cls(*await asyncio.open_connection(HOST, port))

    async def post(self, path: str, body: object) -> Any:
        content = json.dumps(body).encode()
        head = f"POST {path} HTTP/1.1\r\nHost: {HOST}\r\nContent-Type: application/json\r\n"
        self.writer.write(f"{head}Content-Length: {len(content)}\r\n\r\n".encode() + content)
        answer = (await self.reader.readuntil(b"\r\n\r\n")).decode().lower()
        length = int(answer.split("content-length:")[1].split()[0])
        decoded = json.loads(await self.reader.readexactly(length))
        if not answer.startswith("http/1.1 20"):
            raise RuntimeError(f"POST {path} was refused: {decoded}")
        return decoded

    async def get(self, path: str, tag: str | None = None) -> tuple[str, Any]:
        """The tag of the answer, and what it says; None if the tag is the one that was sent."""
        known = "" if tag is None else f"If-None-Match: {tag}\r\n"
        self.writer.write(f"GET {path} HTTP/1.1\r\nHost: {HOST}\r\n{known}\r\n".encode())
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode()
        fields = dict(line.lower().split(": ", 1) for line in head.splitlines()[1:] if line)
        if head.startswith("HTTP/1.1 304"):
            return tag or "", None
        body = json.loads(await self.reader.readexactly(int(fields["content-length"])))
        if not head.startswith("HTTP/1.1 200"):
            raise RuntimeError(f"GET {path} was refused: {body}")
        return head.partition("etag: ")[2].partition("\r\n")[0], body

    async def begin(self, system: str) -> str:
        return str((await self.post("/sessions", {"agent_system_id": system}))["id"])

    async def send(self, session_id: str) -> None:
        await self.post(f"/sessions/{session_id}/messages", {"text": "go"})

    def close(self) -> None:
        self.writer.close()


class Listener(asyncio.Protocol):
    """Follows one session over SSE and counts the events; ``ended`` is done when a run has ended."""

    def __init__(self, session_id: str) -> None:
        loop = asyncio.get_running_loop()
        self.opened: asyncio.Future[None] = loop.create_future()
        self.ended: asyncio.Future[None] = loop.create_future()
        self.events = 0
        self._session_id = session_id
        self._rest = b""
        self._transport: asyncio.Transport | None = None

    @classmethod
    async def to(cls, port: int, session_id: str) -> Self:
        made = cls(session_id)
        await asyncio.get_running_loop().create_connection(lambda: made, HOST, port)
        await made.opened
        return made

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.write(f"GET /sessions/{self._session_id}/stream HTTP/1.1\r\nHost: {HOST}\r\n\r\n".encode())

    def data_received(self, data: bytes) -> None:
        if not self.opened.done():
            self.opened.set_result(None)
        self.events += (self._rest[-1:] + data).count(_FRAME_END)
        if not self.ended.done() and _RUN_END in self._rest + data:
            self.ended.set_result(None)
        self._rest = data[-len(_RUN_END) :]

    def connection_lost(self, exc: Exception | None) -> None:
        for future in (self.opened, self.ended):
            if not future.done():
                future.set_exception(exc or ConnectionError("the server closed the stream before the run ended"))

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()


class Witness(Listener):
    """A listener that also remembers when it received what, by the clock that envelopes carry."""

    def __init__(self, session_id: str) -> None:
        super().__init__(session_id)
        self._arrivals: list[tuple[float, bytes]] = []

    def data_received(self, data: bytes) -> None:
        self._arrivals.append((_clock.now(), data))
        super().data_received(data)

    def arrivals(self) -> list[tuple[float, dict[str, Any]]]:
        """(when it was complete, the envelope), in order."""
        found = []
        rest = b""
        for moment, data in self._arrivals:
            *frames, rest = (rest + data).split(_FRAME_END)
            found += [(moment, json.loads(frame.rpartition(b"\ndata: ")[2])) for frame in frames]
        return found
