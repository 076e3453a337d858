"""Introspection: reads the declared data of objects of unknown classes, without trusting them.

This is the only duck typing in the project. A class is recognised by its bases
or its declarations, never by asking the instance, and only declared data is
read: an object of any other class stays closed, as its attributes may be secrets.
"""

import dataclasses
from collections import deque
from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from hashlib import sha256
from pathlib import PurePath
from types import MappingProxyType
from typing import Any, Final

import msgspec

MASK: Final = "**********"
UNKNOWN: Final = object()
CONTAINERS: Final = (dict, list, tuple, set, frozenset, bytes)
_STEPS = 8
"""An enum may hold a model that dumps to a subclass of str …: more steps are an attack."""

# A class can lie about its name and its bases through its metaclass; these cannot be overridden.
_name = type.__dict__["__name__"].__get__
_mro = type.__dict__["__mro__"].__get__
_declarations = type.__dict__["__dict__"].__get__

_SECRET_FIELDS = frozenset(
    "access_token api_key apikey auth_token authorization client_secret credentials passphrase passwd password"
    " private_key refresh_token secret secret_key".split()
)
_TEXTUAL = frozenset({"uuid.UUID", "pydantic.networks.AnyHttpUrl", "pydantic.networks.HttpUrl"})
_MESSAGE_FIELDS = {"type", "content", "additional_kwargs"}
_MESSAGE_PARTS = ("id", "name", "tool_calls", "tool_call_id", "status", "usage_metadata")

_BASE62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_MAGIC = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
    (b"%PDF-", "application/pdf"),
    (b"PK\x03\x04", "application/zip"),
)
_EXTENSIONS = {"text/plain": "txt", "application/octet-stream": "bin"}


class Blob(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes to store beside the log. The same bytes have the same id everywhere."""

    document_id: str
    digest: str
    data: bytes
    mime: str
    filename: str

    def reference(self) -> dict[str, Any]:
        """Return the ``file_ref`` that replaces the bytes in a value."""
        named = {"document_id": self.document_id, "filename": self.filename, "mime": self.mime}
        return {"kind": "file_ref", **named, "size": len(self.data)}


def make_blob(data: bytes, *, mime: str, filename: str) -> Blob:
    """Name ``data`` by its digest; add a missing extension to its file name, drop its folders."""
    digest = sha256(data)
    document_id = document_id_of(digest.digest())
    name = filename.replace("\\", "/").rpartition("/")[2] or "data"
    if "." not in name:
        extension = _EXTENSIONS.get(mime) or mime.rpartition("/")[2]
        name = f"{name}.{extension if extension.isalnum() else 'bin'}"
    return Blob(document_id=document_id, digest=digest.hexdigest(), data=data, mime=mime, filename=name)


def document_id_of(digest: bytes) -> str:
    """Return the document id for a SHA-256 digest."""
    number, document_id = int.from_bytes(digest), ""
    for _ in range(22):
        number, digit = divmod(number, 62)
        document_id += _BASE62[digit]
    return document_id


def sniff(data: bytes) -> str:
    """Guess the media type: a few formats by their first bytes, text, or just bytes."""
    for magic, mime in _MAGIC:
        if data.startswith(magic):
            return mime
    try:
        return "application/octet-stream" if "\0" in data.decode() else "text/plain"
    except UnicodeDecodeError:
        return "application/octet-stream"


def class_name(value: object) -> str:
    """Return the name of its class; a metaclass cannot override it."""
    return str(_name(type(value)))[:80]


def plain(value: object) -> Any:
    """Return ``value`` as a JSON scalar or a builtin container; UNKNOWN if it is not data.

    Never raises; only ``KeyboardInterrupt`` passes, as it is not about the value.
    """
    for _ in range(_STEPS):
        value = _attempt(_step, value)
        if value is UNKNOWN or _is_plain(type(value)):
            return value
    return UNKNOWN


def members(value: Any, kind: type) -> list[Any]:
    """Read a list, tuple or set by its own iterator and not by that of a subclass."""
    for base in (list, tuple, set):
        if issubclass(kind, base):
            return list(base.__iter__(value))
    return list(frozenset.__iter__(value))


def is_container(kind: type) -> bool:
    return issubclass(kind, CONTAINERS) and not issubclass(kind, Enum)


def _is_plain(kind: type) -> bool:
    return kind is str or kind is int or kind is float or kind is bool or kind is type(None) or is_container(kind)


def _attempt(read: Callable[[Any], Any], value: object) -> Any:
    try:
        return read(value)
    except KeyboardInterrupt:
        raise
    # The one place that runs code of unknown classes (``model_dump``, ``__str__``, tzinfo,
    # descriptors). Any error, even a CancelledError or SystemExit of its own, only means that this
    # value cannot be read.
    except BaseException:  # noqa: BLE001
        return UNKNOWN


def _step(value: Any) -> Any:
    kind = type(value)
    for base, read in _BY_BASE:
        if issubclass(kind, base):
            return read(value)
    if any(_qualified(each) in _TEXTUAL for each in _mro(kind)):
        return str(value)
    for name, read in _BY_DECLARATION:
        if _declared(kind, name) is not UNKNOWN:
            return read(value)
    return UNKNOWN


def _qualified(kind: type) -> str:
    return f"{_declarations(kind).get('__module__')}.{_name(kind)}"


def _declared(kind: type, name: str) -> Any:
    for each in _mro(kind):
        found = _declarations(each).get(name, UNKNOWN)
        if found is not UNKNOWN:
            return found
    return UNKNOWN


def _decimal(value: Decimal) -> Any:
    return Decimal.__str__(value) if Decimal.is_finite(value) else float("nan")


def _exception(value: BaseException) -> Any:
    text = _attempt(str, value)
    return {"error": class_name(value), "message": "" if text is UNKNOWN else text}


def _struct(value: msgspec.Struct) -> Any:
    config = value.__struct_config__
    tag = {} if config.tag_field is None else {config.tag_field: config.tag}
    names = zip(value.__struct_encode_fields__, value.__struct_fields__, strict=True)
    return tag | {encoded: _field(name, getattr(value, name)) for encoded, name in names}


def _dataclass(value: Any) -> Any:
    """Read the fields of a dataclass, except those kept out of ``repr``."""
    found = {}
    for field in dataclasses.fields(value):
        if field.name == "stream_writer":
            return UNKNOWN  # a runtime of LangGraph: it holds the context, which has secrets of tenants
        name = field.name if field.repr else "secret"
        found[field.name] = _field(name, getattr(value, field.name, None))
    return found


def _field(name: str, value: Any) -> Any:
    return MASK if value is not None and name.lower().lstrip("_") in _SECRET_FIELDS else value


def _model(value: Any) -> Any:
    """Read a model by its ``model_dump``, which knows exclusions; a chat message by main parts."""
    fields = _declared(type(value), "__pydantic_fields__")
    if fields is UNKNOWN:  # before Pydantic 2.10
        fields = _declared(type(value), "model_fields")
    if fields is UNKNOWN:
        return value.model_dump()
    if _MESSAGE_FIELDS <= fields.keys():
        return _message(value)
    return value.model_dump(mode="python", warnings=False)


def _message(value: Any) -> Any:
    parts = {"type": value.type, "content": value.content}
    for name in _MESSAGE_PARTS:
        part = getattr(value, name, None)
        if part is not None and not (type(part) is list and not part):
            parts[name] = part
    return parts


_DICT_VIEWS: tuple[type, ...] = (type({}.keys()), type({}.values()), type({}.items()))
_BY_BASE: tuple[tuple[type | tuple[type, ...], Callable[[Any], Any]], ...] = (
    (Enum, lambda value: object.__getattribute__(value, "_value_")),
    (str, str.__str__),
    (int, int.__int__),
    (float, float.__float__),
    (bytearray, bytes),
    (memoryview, memoryview.tobytes),
    (datetime, datetime.isoformat),
    (date, date.isoformat),
    (time, time.isoformat),
    (timedelta, timedelta.total_seconds),
    (Decimal, _decimal),
    (PurePath, PurePath.__str__),
    (BaseException, _exception),
    (deque, lambda value: list(deque.__iter__(value))),
    (MappingProxyType, MappingProxyType.copy),
    (_DICT_VIEWS, list),
    (msgspec.Struct, _struct),
)

_BY_DECLARATION: tuple[tuple[str, Callable[[Any], Any]], ...] = (
    ("get_secret_value", lambda value: MASK),
    ("ainvoke", lambda value: UNKNOWN),  # a model, a tool or a graph is not data
    ("model_dump", _model),
    ("__dataclass_fields__", _dataclass),
)
