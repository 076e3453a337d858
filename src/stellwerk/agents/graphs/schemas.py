"""What a graph wants and gives, as published: JSON Schemas of bounded size, and its nodes."""

import json
from functools import lru_cache
from typing import Any

from langgraph.channels import AnyValue, EphemeralValue, LastValue, LastValueAfterFinish, UntrackedValue
from langgraph.graph import START, StateGraph
from langgraph.pregel import Pregel
from pydantic import TypeAdapter
from pydantic.errors import PydanticUserError
from pydantic_core import SchemaValidator

from stellwerk.agents.graphs.input import (
    ROOT,
    field_types,
    find_input,
    input_shape,
    required_fields,
    takes_messages,
    unwrapped,
)
from stellwerk.agents.graphs.state_types import hints_of
from stellwerk.errors import BrokenReference

_LARGEST_SCHEMA = 64 * 1024
_REPLACED = (LastValue, LastValueAfterFinish, AnyValue, EphemeralValue, UntrackedValue)
"""Channels whose value an update replaces; all others combine the two."""


@lru_cache(maxsize=200)
def graph_schemas(graph: Any, input_key: str | None = None) -> dict[str, Any]:
    """The schemas of input, output, state, context and config, and the names of the nodes.

    Empty for a factory of graphs. A graph without a context schema has neither that nor one of config.
    """
    if not isinstance(graph, Pregel | StateGraph):
        return {}
    found = {"input_schema": _input_schema(graph), **_text_input(graph, input_key)}
    found |= {"output_schema": output_schema(graph), **_state_schema(graph)}
    wanted: Any = graph.context_schema
    if wanted is not None:
        schema = _schema(field_types(wanted), required_fields(wanted))
        found["context_schema"] = schema
        found["config_schema"] = {"type": "object", "properties": {"configurable": schema}}
    return {**found, "nodes": [name for name in graph.nodes if name != START]}


def _input_schema(graph: Any) -> dict[str, Any]:
    shape = input_shape(graph)
    if shape.fields is None:
        return _schema({ROOT: shape.whole})
    schema = _schema(shape.fields, shape.required)
    return {**schema, "additionalProperties": True} if shape.is_open else schema


def _text_input(graph: Any, input_key: str | None) -> dict[str, Any]:
    """Whether the text of a message has a place in the input, and under which key."""
    try:
        found = find_input(graph, name="", key=input_key)
    except BrokenReference:  # the graph cannot be used, which is reported elsewhere
        return {}
    key = {} if found.key is None else {"text_key": found.key}
    return {"takes_text": found.form != "none", **key}


def _state_schema(graph: Any) -> dict[str, Any]:
    """The keys of the state, and those that a reducer combines with what they have."""
    builder: Any = graph if isinstance(graph, StateGraph) else getattr(graph, "builder", None)
    if builder is None or ROOT in builder.channels:
        return {}
    hints = {key: hint for schema in builder.schemas for key, hint in hints_of(schema).items()}
    channels = {key: channel for key, channel in builder.channels.items() if not key.startswith("__")}
    reduced = [key for key, channel in channels.items() if not isinstance(channel, _REPLACED)]
    return {"state_schema": _schema({key: hints.get(key, Any) for key in channels}), "reducers": reduced}


@lru_cache(maxsize=200)
def output_schema(graph: Any) -> dict[str, Any] | None:
    """The JSON Schema of a graph's final state; None for a factory of graphs."""
    if not isinstance(graph, Pregel | StateGraph):
        return None
    builder: Any = graph if isinstance(graph, StateGraph) else getattr(graph, "builder", None)
    hints: dict[str, Any] = {}
    outputs: Any = getattr(graph, "output_channels", ())
    if builder is not None:
        hints = hints_of(builder.output_schema)
        outputs = builder.schemas[builder.output_schema]
    root = outputs if isinstance(outputs, str) else ROOT
    if root is outputs or root in outputs:
        return _schema({ROOT: getattr(graph.channels[root], "ValueType", Any)})
    return _schema({key: hints.get(key, Any) for key in outputs if key in graph.channels})


def _schema(fields: Any, required: frozenset[str] = frozenset()) -> dict[str, Any]:
    properties = {key: _field_schema(key, annotation) for key, annotation in fields.items()}
    definitions: dict[str, Any] = {}
    for field_schema in properties.values():
        definitions |= field_schema.pop("$defs", {})
    whole = properties.get(ROOT, {"type": "object", "properties": properties})
    if required:
        whole = {**whole, "required": [key for key in fields if key in required]}
    if definitions:
        whole = {**whole, "$defs": definitions}
    if len(json.dumps(whole)) > _LARGEST_SCHEMA:
        return {"type": "object", "properties": {key: {} for key in fields if key != ROOT}}
    return whole


def _field_schema(key: str, annotation: Any) -> dict[str, Any]:
    """One field; {}, which is anything, where pydantic has no schema for its type."""
    if takes_messages(key, annotation):
        return {"type": "array", "description": "Messages of the conversation."}
    adapter = adapter_of(annotation)
    try:
        return {} if adapter is None else adapter.json_schema()
    except (PydanticUserError, NameError, TypeError):
        return {}


def adapter_of(annotation: Any) -> TypeAdapter[Any] | None:
    """Checks values of this type; None if pydantic cannot."""
    for form in (annotation, unwrapped(annotation)):  # what LangGraph adds to a type may be in pydantic's way
        try:
            adapter = TypeAdapter(form)
        except (PydanticUserError, NameError, TypeError):
            continue
        adapter.core_schema = _with_optional_keys(adapter.core_schema)
        adapter.validator = SchemaValidator(adapter.core_schema)
        return adapter
    return None


def _with_optional_keys(schema: Any) -> Any:
    """The same schema, in which no key of a TypedDict must be present; a model or data class checks its own."""
    if isinstance(schema, list):
        return [_with_optional_keys(each) for each in schema]
    if not isinstance(schema, dict) or schema.get("type") in ("model", "dataclass"):
        return schema
    inner = {key: _with_optional_keys(each) for key, each in schema.items()}
    return {**inner, "required": False} if schema.get("type") == "typed-dict-field" else inner
