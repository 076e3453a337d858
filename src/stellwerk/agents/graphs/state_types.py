"""Types in the state of a graph, for the allow list of strict checkpoint deserialisation.

LangGraph allows some by itself; this also finds those in other containers, named tuples, and the
schemas behind ``create_agent(response_format=…)``. Types that no schema names stay forbidden.
"""

import dataclasses
import inspect
import sys
from collections.abc import Iterator
from contextlib import suppress
from enum import Enum
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

from langgraph.pregel import Pregel
from pydantic import BaseModel

AllowedType = tuple[str, ...]
"""Module and name, as LangGraph's savers take them."""


def state_types(graph: Pregel[Any, Any, Any, Any]) -> set[AllowedType]:
    """The types in the schemas of a graph and its sub-graphs."""
    inside = [found for _, found in graph.get_subgraphs(recurse=True) if isinstance(found, Pregel)]
    pending = [schema for each in (graph, *inside) for schema in _schemas(each)]
    found: set[AllowedType] = set()
    seen: dict[int, Any] = {}  # Annotations need not be hashable; kept alive, so that ids stay unique.
    while pending:
        annotation = pending.pop()
        if id(annotation) not in seen:
            seen[id(annotation)] = annotation
            pending += _mentioned(annotation)
            if _is_stored_by_name(annotation):
                found.add((annotation.__module__, annotation.__name__))
    return found


def hints_of(schema: Any) -> dict[str, Any]:
    """The fields of a class and their types; what cannot be resolved is left as a string."""
    if not inspect.isclass(schema):
        return {}
    module = sys.modules.get(schema.__module__)
    names = vars(module) if module else None
    try:
        return get_type_hints(schema, names, dict(vars(schema)), include_extras=True)
    except (NameError, TypeError, AttributeError, SyntaxError):
        return dict(inspect.get_annotations(schema))


def entry_type(graph: Pregel[Any, Any, Any, Any]) -> Any:
    """The type of the input of a function of the functional API; Any if it cannot be found.

    LangGraph keeps the annotation as it is written: a string, after ``from __future__ import annotations``.
    """
    key = graph.input_channels
    written = getattr(graph.channels[key], "UpdateType", Any) if isinstance(key, str) else Any
    if not isinstance(written, str):
        return written
    for node in graph.nodes.values():
        function: Any = getattr(node.bound, "func", None) or getattr(node.bound, "afunc", None)
        with suppress(NameError, TypeError, AttributeError, SyntaxError):
            hints = get_type_hints(function, include_extras=True)
            parameter = next(iter(inspect.signature(function).parameters))
            return hints.get(parameter, Any)
    return Any


def _schemas(graph: Pregel[Any, Any, Any, Any]) -> Iterator[Any]:
    for channel in graph.channels.values():
        yield getattr(channel, "ValueType", None)
        yield getattr(channel, "UpdateType", None)
    builder = getattr(graph, "builder", None)
    if builder is None:
        yield entry_type(graph)
        return
    yield from (builder.state_schema, builder.input_schema, builder.output_schema)
    for node in builder.nodes.values():
        yield node.input_schema
        yield from _response_formats(node.runnable)
    for branches in builder.branches.values():
        yield from (branch.input_schema for branch in branches.values())


def _response_formats(runnable: Any) -> Iterator[Any]:
    """The response format of ``create_agent``: only its model node has it, not the state schema."""
    langchain = sys.modules.get("langchain.agents.structured_output")
    if langchain is None:  # so there is none: a graph without LangChain must not import it
        return
    strategies = langchain.ToolStrategy, langchain.ProviderStrategy, langchain.AutoStrategy
    for function in (getattr(runnable, "func", None), getattr(runnable, "afunc", None)):
        for cell in getattr(function, "__closure__", None) or ():
            with suppress(ValueError):  # a cell may be empty
                if isinstance(cell.cell_contents, strategies):
                    yield cell.cell_contents.schema


def _mentioned(annotation: Any) -> list[Any]:
    """The parts of an annotation: arguments of a generic, target of an alias, fields of a class."""
    origin = get_origin(annotation)
    if origin is Literal:
        return []
    if origin is Annotated:
        return [get_args(annotation)[0]]
    aliased = [getattr(annotation, name, None) for name in ("__supertype__", "__value__")]
    return [*get_args(annotation), *aliased, origin, *hints_of(annotation).values()]


def _is_stored_by_name(annotation: Any) -> bool:
    """Whether the serialiser stores such objects by type name, and so restores only allowed ones."""
    if not inspect.isclass(annotation):
        return False
    named_tuple = issubclass(annotation, tuple) and hasattr(annotation, "_fields")
    return dataclasses.is_dataclass(annotation) or issubclass(annotation, BaseModel | Enum) or named_tuple
