"""Stored objects come back as what they were, or not at all: only types that were allowed are rebuilt.

LangGraph's serialiser imports and calls what a stored blob names, unless it is
strict; and a strict one puts plain data in the place of what it blocked, and
goes on. Here a blocked type is an error that names it, if possible before it
is stored. Nothing is ever unpickled, and nothing is revived from JSON.
"""

import logging
from collections.abc import Iterable
from contextvars import ContextVar
from typing import Any

from stellwerk.agents.checkpoint_redaction import without_secrets
from stellwerk.envelope.redaction import Redactor
from stellwerk.errors import CorruptStore, SettingsError
from stellwerk.strictness import STRICT_MSGPACK

# isort: split
# LangGraph looks at the setting when it is imported, so the setting comes first.
import msgspec
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.serde.event_hooks import SerdeEvent, register_serde_event_listener
from langgraph.checkpoint.serde.jsonplus import (
    EXT_CONSTRUCTOR_KW_ARGS,
    EXT_CONSTRUCTOR_POS_ARGS,
    EXT_CONSTRUCTOR_SINGLE_ARG,
    EXT_METHOD_SINGLE_ARG,
    EXT_PYDANTIC_V1,
    EXT_PYDANTIC_V2,
    JsonPlusSerializer,
)

MSGPACK = "msgpack"
_READABLE = frozenset({"null", "bytes", "bytearray", MSGPACK})
_BLOCKED = frozenset({"msgpack_blocked", "msgpack_method_blocked"})

_PLAIN = frozenset({type(None), bool, int, float, str, bytes, list, tuple, dict, HumanMessage, AIMessage, ToolMessage})

_blocked: ContextVar[list[SerdeEvent] | None] = ContextVar("blocked", default=None)


def _note(event: SerdeEvent) -> None:
    """LangGraph swallows what a listener raises; so this one only takes notes, and the reader raises."""
    seen = _blocked.get()
    if seen is not None and event["kind"] in _BLOCKED:
        seen.append(event)


register_serde_event_listener(_note)


class StrictSerializer(JsonPlusSerializer):
    """LangGraph's serialiser without its leniency.

    Allowed are its own safe types (messages, dates, …) and what ``with_msgpack_allowlist`` adds, which
    LangGraph does by itself for the types that a graph's state schema names. What ``redactor`` knows is not stored.
    """

    def __init__(self, redactor: Redactor | None = None) -> None:
        super().__init__(pickle_fallback=False, allowed_json_modules=None, allowed_msgpack_modules=())
        self._readable: set[type] = set(_PLAIN)
        self._redactor = Redactor() if redactor is None else redactor  # an empty one may come to know more

    def with_msgpack_allowlist(self, extra_allowlist: Iterable[tuple[str, ...] | type]) -> JsonPlusSerializer:
        clone = super().with_msgpack_allowlist(extra_allowlist)
        if clone is not self and isinstance(clone, StrictSerializer):
            clone._readable = set(_PLAIN)
        return clone

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        """Serialise a value; a type that is met for the first time is tried, so that what is stored can be read.

        Raises:
            CorruptStore: the type is not allowed.
        """
        typed = without_secrets(super().dumps_typed(obj), self._redactor)
        if unknown := _kinds(obj) - self._readable:
            self.loads_typed(typed)
            self._readable |= unknown
        return typed

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        """Rebuild a value.

        Raises:
            CorruptStore: it holds a type that was not allowed, or is in a form that we never write.
        """
        if data[0] not in _READABLE:
            raise CorruptStore(f"a stored value has the form {data[0][:40]!r}, which is never written; do not trust it")
        seen: list[SerdeEvent] = []
        token = _blocked.set(seen)
        try:
            value = super().loads_typed(data)
        except ValueError as error:
            raise CorruptStore(f"a stored value is damaged ({error}); restore it from a backup") from error
        finally:
            _blocked.reset(token)
        if seen:
            raise _refusal(seen[0])
        return value


def _kinds(value: object) -> set[type]:
    """The types in sight: of the value and of its elements."""
    elements = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
    return {type(value), *map(type, elements)}


def _refusal(event: SerdeEvent) -> CorruptStore:
    module, name = event["module"], event["name"]
    if method := event.get("method"):
        return CorruptStore(f"stored state wants to call {module}.{name}.{method}, which is never allowed")
    return CorruptStore(
        f"the type {module}.{name} is not allowed in stored state; name it in the state schema of the graph, "
        f"or compile the graph with saver.with_allowlist([({module!r}, {name!r})])"
    )


_sprung: list[object] = []


def _trap(*args: object, **kwargs: object) -> None:
    """What the crafted blobs want to call."""
    _sprung.append((args, kwargs))


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
    if _sprung or not refused:
        _sprung.clear()
        raise SettingsError(
            f"a crafted checkpoint could run code here: LangGraph was imported before {STRICT_MSGPACK}=true was set; "
            "import stellwerk.settings first, or set it in the environment"
        )


def _refuses(kind: int, argument: object) -> bool:
    call = msgspec.msgpack.encode((__name__, _trap.__name__, argument, "__call__"))
    blob = msgspec.msgpack.encode([msgspec.msgpack.Ext(kind, call)])
    # This is how LangGraph's store and cache read.
    JsonPlusSerializer().loads_typed((MSGPACK, blob))
    try:
        StrictSerializer().loads_typed((MSGPACK, blob))
    except CorruptStore:
        return True
    return False


# Every way in which LangGraph's serialiser makes a blob into a call.
_CRAFTED: dict[int, object] = {
    EXT_CONSTRUCTOR_SINGLE_ARG: "x",
    EXT_CONSTRUCTOR_POS_ARGS: ["x"],
    EXT_CONSTRUCTOR_KW_ARGS: {"x": 1},
    EXT_METHOD_SINGLE_ARG: "x",
    EXT_PYDANTIC_V1: {"x": 1},
    EXT_PYDANTIC_V2: {"x": 1},
}
