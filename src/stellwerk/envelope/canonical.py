"""The canonicaliser: any Python object to a JSON value that every reader accepts.

It cannot raise. What it had to change is in the notes, and what does not belong
into an envelope (bytes, and values too large) is in the blobs, named by digest,
for the caller to store before the envelope that refers to them.
"""

import math
import re
from collections.abc import Callable
from typing import Any

import msgspec

from stellwerk.envelope import shapes
from stellwerk.envelope.lines import one_line
from stellwerk.envelope.shapes import Blob, make_blob

MAX_DEPTH = 64
PAYLOAD_DEPTH = MAX_DEPTH - 5
"""What is left of it for a value in an event, which has up to five levels of its own around it."""
MAX_BYTES = 256 * 1024
MAX_NOTES = 20
PREVIEW = 1000
"""How many characters of a value too large are still shown in its place."""

_ROOM = 64 * 1024 * 1024
_COST = 64
"""The room that any value takes, a string its length in addition: a small bomb of aliases cannot unfold."""
_SURELY_SMALL = MAX_BYTES // 6
"""JSON has at most six bytes for a character, or for a unit of room."""
_SAFE_INT = 2**53 - 1
_DECIMAL_BITS, _HEX_BITS = 2048, 65536
"""Python writes ints of up to 640 digits under any setting, and hexadecimal always."""

_BAD_TEXT = re.compile("[\0\ud800-\udfff]")
_FILE_STEM = re.compile(r"[A-Za-z0-9_-]{1,40}")

Redact = Callable[[str], str]


class Canonical(msgspec.Struct, frozen=True, kw_only=True):
    value: Any
    notes: tuple[str, ...] = ()
    """What was changed, as ``path: change``; after ``MAX_NOTES`` of them, how many more."""
    blobs: tuple[Blob, ...] = ()


def canonical(value: object, *, redact: Redact | None = None, depth: int = MAX_DEPTH) -> Canonical:
    """``value`` as JSON: valid, finite, at most ``depth`` levels deep and, as one line, ``MAX_BYTES`` long.

    ``redact`` sees every string before it can get into a value, a note or a blob, and also bytes that are text.
    """
    walk = _Walk(redact, depth)
    safe = walk.start(value)
    if walk.may_be_large() and json_size(safe) > MAX_BYTES:
        safe = walk.spill(canonical_json(safe), "application/json", "$")
    return Canonical(value=safe, notes=walk.summary(), blobs=tuple(walk.blobs.values()))


def canonical_json(value: Any) -> bytes:
    """The one encoding of a canonical value, for digests: keys sorted, no spaces."""
    return msgspec.json.encode(value, order="sorted")


def json_size(value: Any) -> int:
    """How many bytes ``value`` takes as one line of JSON."""
    return len(one_line(msgspec.json.encode(value)))


def clean_text(text: str) -> str:
    """``text`` without NUL and lone surrogates, which become U+FFFD; the same object if there were none.

    Two surrogates that belong together become their character, so join the pieces of a stream before.
    """
    if type(text) is not str:
        text = str.__str__(text)
    if (text.isascii() and "\0" not in text) or not _BAD_TEXT.search(text):
        return text
    return text.replace("\0", "\ufffd").encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def free_key(key: str, taken: dict[str, Any], repeats: dict[str, int]) -> str:
    """``key``, or ``key~2``, ``key~3`` … if it is taken; ``repeats`` remembers where to go on."""
    if key not in taken:
        return key
    number = repeats.get(key, 1) + 1
    while f"{key}~{number}" in taken:
        number += 1
    repeats[key] = number
    return f"{key}~{number}"


class _Walk:
    """One pass over one value: the room that is left, and what had to be changed on the way."""

    def __init__(self, redact: Redact | None, depth: int) -> None:
        self.blobs: dict[str, Blob] = {}
        self._redact, self._depth = redact, depth
        self._room, self._ran_out = _ROOM, False
        self._notes: list[str] = []
        self._changes = 0
        self._path: list[str | int] = []
        self._open: set[int] = set()
        self._stored: dict[int, tuple[object, dict[str, Any]]] = {}

    def start(self, value: object) -> Any:
        try:
            return self._value(value, self._depth, "$")
        except RuntimeError:  # the stack ended, or a container changed whenever it was read
            self._path.clear()
            return self._closed(value, self._depth, "$", "could not be read")

    def may_be_large(self) -> bool:
        return _ROOM - self._room > _SURELY_SMALL

    def summary(self) -> tuple[str, ...]:
        more = self._changes - len(self._notes)
        rest = ["$: too much data, the end is missing"] * self._ran_out + [f"$: {more} more changes"] * bool(more)
        return (*self._notes, *rest)

    def spill(self, data: bytes, mime: str, key: str | int) -> dict[str, Any]:
        """``data`` becomes a document; what stands for it shows how it begins."""
        self._note(key, "too large, became a document")
        return self._document(data, mime, key) | {"preview": data[: PREVIEW * 4].decode(errors="ignore")[:PREVIEW]}

    def _note(self, key: str | int, change: str) -> None:
        self._changes += 1
        if len(self._notes) < MAX_NOTES:
            steps = (*self._path, key)[1:]
            path = "".join(f"[{step}]" if type(step) is int else f".{step:.40}" for step in steps)
            self._notes.append(f"${path}: {change}" if len(path) < 120 else f"$…{path[-100:]}: {change}")

    def _value(self, value: Any, depth: int, key: str | int) -> Any:
        self._room -= _COST
        kind = type(value)
        if kind is str:
            return self._text(value, depth, key)
        if kind is int:
            return value if -_SAFE_INT <= value <= _SAFE_INT else self._integer(value, key)
        if value is None or kind is bool:
            return value
        if kind is float:
            return self._float(value, key)
        return self._compound(value, kind, depth, key)

    def _text(self, text: str, depth: int, key: str | int) -> Any:
        if len(text) > _SURELY_SMALL and id(text) in self._stored:
            return self._once(text, depth, key, dict)
        clean = self._string(text, key)
        if len(clean) <= _SURELY_SMALL or json_size(clean) <= MAX_BYTES:
            self._room -= len(clean)
            return clean
        return self._once(text, depth, key, lambda: self.spill(clean.encode(), "text/plain", key))

    def _string(self, text: str, key: str | int) -> str:
        if self._redact is None and text.isascii() and "\0" not in text:
            return text
        clean = clean_text(text)
        if clean is not text and clean.count("\ufffd") > text.count("\ufffd"):
            self._note(key, "NUL or lone surrogate became U+FFFD")
        if self._redact is None:
            return clean
        redacted = self._redact(clean)
        if redacted != clean:
            self._note(key, "redacted")
        return redacted

    def _integer(self, value: int, key: str | int) -> str:
        self._note(key, "beyond 2^53-1, became a string")
        bits = value.bit_length()
        if bits > _HEX_BITS:
            return f"int of {bits} bits"
        self._room -= bits // 3
        return str(value) if bits <= _DECIMAL_BITS else hex(value)

    def _float(self, value: float, key: str | int) -> float | None:
        if not math.isfinite(value):
            self._note(key, "not a finite number, became null")
            return None
        if value == 0 and math.copysign(1, value) < 0:
            self._note(key, "-0.0 became 0.0")
            return 0.0
        return value

    def _compound(self, value: Any, kind: type, depth: int, key: str | int) -> Any:
        if id(value) in self._open:
            return self._closed(value, depth, key, "contains itself")
        container = kind is dict or kind is list or shapes.is_container(kind)
        plain = value if container else shapes.plain(value)
        if plain is shapes.UNKNOWN:
            return self._closed(value, depth, key, "no JSON form")
        self._open.add(id(value))
        safe = self._contents(value, kind, depth, key) if container else self._value(plain, depth, key)
        self._open.discard(id(value))
        return safe

    def _contents(self, value: Any, kind: type, depth: int, key: str | int) -> Any:
        if depth <= 0:
            return self._cut(key)
        if issubclass(kind, bytes):
            return self._once(value, depth, key, lambda: self._bytes(bytes.__getitem__(value, slice(None)), key))
        self._path.append(key)
        if issubclass(kind, dict):
            safe: Any = self._mapping(shapes.entries(value), depth - 1)
        else:
            safe = self._sequence(shapes.members(value, kind), depth - 1)
            if issubclass(kind, (set, frozenset)):
                safe.sort(key=canonical_json)
        self._path.pop()
        return safe

    def _mapping(self, items: list[tuple[Any, Any]], depth: int) -> dict[str, Any]:
        safe: dict[str, Any] = {}
        repeats: dict[str, int] = {}
        for key, value in items:
            if self._room <= 0:
                self._ran_out = True
                break
            name = self._key(key, depth)
            self._room -= len(name)
            if name in safe:
                wanted, name = name, free_key(name, safe, repeats)
                self._note(wanted, f"key used twice, renamed to {name:.40}")
            safe[name] = self._value(value, depth, name)
        return safe

    def _sequence(self, members: list[Any], depth: int) -> list[Any]:
        safe: list[Any] = []
        for index, member in enumerate(members):
            if self._room <= 0:
                self._ran_out = True
                break
            safe.append(self._value(member, depth, index))
        return safe

    def _key(self, key: Any, depth: int) -> str:
        """A string for a key: text as it is, anything else as the JSON of its canonical value."""
        if type(key) is str:
            return self._string(key, "(key)")
        if issubclass(type(key), bytes):
            return self._string(bytes.decode(key, errors="replace"), "(key)")
        safe = self._value(key, depth, "(key)")
        return safe if type(safe) is str else canonical_json(safe).decode()

    def _bytes(self, data: bytes, key: str | int) -> dict[str, Any]:
        self._note(key, "bytes became a document")
        mime = shapes.sniff(data)
        if self._redact is not None and mime == "text/plain":
            data = self._string(data.decode(), key).encode()
        return self._document(data, mime, key)

    def _document(self, data: bytes, mime: str, key: str | int) -> dict[str, Any]:
        stem = key if type(key) is str and _FILE_STEM.fullmatch(key) else "data"
        blob = make_blob(data, mime=mime, filename=stem)
        return self.blobs.setdefault(blob.document_id, blob).reference()

    def _once(self, value: object, depth: int, key: str | int, store: Callable[[], dict[str, Any]]) -> Any:
        """The reference to a large ``value``, hashed the first time only, however often it occurs."""
        if depth <= 0:
            return self._cut(key)
        self._room -= PREVIEW
        if id(value) not in self._stored:
            self._stored[id(value)] = value, store()
        return dict(self._stored[id(value)][1])

    def _closed(self, value: object, depth: int, key: str | int, why: str) -> Any:
        if depth <= 0:
            return self._cut(key)
        self._room -= _COST
        name = clean_text(shapes.class_name(value))
        self._note(key, f"{name}: {why}")
        return {"$unserializable": name}

    def _cut(self, key: str | int) -> None:
        self._note(key, f"deeper than {self._depth} levels, cut")
