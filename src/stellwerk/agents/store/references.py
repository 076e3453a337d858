"""Whether the code of a graph refers to the store."""

from collections.abc import Iterator
from types import CodeType, FunctionType
from typing import Any

from langchain_core.tools import BaseTool
from langgraph.pregel import Pregel

_LIBRARIES = {"langgraph", "langchain", "langchain_core", "deepagents", "stellwerk"}
_NAMES = {"get_store", "store"}


def uses_store(graph: Pregel[Any, Any, Any, Any]) -> bool:
    """Whether its nodes and tools, and functions that they call, refer to the store, as far as that can be seen."""
    seen: set[int] = set()
    waiting: list[Any] = [graph]
    while waiting:
        each = waiting.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        if isinstance(each, FunctionType):
            if each.__module__.partition(".")[0] in _LIBRARIES:
                continue
            names = set(_names(each.__code__))
            if names & _NAMES:
                return True
            called = [each.__globals__.get(name) for name in names]
            cells = [cell.cell_contents for cell in each.__closure__ or () if cell != type(cell)()]
            waiting += [one for one in (*called, *cells) if isinstance(one, FunctionType | BaseTool | Pregel)]
        else:
            waiting += _parts(each)
    return False


def _parts(each: Any) -> Iterator[Any]:
    """What a graph, a node, a runnable or a tool consists of."""
    if isinstance(each, Pregel):
        yield from each.nodes.values()
    for name in ("bound", "func", "afunc", "coroutine", "__func__", "__wrapped__"):
        if (part := getattr(each, name, None)) is not None:
            yield part
    if type(each).__module__.partition(".")[0] not in _LIBRARIES:
        yield type(each).__dict__.get("__call__")
    yield from getattr(each, "steps", None) or ()
    yield from (getattr(each, "tools_by_name", None) or {}).values()


def _names(code: CodeType) -> Iterator[str]:
    """Names that a function refers to, with its parameters and functions inside of it."""
    yield from code.co_names
    yield from code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)
