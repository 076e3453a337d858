"""Operations on LangGraph's store, and their results, as plain values."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, cast

from langgraph.store.base import GetOp, Item, ListNamespacesOp, MatchCondition, Op, PutOp, SearchItem, SearchOp

_OPS: tuple[type[Op], ...] = (GetOp, SearchOp, ListNamespacesOp, PutOp)


def packed_op(op: Op) -> tuple[str, list[Any]]:
    """An operation for the server."""
    if isinstance(op, ListNamespacesOp) and op.match_conditions:
        conditions = tuple((each.match_type, each.path) for each in op.match_conditions)
        op = op._replace(match_conditions=cast(Any, conditions))
    return type(op).__name__, list(op)


def op_of(name: str, fields: Sequence[Any]) -> Op:
    """An operation that a worker asks for."""
    kind: Any = {each.__name__: each for each in _OPS}[name]
    given = dict(zip(kind._fields, fields, strict=False))
    for field in ("namespace", "namespace_prefix"):
        if field in given:
            given[field] = tuple(given[field])
    if given.get("match_conditions"):
        given["match_conditions"] = tuple(
            MatchCondition(match_type, tuple(path)) for match_type, path in given["match_conditions"]
        )
    return cast(Op, kind(**given))


def packed_result(found: Any) -> list[Any] | None:
    """The result of an operation, for the worker."""
    if found is None:
        return None
    if isinstance(found, Item):
        return ["item", _packed_item(found)]
    if found and isinstance(found[0], Item):
        return ["items", [[*_packed_item(each), each.score] for each in found]]
    return ["namespaces", [list(each) for each in found]]


def _packed_item(item: Item) -> list[Any]:
    times = (item.created_at.isoformat(), item.updated_at.isoformat())
    return [item.value, item.key, list(item.namespace), *times]


def result_of(packed: Any) -> Any:
    if packed is None:
        return None
    kind, found = packed
    if kind == "namespaces":
        return [tuple(each) for each in found]
    if kind == "item":
        value, key, namespace, created_at, updated_at = found
        return Item(value=value, key=key, namespace=tuple(namespace), created_at=created_at, updated_at=updated_at)
    return [
        SearchItem(tuple(namespace), key, value, datetime.fromisoformat(made), datetime.fromisoformat(changed), score)
        for value, key, namespace, made, changed, score in found
    ]
