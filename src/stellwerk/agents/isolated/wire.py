"""Wire format between the server and the process of a graph: frames of MessagePack in both directions.

A graph may put any object into its state or its stream. The worker sends the data that such an
object declares (``envelope/introspection.py``), so that the server records what it would record of
the object itself, and needs none of the project's classes. Nothing here can make the server run code.
"""

import struct
import traceback
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, get_type_hints

import ormsgpack
from msgspec.structs import astuple

from stellwerk import errors
from stellwerk.envelope import introspection
from stellwerk.envelope.to_json import canonical, canonical_json
from stellwerk.stream import facts

LOG_LINE = "\x1e"
"""In front of a line of a worker's log on its standard error; other lines are what the project prints."""
HEADER = struct.Struct(">I")
"""The length of a frame, in front of it."""
LARGEST = 256 * 2**20
"""Bytes of a frame that the server takes from a worker; it holds a frame in memory until it is whole."""
_ARRAY = struct.Struct(">BI")
_ARRAY_OF = 0xDD
_SET, _TEXT, _CLOSED, _INTEGER = range(1, 5)
_DEEPEST = 70
"""Deeper than any envelope holds, so what is cut here is cut there as well."""
_PASSED_ON = ("DATACLASS", "DATETIME", "ENUM", "SUBCLASS", "UUID", "BIG_INT")
_OPTIONS = ormsgpack.OPT_NON_STR_KEYS
for _name in _PASSED_ON:
    _OPTIONS |= getattr(ormsgpack, f"OPT_PASSTHROUGH_{_name}", 0)

FACTS: Mapping[str, type[facts.Fact]] = {each.__name__: each for each in facts.Fact.__subclasses__()}
_TUPLES = {
    name: [
        place
        for place, each in enumerate(kind.__struct_fields__)
        if str(get_type_hints(kind)[each]).startswith("tuple")
    ]
    for name, kind in FACTS.items()
}
"""The fields that are tuples, which MessagePack does not have."""


def pack(message: list[Any]) -> bytes:
    """A message as MessagePack, with the declared data of objects in it. Never raises."""
    try:
        return ormsgpack.packb(message, default=_plain, option=_OPTIONS)
    except (TypeError, ValueError, RecursionError):  # a lone surrogate, an odd key, or a value that contains itself
        return ormsgpack.packb(_careful(message, _DEEPEST), default=_plain, option=_OPTIONS)


def frame(packed: list[bytes]) -> bytes:
    """One frame of packed messages."""
    body = b"".join(packed)
    return HEADER.pack(_ARRAY.size + len(body)) + _ARRAY.pack(_ARRAY_OF, len(packed)) + body


def unpack(data: bytes | memoryview) -> Any:
    return ormsgpack.unpackb(data, ext_hook=_extension, option=ormsgpack.OPT_NON_STR_KEYS)


def packed_fact(scope: int, fact: facts.Fact) -> bytes:
    return pack(["fact", scope, type(fact).__name__, astuple(fact)])


def fact_of(name: str, fields: list[Any]) -> facts.Fact:
    for place in _TUPLES[name]:
        fields[place] = tuple(fields[place])
    return FACTS[name](*fields)


def _plain(value: Any) -> Any:
    """The data of an object that MessagePack has no form for."""
    kind = type(value)
    if issubclass(kind, (set, frozenset)):
        return ormsgpack.Ext(_SET, pack(introspection.members(value, kind)))
    if kind is int:
        return ormsgpack.Ext(_INTEGER, hex(value).encode())
    if introspection.is_container(kind):
        if issubclass(kind, dict):
            return dict(dict.items(value))
        return bytes(value) if issubclass(kind, bytes) else introspection.members(value, kind)
    found = introspection.plain(value)
    if found is introspection.UNKNOWN:
        return ormsgpack.Ext(_CLOSED, introspection.class_name(value).encode(errors="replace"))
    return found


def _careful(value: Any, depth: int) -> Any:
    """The same in Python: slower, and for values that the library rejects."""
    kind = type(value)
    if kind is str:
        return value if _is_text(value) else ormsgpack.Ext(_TEXT, value.encode("utf-8", "surrogatepass"))
    if value is None or kind in (bool, int, float, bytes):
        return value
    if depth <= 0:
        return ormsgpack.Ext(_CLOSED, introspection.class_name(value).encode(errors="replace"))
    if kind is dict:
        return {_key(key): _careful(each, depth - 1) for key, each in value.items()}
    if kind in (list, tuple):
        return [_careful(each, depth - 1) for each in value]
    plain = _plain(value)
    return plain if isinstance(plain, ormsgpack.Ext) else _careful(plain, depth - 1)


def _is_text(text: str) -> bool:
    return text.isascii() or not any("\ud800" <= character <= "\udfff" for character in text)


def _key(key: Any) -> str:
    safe = canonical(key).value
    return safe if isinstance(safe, str) else canonical_json(safe).decode()


def _extension(tag: int, data: bytes) -> Any:
    match tag:
        case 1:
            members = unpack(data)
            try:
                return set(members)
            except TypeError:  # members with parts, such as objects that became mappings
                return members
        case 2:
            return data.decode("utf-8", "surrogatepass")
        case 3:
            return _closed(data.decode(errors="replace"))
        case _:
            return int(data, 16)


def _closed(name: str) -> object:
    """An object in place of one that is no data: only the name of its class is known."""
    return _closed_class(name)()


@lru_cache(maxsize=1000)
def _closed_class(name: str) -> type:
    return type(name, (), {"__slots__": ()})


class RemoteTraceback(Exception):
    """The traceback of an error in the process of a graph."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


def packed_error(error: BaseException) -> list[Any]:
    """Class, text and traceback of an error; of one of ours also its fields."""
    text = "".join(traceback.format_exception(error))
    if not isinstance(error, errors.StellwerkError):
        return [type(error).__name__, str(error), text, None]
    known = {name: value for name, value in vars(error).items() if isinstance(value, str | int | float | None)}
    return [type(error).__name__, error.message, text, {**known, "code": error.code}]


def error_of(packed: list[Any]) -> Exception:
    """The error again: one of ours as itself, any other as a class with its name."""
    name, message, text, known = packed
    if known is None:
        made: Exception = type(name, (Exception,), {})(message)
    else:
        kind = getattr(errors, name, errors.StellwerkError)
        ours: errors.StellwerkError = kind.__new__(kind)
        errors.StellwerkError.__init__(ours, message)
        vars(ours).update(known)
        made = ours
    made.__cause__ = RemoteTraceback(text)
    return made
