"""The parameters of a run: a message's input, config and context, checked against the graph's schemas.

They are stored as they were sent. A reference to a secret is resolved when the run starts, and only then.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from langchain_core.messages import convert_to_messages
from pydantic import TypeAdapter, ValidationError

from stellwerk.agents.graphs.input import Graph, GraphInput, field_types, required_fields, takes_messages
from stellwerk.agents.graphs.schemas import adapter_of
from stellwerk.agents.runtime.conversation import USER_ID, RunParameters
from stellwerk.errors import InvalidField, MissingSecret

FindSecret = Callable[[str], str | None]

_RESERVED = {"thread_id", "checkpoint_id", "checkpoint_ns", "checkpoint_map", "run_id"}
_RESERVED_PREFIXES = ("stellwerk", "langgraph_", "__")
_RESERVED_TAGS = ("nostream", "langsmith:")
_SECRET = re.compile(r"\$\{secret:([^}]*)\}")
_WRONG = (TypeError, ValueError, LookupError, AttributeError, ArithmeticError, NotImplementedError)
"""Errors of a graph's own validators, and of LangChain's reader of messages."""


def refers_to_secrets(given: RunParameters) -> bool:
    return _has_reference(given.config) or _has_reference(given.context)


def with_secrets(given: RunParameters, find: FindSecret) -> RunParameters:
    """The parameters with each reference replaced by the secret.

    Raises:
        MissingSecret: one is not stored.
    """
    config, context = _resolved(given.config, find), _resolved(given.context, find)
    return RunParameters(input=given.input, config=config, context=context)


def check_text(graph_input: GraphInput, given: RunParameters, field: str, *, name: str) -> None:
    """Check that a text, or files, have a place in the input.

    Raises:
        InvalidField: there is none, or ``input`` takes it.
    """
    if graph_input.form == "none":
        raise no_place(field, graph_input, name=name)
    is_given = isinstance(given.input, dict) and graph_input.key in given.input
    if is_given or (given.input is not None and not graph_input.has_fields):
        where = f"{graph_input.key!r}, which input has as well" if is_given else "the place of input"
        raise InvalidField(f"{field}: the message goes into {where}; send one of the two", field=field)


def no_place(field: str, graph_input: GraphInput, *, name: str) -> InvalidField:
    remedy = f"send `input` instead, with: {graph_input.wanted}"
    return InvalidField(f"{field}: {name} has no place for a text; {remedy}", field=field)


def check_input(graph_input: GraphInput, given: Any, *, name: str) -> None:
    """Check each key of an input.

    Raises:
        InvalidField: one is unknown, or its value does not fit; the field is its path.
    """
    if not graph_input.own_graph:
        remedy = "send text; `input` is for graphs"
        raise InvalidField(f"input: {name} is an agent, and its input is the conversation; {remedy}", field="input")
    shape = graph_input.shape
    if not graph_input.has_fields:
        _check_value("input", "__root__", shape.whole, given)
        return
    if not isinstance(given, dict):
        raise InvalidField(f"input: this must be an object with: {graph_input.wanted}", field="input")
    fields = shape.fields or {}
    if not shape.is_open:
        _refuse_unknown("input", given, fields, name=name)
    for key, value in given.items():
        if key in fields:
            _check_value(f"input.{key}", key, fields[key], value)


def check_config(given: RunParameters) -> None:
    """Refuse keys that belong to the server."""
    config = given.config or {}
    for part in ("configurable", "metadata"):
        for key in config.get(part) or {}:
            path = f"config.{part}.{key}"
            if key in _RESERVED or key.startswith(_RESERVED_PREFIXES):
                raise InvalidField(f"{path}: this key belongs to the server; take another", field=path)
    if USER_ID in given.configurable or USER_ID in (given.context or {}):
        path = f"config.configurable.{USER_ID}" if USER_ID in given.configurable else f"context.{USER_ID}"
        remedy = "it is the user of the session; send it with POST /sessions"
        raise InvalidField(f"{path}: this cannot be set with a message; {remedy}", field=path)
    for tag in config.get("tags") or ():
        if tag.startswith(_RESERVED_TAGS):
            raise InvalidField(f"config.tags: {tag!r} hides calls from the log; take another", field="config.tags")


def check_context(graph: Graph, given: RunParameters, *, name: str, has_user: bool) -> None:
    """Check a context, and the keys of ``configurable`` that are fields of the context.

    Raises:
        InvalidField: a key is unknown or missing, or its value does not fit.
    """
    schema: Any = graph.context_schema
    if schema is None:
        if given.context is not None:
            said = f"context: {name} has no context_schema; send its settings under config.configurable"
            raise InvalidField(said, field="context")
        return
    fields = field_types(schema)
    context = given.context or {}
    _refuse_unknown("context", context, fields, name=name)
    for key, value in context.items():
        _check_value(f"context.{key}", key, fields[key], value)
    for key in fields.keys() & given.configurable.keys() - context.keys():
        _check_value(f"config.configurable.{key}", key, fields[key], given.configurable[key])
    known = {"thread_id", *context, *given.configurable, *([USER_ID] if has_user else [])}
    for key in fields:
        if key in required_fields(schema) and key not in known:
            remedy = "send user_id with POST /sessions" if key == USER_ID else "send it with the message"
            raise InvalidField(f"context.{key}: {name} needs this; {remedy}", field=f"context.{key}")


def _refuse_unknown(part: str, given: Mapping[str, Any], fields: Mapping[str, Any], *, name: str) -> None:
    for key in given:
        if key not in fields:
            path = f"{part}.{key[:80]}"
            known = ", ".join(fields) or "none"
            raise InvalidField(f"{path}: {name} has no such key; it has: {known}", field=path)


def _check_value(path: str, key: str, annotation: Any, value: Any) -> None:
    adapter: TypeAdapter[Any] | None
    try:
        if takes_messages(key, annotation):
            convert_to_messages(value if isinstance(value, list) else [value])
        elif (adapter := adapter_of(annotation)) is not None:
            adapter.validate_json(msgspec.json.encode(value), strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        path = ".".join([path, *map(str, first["loc"])])
        raise InvalidField(f"{path}: {first['msg']}", field=path) from None
    except _WRONG as error:
        raise InvalidField(f"{path}: {str(error)[:300]}", field=path) from None


def _has_reference(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(_has_reference, value.values()))
    if isinstance(value, list):
        return any(map(_has_reference, value))
    return isinstance(value, str) and _SECRET.search(value) is not None


def _resolved(value: Any, find: FindSecret) -> Any:
    if isinstance(value, dict):
        return {key: _resolved(each, find) for key, each in value.items()}
    if isinstance(value, list):
        return [_resolved(each, find) for each in value]
    return _SECRET.sub(lambda found: _secret(found[1], find), value) if isinstance(value, str) else value


def _secret(name: str, find: FindSecret) -> str:
    value = find(name)
    if value is None:
        raise MissingSecret(name, user="the message")
    return value
