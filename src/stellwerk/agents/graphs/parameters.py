"""The parameters of a run: a message's input, config and context, checked against the graph's schemas.

They are stored as they were sent. A reference to a secret is resolved when the run starts, and only then.
"""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from langchain_core.messages import convert_to_messages
from pydantic import TypeAdapter, ValidationError

from stellwerk.agents.graphs.input import Graph, GraphInput, field_types, required_fields, takes_messages
from stellwerk.agents.graphs.schemas import adapter_of
from stellwerk.agents.runtime.conversation import RunParameters
from stellwerk.agents.runtime.session_user import USER_KEYS
from stellwerk.errors import InvalidField, MissingSecret
from stellwerk.spec.model import GraphConfig
from stellwerk.spec.secret_references import filled, secret_names

FindSecret = Callable[[str], str | None]

_RESERVED = {"thread_id", "checkpoint_id", "checkpoint_ns", "checkpoint_map", "run_id"}
_RESERVED_PREFIXES = ("stellwerk", "langgraph_", "__")
_RESERVED_TAGS = ("nostream", "langsmith:")
_WRONG = (TypeError, ValueError, LookupError, AttributeError, ArithmeticError, NotImplementedError)
"""Errors of a graph's own validators, and of LangChain's reader of messages."""


def is_reserved(key: str) -> bool:
    """Whether a key of ``configurable`` belongs to the server."""
    return key in _RESERVED or key.startswith(_RESERVED_PREFIXES)


def refers_to_secrets(given: RunParameters) -> bool:
    return next(secret_names([given.config, given.context]), None) is not None


def with_secrets(given: RunParameters, find: FindSecret) -> RunParameters:
    """The parameters with each reference replaced by the secret.

    Raises:
        MissingSecret: one is not stored.
    """

    def secret(name: str) -> str:
        value = find(name)
        if value is None:
            raise MissingSecret(name, user="the config or context of this run")
        return value

    config, context = filled(given.config, secret), filled(given.context, secret)
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
    """Refuse values that are none of LangGraph's, and keys that belong to the server."""
    config = given.config or {}
    try:
        GraphConfig.model_validate(config, strict=True)
    except ValidationError as error:
        raise _invalid("config", error) from None
    for part in ("configurable", "metadata"):
        for key in config.get(part) or {}:
            path = f"config.{part}.{key}"
            if key in _RESERVED or key.startswith(_RESERVED_PREFIXES):
                raise InvalidField(f"{path}: this key belongs to the server; take another", field=path)
    for part, keys in (("config.configurable", given.configurable), ("context", given.context or {})):
        for key in USER_KEYS:
            if key in keys:
                remedy = "it is the user of the session; send user_id with POST /sessions"
                raise InvalidField(f"{part}.{key}: this cannot be set here; {remedy}", field=f"{part}.{key}")
    for tag in config.get("tags") or ():
        if tag.startswith(_RESERVED_TAGS):
            raise InvalidField(f"config.tags: {tag!r} hides calls from the log; take another", field="config.tags")


def check_context(graph: Graph, given: RunParameters, *, name: str) -> None:
    """Check a context, and the keys of ``configurable`` that are fields of the context.

    A null in ``configurable`` means that the graph's default applies.

    Raises:
        InvalidField: a key is unknown, or its value does not fit.
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
        if given.configurable[key] is not None:
            _check_value(f"config.configurable.{key}", key, fields[key], given.configurable[key])


def check_context_is_whole(graph: Graph, given: RunParameters, *, name: str, has_user: bool) -> None:
    """
    Raises:
        InvalidField: a field without a default is missing.
    """
    schema: Any = graph.context_schema
    configured = {key for key, value in given.configurable.items() if value is not None}
    known = {"thread_id", *(given.context or {}), *configured, *(USER_KEYS if has_user else ())}
    for key in field_types(schema) if schema is not None else ():
        if key in required_fields(schema) and key not in known:
            remedy = "send user_id with POST /sessions" if key in USER_KEYS else "send it with the message"
            raise InvalidField(f"context.{key}: {name} needs this; {remedy}", field=f"context.{key}")


def _refuse_unknown(part: str, given: Mapping[str, Any], fields: Mapping[str, Any], *, name: str) -> None:
    for key in given:
        if key not in fields:
            path = f"{part}.{key[:80]}"
            known = ", ".join(fields) or "none"
            raise InvalidField(f"{path}: {name} has no such key; it has: {known}", field=path)


def _check_value(path: str, key: str, annotation: Any, value: Any) -> None:
    adapter: TypeAdapter[Any] | None
    if next(secret_names(value), None) is not None:
        return  # the graph checks the secret itself, which only its runs have
    try:
        if takes_messages(key, annotation):
            convert_to_messages(value if isinstance(value, list) else [value])
        elif (adapter := adapter_of(annotation)) is not None:
            adapter.validate_json(msgspec.json.encode(value), strict=True)
    except ValidationError as error:
        raise _invalid(path, error) from None
    except _WRONG as error:
        raise InvalidField(f"{path}: {str(error)[:300]}", field=path) from None


def _invalid(path: str, error: ValidationError) -> InvalidField:
    first = error.errors(include_url=False, include_input=False)[0]
    path = ".".join([path, *map(str, first["loc"])])
    return InvalidField(f"{path}: {first['msg']}", field=path)
