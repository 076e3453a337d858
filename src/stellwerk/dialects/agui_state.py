"""The state that an AG-UI client shares: the whole once in each run, then RFC 6902 patches.

It is one document. The outermost agent's states stand at its top by name;
those of a sub-agent below ``agents`` and its id, because agents that work side
by side have states of the same names. Nothing that was given out is ever
changed: a patch makes a new document.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from stellwerk.dialects.agui_events import event
from stellwerk.dialects.base import Chunk
from stellwerk.envelope.model import RunStart, State

_TODO = ("checklist", "todos")
"""States that are shown as an activity too."""
_AGENTS = "agents"
_MISFIT = (LookupError, ValueError, TypeError)


@dataclass
class SharedState:
    _document: dict[str, Any] = field(default_factory=dict)
    _sent: bool = False
    """The client has got the whole in this run."""

    def run_starts(self, start: RunStart) -> Iterator[Chunk]:
        self._sent = bool(self._document)
        if self._sent:
            yield event("STATE_SNAPSHOT", start, snapshot=self._document)

    def feed(self, changed: State, owner: str | None) -> Iterator[Chunk]:
        place = [changed.payload.name] if owner is None else [_AGENTS, owner, changed.payload.name]
        delta = list(self._apply(changed, place))
        if not self._sent:
            self._sent = True
            yield event("STATE_SNAPSHOT", changed, owner, snapshot=self._document)
        elif delta:
            yield event("STATE_DELTA", changed, owner, delta=delta)
        if changed.payload.name in _TODO and _has(self._document, place):
            yield self._todo(changed, owner, _get(self._document, place))

    def _apply(self, changed: State, place: list[str]) -> Iterator[Chunk]:
        """The operations that changed the document; a client would refuse a whole patch for one that does not fit."""
        patch, name = changed.payload.patch, _pointer(place)
        wanted = [{"op": "add", "path": name, "value": changed.payload.snapshot}]
        if patch is not None:
            wanted = [{**operation, "path": name + operation["path"]} for operation in patch]
        above = range(1, len(place) + (patch is not None))
        missing = [place[:depth] for depth in above if not _has(self._document, place[:depth])]
        for operation in [*({"op": "add", "path": _pointer(path), "value": {}} for path in missing), *wanted]:
            try:
                self._document = _patched(self._document, operation)
            except _MISFIT:
                continue
            yield operation

    def _todo(self, changed: State, owner: str | None, value: Any) -> Chunk:
        name = changed.payload.name
        content = {"name": name, **(value if isinstance(value, dict) else {"tasks": value})}
        place = {"messageId": f"todo-{name}" if owner is None else f"todo-{name}-{owner}", "activityType": "TODO"}
        return event("ACTIVITY_SNAPSHOT", changed, owner, **place, content=content, replace=True)


def _patched(document: Any, operation: Chunk) -> Any:
    """The document after one operation of RFC 6902; raises one of ``_MISFIT`` if it does not fit."""
    path, value = _parts(operation["path"]), operation.get("value")
    match operation["op"]:
        case "add":
            return _put(document, path, value)
        case "remove":
            return _without(document, path)
        case "replace":
            return _put(_without(document, path), path, value)
        case other:  # no writer of this log uses the rest
            raise ValueError(other)


def _put(node: Any, path: Sequence[str], value: Any) -> Any:
    if not path:
        return value
    key, rest = path[0], path[1:]
    if isinstance(node, dict):
        return {**node, key: _put(node[key] if rest else None, rest, value)}
    if rest:
        index = _index(node, key)
        return [*node[:index], _put(node[index], rest, value), *node[index + 1 :]]
    index = _index(node, key, end=True)
    return [*node[:index], value, *node[index:]]


def _without(node: Any, path: Sequence[str]) -> Any:
    key, rest = path[0], path[1:]
    if isinstance(node, dict):
        inner = node[key]
        return {**node, key: _without(inner, rest)} if rest else {k: v for k, v in node.items() if k != key}
    index = _index(node, key)
    return [*node[:index], *([_without(node[index], rest)] if rest else []), *node[index + 1 :]]


def _get(node: Any, path: Sequence[str]) -> Any:
    for key in path:
        node = node[key] if isinstance(node, dict) else node[_index(node, key)]
    return node


def _has(node: Any, path: Sequence[str]) -> bool:
    try:
        _get(node, path)
    except _MISFIT:
        return False
    return True


def _index(items: Any, key: str, *, end: bool = False) -> int:
    """``end`` allows the place behind the last item."""
    if not isinstance(items, list):
        raise LookupError(key)
    index = len(items) if key == "-" else int(key)
    if not 0 <= index < len(items) + end:
        raise LookupError(key)
    return index


def _pointer(parts: Sequence[str]) -> str:
    return "".join("/" + part.replace("~", "~0").replace("/", "~1") for part in parts)


def _parts(pointer: str) -> list[str]:
    return [part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:]]
