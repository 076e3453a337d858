"""A named part of a graph's state, after an envelope told that it has changed."""

from collections.abc import Sequence
from typing import Any

import msgspec

from stellwerk.envelope.payloads import StateChanged
from stellwerk.views import checklist

Operation = dict[str, Any]
"""Of RFC 6902: add, remove or replace; no writer of this log uses the rest."""

_MISFIT = (LookupError, ValueError, TypeError)


def after(before: Any, changed: StateChanged) -> tuple[Any, list[Operation]]:
    """The state, and the operations that lead to it; one of a patch that does not fit is left out.

    Nothing that was given out before is changed.
    """
    if changed.patch is None:
        whole = _whole(before, changed)
        return whole, [{"op": "add", "path": "", "value": whole}]
    state, done = {} if before is None else before, []
    for operation in changed.patch:
        try:
            state = _patched(state, operation)
        except _MISFIT:
            continue
        done.append(operation)
    return state, done


def pointer(parts: Sequence[str]) -> str:
    return "".join("/" + part.replace("~", "~0").replace("/", "~1") for part in parts)


def _whole(before: Any, changed: StateChanged) -> Any:
    """The snapshot; of checklists both, because tools that ran side by side each tell only their own change."""
    if changed.name != checklist.NAME:
        return changed.snapshot
    try:
        known, new = checklist.from_json(before or {}), checklist.from_json(changed.snapshot)
    except msgspec.ValidationError:  # a graph of the operator's may mean something else by this name
        return changed.snapshot
    return checklist.to_json(checklist.merged(known, new))


def _patched(state: Any, operation: Operation) -> Any:
    path = [part.replace("~1", "/").replace("~0", "~") for part in operation["path"].split("/")[1:]]
    match operation["op"]:
        case "add":
            return _put(state, path, operation.get("value"))
        case "remove":
            return _without(state, path)
        case "replace":
            return _put(_without(state, path), path, operation.get("value"))
        case other:
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
    if not path:
        return None
    key, rest = path[0], path[1:]
    if isinstance(node, dict):
        inner = node[key]
        return {**node, key: _without(inner, rest)} if rest else {k: v for k, v in node.items() if k != key}
    index = _index(node, key)
    return [*node[:index], *([_without(node[index], rest)] if rest else []), *node[index + 1 :]]


def _index(items: Any, key: str, *, end: bool = False) -> int:
    """``end`` allows the place behind the last item."""
    if not isinstance(items, list):
        raise LookupError(key)
    index = len(items) if key == "-" else int(key)
    if not 0 <= index < len(items) + end:
        raise LookupError(key)
    return index
