"""Stored state without secrets: what is known to be one is taken out of serialised bytes before they are stored.

LangGraph's objects are MessagePack inside MessagePack, as extension types. Only
bytes in which a secret is found are taken apart, and put together again with
other texts; nothing is ever rebuilt as an object here.
"""

from typing import Any

import msgspec
from msgspec.msgpack import Ext

from stellwerk.envelope.redaction import Redactor
from stellwerk.errors import CorruptStore

MSGPACK = "msgpack"


def without_secrets(typed: tuple[str, bytes], redactor: Redactor) -> tuple[str, bytes]:
    """
    Raises:
        CorruptStore: there is a secret in it that cannot be taken out.
    """
    form, data = typed
    if not redactor or not redactor.finds(bytes(data).decode(errors="replace")):
        return typed
    if form != MSGPACK:
        return form, _text_or_bytes(bytes(data), redactor)
    try:
        return form, _repacked(bytes(data), redactor)
    except (msgspec.MsgspecError, TypeError, RecursionError) as error:
        raise CorruptStore("there is a secret in the state, in a form in which it cannot be taken out") from error


def _repacked(data: bytes, redactor: Redactor) -> bytes:
    return msgspec.msgpack.encode(_redacted(msgspec.msgpack.decode(data), redactor))


def _redacted(value: Any, redactor: Redactor) -> Any:
    match value:
        case str():
            return redactor.redact_text(value)
        case bytes():
            return _text_or_bytes(value, redactor)
        case list() | tuple():
            return [_redacted(item, redactor) for item in value]
        case dict():
            return {_key(key, redactor): _redacted(item, redactor) for key, item in value.items()}
        case Ext(code=code, data=packed):
            return Ext(code, msgspec.msgpack.encode(_object(msgspec.msgpack.decode(packed), redactor)))
        case _:
            return value


def _object(inner: Any, redactor: Redactor) -> Any:
    """Of module, name, content and method, the content: what it is called is not told by a tenant."""
    match inner:
        case [str() as module, str() as name, *rest]:
            return [module, name, *(_redacted(part, redactor) for part in rest)]
        case _:
            return _redacted(inner, redactor)


def _key(key: Any, redactor: Redactor) -> Any:
    return redactor.redact_text(key) if isinstance(key, str) else key


def _text_or_bytes(data: bytes, redactor: Redactor) -> bytes:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return data
    return redactor.redact_text(text).encode()
