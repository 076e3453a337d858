"""Dialects: translations of envelopes to the stream of another protocol, and shared parts.

Pure, and with ids from the log only, so the same log always gives the same
bytes. A translator is stateful: it is always fed from a start, and the server
skips what a reader has already.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import msgspec

from stellwerk.envelope.model import Envelope, RunEnd
from stellwerk.envelope.payloads import Asked
from stellwerk.envelope.to_json import one_line

Chunk = dict[str, Any]
"""One item of the translated stream."""
Cursor = tuple[int, int]
"""The position of an envelope, and the number of its chunk, from 0."""
Envelopes = Iterable[tuple[int, Envelope]]
"""Envelopes with their positions."""


class Translator(Protocol):
    def feed(self, position: int, envelope: Envelope) -> Iterator[Chunk]:
        """Translate the envelope at this position; often to nothing."""


class RecallingTranslator(Translator, Protocol):
    """Of a dialect with ``recalls``."""

    def recall(self, envelope: Envelope) -> None:
        """Take an envelope from before the trace, without output."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """A dialect with other options is another dialect: only readers with equal ones share a translation."""

    name: str
    media_type: str
    new_translator: Callable[[str, Any], Translator]
    """Takes the id of the session, and the options."""
    frame: Callable[[Cursor, Chunk], bytes]
    memory: Literal["trace", "session"] = "session"
    """Where a translator must be fed from, so that a reader can resume anywhere."""
    recalls: tuple[str, ...] = ()
    """Types of the envelopes from before its trace that a translator is given first, by ``recall``, without output."""
    options: Any = None
    """A frozen value: what a client may choose."""
    tag: Callable[[Chunk], Any] | None = None
    """What a reader may choose chunks by: it takes the tag and sees no chunk."""
    closing: bytes = b""
    """Sent once at the end of a stream, unless it is cut off."""

    def translator(self, session_id: str) -> Translator:
        return self.new_translator(session_id, self.options)


def translate(translator: Translator, envelopes: Envelopes) -> Iterator[tuple[Cursor, Chunk]]:
    for position, envelope in envelopes:
        for number, chunk in enumerate(translator.feed(position, envelope)):
            yield (position, number), chunk


def ndjson(cursor: Cursor, chunk: Chunk) -> bytes:
    return one_line(msgspec.json.encode(chunk)) + b"\n"


def sse(cursor: Cursor, chunk: Chunk) -> bytes:
    return b"id: %d.%d\ndata: %b\n\n" % (*cursor, one_line(msgspec.json.encode(chunk)))


def named_sse(cursor: Cursor, chunk: Chunk) -> bytes:
    """Encode SSE with event names; the chunk is {"event": name, "data": anything}."""
    name = str(chunk["event"]).encode()
    return b"event: %b\nid: %d.%d\ndata: %b\n\n" % (name, *cursor, one_line(msgspec.json.encode(chunk["data"])))


FRAGMENT = 24
"""The most characters in a fragment of an answer."""

# As many whole words as fit; a longer word is cut.
_FRAGMENT = re.compile(rf"(?s).{{1,{FRAGMENT}}}\Z|.{{0,{FRAGMENT - 1}}}\s|.{{1,{FRAGMENT}}}")


def fragments(text: str) -> Iterator[str]:
    """Split the text into pieces of whole words; joined they are the text."""
    return (found[0] for found in _FRAGMENT.finditer(text))


def form_of(asked: Asked) -> dict[str, object]:
    """Return what a question has beside its text: how it may be answered."""
    plain: dict[str, object] = msgspec.to_builtins(asked)
    known = {name: value for name, value in plain.items() if name not in ("ask_id", "question")}
    return {"kind": asked.kind, **known}


def failure_of(end: RunEnd) -> dict[str, str]:
    """Return why a run failed, for a run without an earlier error."""
    return {"code": end.payload.code or "failed", "message": end.payload.reason or "the run failed"}
