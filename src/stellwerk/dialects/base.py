"""What a dialect is: a translation of envelopes to the stream of somebody else's protocol.

Pure, and with ids from the log only, so that the same log always gives the same
bytes. A translator remembers what it has opened: it is always fed from a start,
and what a reader has seen already is held back.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import msgspec

from stellwerk.envelope.lines import one_line
from stellwerk.envelope.model import Envelope

Chunk = dict[str, Any]
"""One item of a foreign stream."""
Cursor = tuple[int, int]
"""The position of an envelope, and which chunk of it, from 0."""


class Translator(Protocol):
    def feed(self, position: int, envelope: Envelope) -> Iterator[Chunk]:
        """What the envelope at this position is in the dialect; often nothing."""


@dataclass(frozen=True, slots=True)
class Dialect:
    name: str
    media_type: str
    translator: Callable[[str], Translator]
    """Made anew for each session, by its id."""
    frame: Callable[[Cursor, Chunk], bytes]
    """How a chunk looks on the wire."""
    memory: Literal["trace", "session"] = "session"
    """From whose start a translator must be fed, to go on at any place in it as if it had never been away."""


def translate(translator: Translator, story: Iterable[tuple[int, Envelope]]) -> Iterator[tuple[Cursor, Chunk]]:
    """Every chunk of some envelopes, with its place."""
    for position, envelope in story:
        for number, chunk in enumerate(translator.feed(position, envelope)):
            yield (position, number), chunk


def ndjson(cursor: Cursor, chunk: Chunk) -> bytes:
    return one_line(msgspec.json.encode(chunk)) + b"\n"


def sse(cursor: Cursor, chunk: Chunk) -> bytes:
    return b"id: %d.%d\ndata: %b\n\n" % (*cursor, one_line(msgspec.json.encode(chunk)))


def named_sse(cursor: Cursor, chunk: Chunk) -> bytes:
    """For protocols that name their events: the chunk is {"event": name, "data": anything}."""
    name = str(chunk["event"]).encode()
    return b"event: %b\nid: %d.%d\ndata: %b\n\n" % (name, *cursor, one_line(msgspec.json.encode(chunk["data"])))
