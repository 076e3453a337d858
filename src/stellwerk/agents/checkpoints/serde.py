"""Strict deserialisation of checkpoints, and redaction of secrets before they are stored.

LangGraph's serialiser imports and calls whatever a stored blob names, unless it is strict; a strict
one replaces a blocked type with plain data and continues. Here a blocked type is an error that
names it, if possible before it is stored. Nothing is ever unpickled or revived from JSON.
"""

import logging
from collections.abc import Iterable, Mapping
from contextvars import ContextVar
from dataclasses import is_dataclass
from typing import Any

import msgspec
import ormsgpack
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.serde import jsonplus
from langgraph.checkpoint.serde.event_hooks import SerdeEvent, register_serde_event_listener
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from msgspec.msgpack import Ext
from pydantic import BaseModel

from stellwerk.errors import CorruptStore, SettingsError, UnstorableState
from stellwerk.langgraph_env import STRICT_MSGPACK
from stellwerk.redaction.redactor import Redactor

MSGPACK = "msgpack"
_FORMATS = frozenset({"null", "bytes", "bytearray", MSGPACK})
_BLOCKED = frozenset({"msgpack_blocked", "msgpack_method_blocked"})

_BASE_TYPES: frozenset[type] = frozenset((tuple, HumanMessage, AIMessage, ToolMessage))

_PLAIN_DATA = "put plain data into the state instead: texts, numbers, dates, lists, mappings, or a data class of them"
_DEEPEST = 20
"""Levels of a value in which a type is looked for."""

_blocked_events: ContextVar[list[SerdeEvent] | None] = ContextVar("blocked", default=None)


def _record_blocked(event: SerdeEvent) -> None:
    """LangGraph swallows a listener's errors: this one records, and ``loads_typed`` raises."""
    seen = _blocked_events.get()
    if seen is not None and event["kind"] in _BLOCKED:
        seen.append(event)


register_serde_event_listener(_record_blocked)


class StrictSerializer(JsonPlusSerializer):
    """LangGraph's serialiser with an allowlist of types.

    It allows LangGraph's safe types (messages, dates, …) and those of ``with_msgpack_allowlist``:
    LangGraph adds the types of a graph's state schema. Secrets of ``redactor`` are not stored.
    """

    def __init__(self, redactor: Redactor | None = None) -> None:
        super().__init__(pickle_fallback=False, allowed_json_modules=None, allowed_msgpack_modules=())
        self._verified: frozenset[type] = _BASE_TYPES  # a clone, which allows more, starts with these
        self.redactor = Redactor() if redactor is None else redactor  # it may learn secrets later

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        """Serialise a value. A new type is read back once, so that every stored value can be read.

        Raises:
            UnstorableState: it has a type that cannot be serialised.
            CorruptStore: it has a type that is not allowed.
        """
        if obj is None or isinstance(obj, bytes | bytearray):
            return without_secrets(super().dumps_typed(obj), self.redactor)
        found: set[type] = set()

        def encoded(part: Any) -> Any:
            found.add(type(part))  # private, but the only place that sees each type; a canary test pins it
            return jsonplus._msgpack_default(part)

        try:
            packed = ormsgpack.packb(obj, default=encoded, option=jsonplus._option)
        except TypeError as error:
            raise _unstorable(obj) from error
        typed = without_secrets((MSGPACK, packed), self.redactor)
        if unknown := found - self._verified:
            self.loads_typed(typed)
            self._verified |= unknown
        return typed

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        """Rebuild a value.

        Raises:
            CorruptStore: it has a type that is not allowed, or a format that is never written.
        """
        if data[0] not in _FORMATS:
            form = data[0][:40]
            raise CorruptStore(f"a stored value has the form {form!r}, which is never written; do not trust it")
        seen: list[SerdeEvent] = []
        token = _blocked_events.set(seen)
        try:
            value = super().loads_typed(data)
        except ValueError as error:
            raise CorruptStore(f"a stored value is damaged ({error}); restore it from a backup") from error
        finally:
            _blocked_events.reset(token)
        if seen:
            raise _not_allowed(seen[0])
        return value


def _not_allowed(event: SerdeEvent) -> CorruptStore:
    module, name = event["module"], event["name"]
    if method := event.get("method"):
        call = f"stored state wants to call {module}.{name}.{method}, which is never allowed"
        return CorruptStore(f"{call}; {_PLAIN_DATA}")
    return CorruptStore(
        f"the type {module}.{name} is not allowed in stored state; name it in the state schema of the graph, "
        f"or allow it in the operator's file: state_types: {{all: ['{module}:{name}']}}"
    )


def _unstorable(obj: Any) -> UnstorableState:
    kind = type(_culprit(obj))
    return UnstorableState(f"the type {kind.__module__}.{kind.__qualname__} cannot be stored; {_PLAIN_DATA}")


def _culprit(obj: Any, depth: int = 0) -> Any:
    """The innermost part of a value that cannot be serialised."""
    parts: Iterable[Any] = ()
    if isinstance(obj, Mapping):
        parts = obj.values()
    elif isinstance(obj, list | tuple | set | frozenset):
        parts = obj
    elif isinstance(obj, BaseModel) or is_dataclass(obj):
        parts = vars(obj).values() if hasattr(obj, "__dict__") else ()
    if depth < _DEEPEST:
        for part in parts:
            try:
                JsonPlusSerializer(pickle_fallback=False).dumps_typed(part)
            except TypeError:
                return _culprit(part, depth + 1)
    return obj


def without_secrets(typed: tuple[str, bytes], redactor: Redactor) -> tuple[str, bytes]:
    format_, data = typed[0], bytes(typed[1])
    if not redactor or not redactor.finds(data.decode(errors="replace")):
        return typed
    if format_ != MSGPACK:
        return format_, _redacted(data, redactor)
    try:
        return format_, msgspec.msgpack.encode(_redacted(msgspec.msgpack.decode(data), redactor))
    except (msgspec.MsgspecError, TypeError, RecursionError) as error:
        problem = "there is a secret in the state, in a form in which it cannot be taken out"
        raise CorruptStore(problem) from error


def _redacted(value: Any, redactor: Redactor) -> Any:
    match value:
        case str():
            return redactor.redact_text(value)
        case bytes():
            try:
                return redactor.redact_text(value.decode()).encode()
            except UnicodeDecodeError:
                return value
        case list() | tuple():
            return type(value)(_redacted(item, redactor) for item in value)
        case dict():
            return {_redacted(key, redactor): _redacted(item, redactor) for key, item in value.items()}
        case Ext(code=code, data=packed):
            match msgspec.msgpack.decode(packed):
                case [str() as module, str() as name, *rest]:  # these two do not come from a tenant
                    redacted: Any = [module, name, *_redacted(rest, redactor)]
                case inner:
                    redacted = _redacted(inner, redactor)
            return Ext(code, msgspec.msgpack.encode(redacted))
        case _:
            return value


_trapped_calls: list[object] = []


def _trap(*args: object, **kwargs: object) -> None:
    """The function that the crafted blobs try to call."""
    _trapped_calls.append((args, kwargs))


def prove_strict() -> None:
    """Try to run code from crafted blobs, through our reader and through LangGraph's own.

    Raises:
        SettingsError: a blob ran code, or was not refused; the server must not start.
    """
    warnings = logging.getLogger(JsonPlusSerializer.__module__)
    muted, warnings.disabled = warnings.disabled, True
    try:
        refused = all(_refuses(kind, argument) for kind, argument in _CRAFTED.items())
    finally:
        warnings.disabled = muted
    if _trapped_calls or not refused:
        _trapped_calls.clear()
        raise SettingsError(
            f"a crafted checkpoint could run code here: LangGraph was imported before {STRICT_MSGPACK}=true was set; "
            "import stellwerk.settings first, or set it in the environment"
        )


def _refuses(kind: int, argument: object) -> bool:
    call = msgspec.msgpack.encode((__name__, _trap.__name__, argument, "__call__"))
    blob = msgspec.msgpack.encode([msgspec.msgpack.Ext(kind, call)])
    # LangGraph's store and cache read like this.
    JsonPlusSerializer().loads_typed((MSGPACK, blob))
    try:
        StrictSerializer().loads_typed((MSGPACK, blob))
    except CorruptStore:
        return True
    return False


# Every extension type that LangGraph's serialiser turns into a call.
_CRAFTED: dict[int, object] = {
    jsonplus.EXT_CONSTRUCTOR_SINGLE_ARG: "x",
    jsonplus.EXT_CONSTRUCTOR_POS_ARGS: ["x"],
    jsonplus.EXT_CONSTRUCTOR_KW_ARGS: {"x": 1},
    jsonplus.EXT_METHOD_SINGLE_ARG: "x",
    jsonplus.EXT_PYDANTIC_V1: {"x": 1},
    jsonplus.EXT_PYDANTIC_V2: {"x": 1},
}
