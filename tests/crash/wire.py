"""What a client makes of the bytes of a stream: complete events, each with its position.

Written from the formats' own rules and without the server's code, so that the
two can disagree.
"""

import asyncio
import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import urlsplit

from tests import keyed

SSE = "text/event-stream"
NDJSON = "application/x-ndjson"

_ORIGIN = re.compile(rb'"origin":"(?:live|replay)",')
_POSITION = re.compile(rb'\{"position":(\d+),')


class Frame(NamedTuple):
    """One event as it was received, apart from where it came from."""

    position: int
    line: bytes

    def body(self, session_id: str) -> bytes:
        """The bytes that the log must have for it."""
        return b"{" + self.line.removeprefix(
            b'{"position":%d,"session_id":"%b",' % (self.position, session_id.encode())
        )


@lru_cache(1024)  # who cuts a stream at every byte reads the same lines again and again
def frame(line: bytes) -> Frame:
    found = _POSITION.match(line)
    assert found is not None, f"not an envelope: {line[:80]!r}"
    return Frame(int(found[1]), _ORIGIN.sub(b"", line, count=1))


def of_log(session_id: str, log: Iterable[bytes]) -> list[Frame]:
    """What a reader of the whole log must have received."""
    return [
        Frame(n, b'{"position":%d,"session_id":"%b",%b' % (n, session_id.encode(), body[1:]))
        for n, body in enumerate(log, 1)
    ]


def sse(data: bytes) -> list[Frame]:
    """The events that were dispatched: a blank line ends one, and what has no end yet is not there."""
    found: list[Frame] = []
    identity = payload = b""
    *lines, _incomplete = data.split(b"\n")
    for line in lines:
        if line.startswith(b"id: "):
            identity = line[4:]
        elif line.startswith(b"data: "):
            payload = line[6:]
        elif not line and payload:
            found.append(frame(payload))
            assert found[-1].position == int(identity), "the id is not the position"
            payload = b""
    return found


def ndjson(data: bytes) -> list[Frame]:
    *lines, _incomplete = data.split(b"\n")
    return [frame(line) for line in lines if line]


PARSERS: dict[str, Callable[[bytes], list[Frame]]] = {SSE: sse, NDJSON: ndjson}


class Inbox:
    """Bytes as they arrive, and the events that they complete; every byte is looked at once."""

    def __init__(self, media_type: str) -> None:
        self._parse = PARSERS[media_type]
        self._end = b"\n\n" if media_type == SSE else b"\n"
        self._rest = b""

    def feed(self, chunk: bytes) -> list[Frame]:
        whole, end, self._rest = (self._rest + chunk).rpartition(self._end)
        return self._parse(whole + end)


# A client without a library, where a thousand of them are needed or the socket itself matters.


async def connect(address: str, path: str, **headers: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Send a GET and hand over the socket."""
    host, port = urlsplit(address).hostname, urlsplit(address).port
    reader, writer = await asyncio.open_connection(host, port)
    writer.write(request(address, path, **headers))
    return reader, writer


def request(address: str, path: str, **headers: str) -> bytes:
    lines = [f"GET {path} HTTP/1.1", f"Host: {urlsplit(address).netloc}"]
    shown = {**keyed.shown_to(address), **headers}
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in shown.items()]
    return "\r\n".join([*lines, "", ""]).encode()


def unchunked(data: bytes) -> bytes:
    """What the chunks of an answer hold, as far as they have come."""
    body: list[bytes] = []
    while b"\r\n" in data:
        size, _, data = data.partition(b"\r\n")
        body.append(data[: int(size, 16)])
        data = data[int(size, 16) + 2 :]
    return b"".join(body)
