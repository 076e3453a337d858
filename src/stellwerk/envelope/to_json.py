"""Conversion to JSON (the canonicaliser): any object becomes a value that every reader accepts.

It never raises. The notes list every change it made. Bytes and values too large
for an envelope become blobs, named by digest, which the caller stores before
the envelope that refers to them. ``to_result`` does the same for tool results.
"""

import math
import re
from base64 import b64decode
from collections.abc import Callable
from typing import Any

import msgspec

from stellwerk.envelope import introspection
from stellwerk.envelope.introspection import Blob, make_blob
from stellwerk.envelope.results import FileRef, Json, Table, Text, ToolResult, table

MAX_DEPTH = 64
PAYLOAD_DEPTH = MAX_DEPTH - 5
"""The depth left for a value in an envelope, which adds up to five levels of its own."""
MAX_BYTES = 256 * 1024
MAX_NOTES = 20
PREVIEW = 1000
"""Characters of a value too large that stay in its place."""

_ROOM = 64 * 1024 * 1024
_COST = 64
"""What each value costs, a string its length in addition: a small bomb of aliases cannot unfold."""
_SURELY_SMALL = MAX_BYTES // 6
"""JSON takes at most six bytes for a character, or for a unit of room."""
_SAFE_INT = 2**53 - 1
_DECIMAL_BITS, _HEX_BITS = 2048, 65536
"""Python writes ints of up to 640 digits under any setting, and hexadecimal always."""

_SPARSE = 4
"""Dicts that fill less than one in so many cells of their common table are not a table."""
_BLOCK_TYPES = ("image", "image_url", "audio", "video", "file", "resource", "resource_link", "reasoning", "tool_use")
_BLOCK_CONTENTS = frozenset("base64 data file_id image_url input reasoning resource source uri url".split())
_MIME = re.compile(r"[\w.+-]{1,60}/[\w.+-]{1,60}", re.ASCII)
_LONGEST_NAME = 200

_BAD_TEXT = re.compile("[\0\ud800-\udfff]")
_FILE_STEM = re.compile(r"[A-Za-z0-9_-]{1,40}")
_BREAKS = (
    ("\u0085".encode(), b"\\u0085"),
    ("\u2028".encode(), b"\\u2028"),
    ("\u2029".encode(), b"\\u2029"),
)
"""Line breaks for some readers of NDJSON, beside LF."""


def one_line(data: bytes) -> bytes:
    """Escape the line breaks of compact JSON; without any, return ``data`` itself."""
    if data.isascii():
        return data
    for char, escaped in _BREAKS:
        data = data.replace(char, escaped)
    return data


class Canonical(msgspec.Struct, frozen=True, kw_only=True):
    value: Any
    notes: tuple[str, ...] = ()
    """What was changed, as ``path: change``; after ``MAX_NOTES`` of them, how many more."""
    blobs: tuple[Blob, ...] = ()


def canonical(value: object, *, depth: int = MAX_DEPTH) -> Canonical:
    """Return ``value`` as valid, finite JSON of at most ``depth`` levels and ``MAX_BYTES``."""
    walk = _Walk(depth)
    safe = walk.start(value)
    return Canonical(value=safe, notes=walk.summary(), blobs=tuple(walk.blobs.values()))


def canonical_json(value: Any) -> bytes:
    """Encode a canonical value for digests: keys sorted, no spaces."""
    return msgspec.json.encode(value, order="sorted")


def json_size(value: Any) -> int:
    """Return the bytes that ``value`` takes as one line of JSON."""
    return len(one_line(msgspec.json.encode(value)))


def clean_text(text: str) -> str:
    """Replace NUL and lone surrogates by U+FFFD; return the same object if there were none.

    Two halves of a surrogate pair become their character, so join the pieces of a stream first.
    """
    if type(text) is not str:
        text = str.__str__(text)
    if (text.isascii() and "\0" not in text) or not _BAD_TEXT.search(text):
        return text
    return text.replace("\0", "\ufffd").encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def free_key(key: str, taken: dict[str, Any], repeats: dict[str, int]) -> str:
    """Return ``key``, or ``key~2``, ``key~3`` … if taken; ``repeats`` has the last number."""
    if key not in taken:
        return key
    number = repeats.get(key, 1) + 1
    while f"{key}~{number}" in taken:
        number += 1
    repeats[key] = number
    return f"{key}~{number}"


def to_result(value: object) -> tuple[ToolResult, tuple[str, ...], tuple[Blob, ...]]:
    """Turn a tool's return value into a result, with notes and blobs. Never raises."""
    file = _carried_file(value)
    if file is not None:
        return msgspec.convert(file.reference(), type=FileRef), (), (file,)
    safe = canonical(value, depth=PAYLOAD_DEPTH)
    result, notes = _shaped(safe.value)
    return result, safe.notes + notes, safe.blobs


def _shaped(value: Any) -> tuple[ToolResult, tuple[str, ...]]:
    if value is None or isinstance(value, str):
        return Text(text=value or ""), ()
    if isinstance(value, dict) and "kind" in value:
        return _of_its_kind(value)
    rows = value["result"] if isinstance(value, dict) and value.keys() == {"result"} else value
    if isinstance(rows, list) and rows and all(isinstance(row, dict) for row in rows):
        return _of_dicts(rows) or Json(data=value), ()
    return Json(data=value), ()


def _of_its_kind(value: dict[str, Any]) -> tuple[ToolResult, tuple[str, ...]]:
    try:
        result: ToolResult = msgspec.convert(value, type=ToolResult)
    except msgspec.ValidationError:  # another meaning of ``kind``
        return Json(data=value), ()
    if isinstance(result, Table):
        return table(result.columns, result.rows, total=result.total)
    return result, ()


def _of_dicts(rows: list[dict[str, Any]]) -> Text | Table | None:
    """Only text blocks are text; other dicts are a table, unless most cells would be empty."""
    if all(_is_text_block(row) for row in rows):
        return Text(text="\n".join(row["text"] for row in rows))
    if all(_is_text_block(row) or _is_other_block(row) for row in rows):
        return None
    columns = tuple(dict.fromkeys(name for row in rows for name in row))
    given, cells = sum(map(len, rows)), len(rows) * len(columns)
    if cells > _SPARSE * given:
        return None
    result = Table(columns=columns, rows=tuple(tuple(row.get(name) for name in columns) for row in rows))
    return None if cells > given and json_size(result) > MAX_BYTES else result


def _is_text_block(row: dict[str, Any]) -> bool:
    return row.get("type") == "text" and isinstance(row.get("text"), str)


def _is_other_block(row: dict[str, Any]) -> bool:
    return row.get("type") in _BLOCK_TYPES and not _BLOCK_CONTENTS.isdisjoint(row)


def _carried_file(value: Any) -> Blob | None:
    """Decode the file that a ``file_ref`` carries as ``bytes_b64``."""
    if not issubclass(type(value), dict):
        return None
    try:
        items = list(dict.items(value))  # by dict's own method, not by that of a subclass
        given = {name: part for name, part in items if type(name) is str and type(part) is str}
        if given.get("kind") != "file_ref" or "bytes_b64" not in given:
            return None
        data = b64decode("".join(given["bytes_b64"].split()), validate=True)
    except (ValueError, RuntimeError):  # not base64, or a dict that changes while it is read
        return None
    filename = clean_text(given.get("filename", "")[:_LONGEST_NAME])
    mime = given.get("mime", "")
    if not _MIME.fullmatch(mime):
        mime = introspection.sniff(data)
    return make_blob(data, mime=mime, filename=filename)


class _Walk:
    """One pass over one value: the room that is left, and the changes made so far."""

    def __init__(self, depth: int) -> None:
        self.blobs: dict[str, Blob] = {}
        self._depth = depth
        self._room = _ROOM
        self._ran_out = False
        self._notes: list[str] = []
        self._changes = 0
        self._path: list[str | int] = []
        self._open: set[int] = set()
        self._stored: dict[int, tuple[object, dict[str, Any]]] = {}

    def start(self, value: object) -> Any:
        try:
            safe = self._value(value, self._depth, "$")
        except RuntimeError:  # stack overflow, or a container that changes while it is read
            self._path.clear()
            return self._closed(value, self._depth, "$", "could not be read")
        if _ROOM - self._room > _SURELY_SMALL and json_size(safe) > MAX_BYTES:
            return self.spill(canonical_json(safe), "application/json", "$")
        return safe

    def summary(self) -> tuple[str, ...]:
        notes = list(self._notes)
        if self._ran_out:
            notes.append("$: too much data, the end is missing")
        if self._changes > MAX_NOTES:
            notes.append(f"$: {self._changes - MAX_NOTES} more changes")
        return tuple(notes)

    def spill(self, data: bytes, mime: str, key: str | int) -> dict[str, Any]:
        """Move ``data`` to a document; the reference shows its beginning."""
        self._note(key, "too large, became a document")
        preview = data[: PREVIEW * 4].decode(errors="ignore")[:PREVIEW]
        return self._document(data, mime, key) | {"preview": preview}

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
        clean = clean_text(text)
        if clean is not text and clean.count("\ufffd") > text.count("\ufffd"):
            self._note(key, "NUL or lone surrogate became U+FFFD")
        return clean

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
        container = kind is dict or kind is list or introspection.is_container(kind)
        plain = value if container else introspection.plain(value)
        if plain is introspection.UNKNOWN:
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
            safe: Any = self._mapping(list(dict.items(value)), depth - 1)
        else:
            safe = self._sequence(introspection.members(value, kind), depth - 1)
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
        """Return a string for a key: text as it is, other values as canonical JSON."""
        if type(key) is str:
            return self._string(key, "(key)")
        if issubclass(type(key), bytes):
            return self._string(bytes.decode(key, errors="replace"), "(key)")
        safe = self._value(key, depth, "(key)")
        return safe if type(safe) is str else canonical_json(safe).decode()

    def _bytes(self, data: bytes, key: str | int) -> dict[str, Any]:
        self._note(key, "bytes became a document")
        return self._document(data, introspection.sniff(data), key)

    def _document(self, data: bytes, mime: str, key: str | int) -> dict[str, Any]:
        stem = key if type(key) is str and _FILE_STEM.fullmatch(key) else "data"
        blob = make_blob(data, mime=mime, filename=stem)
        return self.blobs.setdefault(blob.document_id, blob).reference()

    def _once(self, value: object, depth: int, key: str | int, store: Callable[[], dict[str, Any]]) -> Any:
        """Return the reference to a large ``value``; it is hashed once, however often it occurs."""
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
        name = clean_text(introspection.class_name(value))
        self._note(key, f"{name}: {why}")
        return {"$unserializable": name}

    def _cut(self, key: str | int) -> None:
        self._note(key, f"deeper than {self._depth} levels, cut")
