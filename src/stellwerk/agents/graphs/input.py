"""The input of a graph: which key takes the user's message, and in which form.

A graph may have any state. Nearly all take ``messages``; for the others it is the only text field,
or the one that the operator names.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from types import UnionType
from typing import Annotated, Any, Literal, NotRequired, Required, Union, get_args, get_origin, is_typeddict

from langchain_core.messages import BaseMessage, HumanMessage
from langgraph.graph import StateGraph
from langgraph.pregel import Pregel
from pydantic import TypeAdapter
from pydantic.errors import PydanticUserError

from stellwerk.agents.graphs.state_types import hints_of
from stellwerk.errors import BrokenReference

Graph = Pregel[Any, Any, Any, Any]
Form = Literal["messages", "text", "texts"]

_ROOT = "__root__"
_LARGEST_SCHEMA = 64 * 1024


@dataclass(frozen=True, slots=True)
class GraphInput:
    """The key and the form in which a graph takes the user's message."""

    key: str | None
    """None for a graph whose whole input is the message."""
    form: Form
    own_graph: bool = field(default=True, compare=False)
    """Whether it is a graph of the operator, whose final state is the answer; not an agent of ours."""

    def to_input(self, messages: Sequence[BaseMessage]) -> Any:
        """The graph's input: the messages, or the text of the user's last one."""
        value: Any = list(messages)
        if self.form != "messages":
            said = [str(message.text) for message in messages if isinstance(message, HumanMessage)]
            text = said[-1] if said else ""
            value = text if self.form == "text" else [text]
        return value if self.key is None else {self.key: value}


def find_input(graph: Graph, *, name: str, key: str | None = None) -> GraphInput:
    """Find the input key once, when the graph is built."""
    fields = _input_fields(graph)
    if fields is None:
        return GraphInput(None, _form(_input_type(graph)) or "messages")
    texts = [field for field, annotation in fields.items() if _form(annotation) == "text"]
    chosen = key or ("messages" if "messages" in fields else texts[0] if len(texts) == 1 else None)
    form = None if chosen is None or chosen not in fields else _form(fields[chosen], chosen)
    if chosen is None or form is None:
        raise BrokenReference(name, _no_input_key(key, fields))
    return GraphInput(chosen, form)


@lru_cache(maxsize=200)
def output_schema(graph: Any) -> dict[str, Any] | None:
    """The JSON Schema of a graph's final state, of bounded size; None for a factory of graphs."""
    if not isinstance(graph, Pregel | StateGraph):
        return None
    builder: Any = graph if isinstance(graph, StateGraph) else getattr(graph, "builder", None)
    hints: dict[str, Any] = {}
    outputs: Any = getattr(graph, "output_channels", ())
    if builder is not None:
        hints = hints_of(builder.output_schema)
        outputs = builder.schemas[builder.output_schema]
    root = outputs if isinstance(outputs, str) else _ROOT
    if root is outputs or root in outputs:
        return _schema({_ROOT: getattr(graph.channels[root], "ValueType", Any)})
    return _schema({key: hints.get(key, Any) for key in outputs if key in graph.channels})


def _input_fields(graph: Graph) -> dict[str, Any] | None:
    """The fields of the input and their types; None for a single value without fields."""
    builder = getattr(graph, "builder", None)
    if builder is None:
        whole = _input_type(graph)
        if is_typeddict(whole):
            return hints_of(whole)
        return {"messages": Any} if whole is dict or get_origin(whole) is dict else None
    hints, channels = hints_of(builder.input_schema), builder.schemas[builder.input_schema]
    if _ROOT in channels:
        return None
    return {key: hints.get(key, Any) for key in channels if key in builder.channels}


def _input_type(graph: Graph) -> Any:
    key = graph.input_channels
    return getattr(graph.channels[key], "UpdateType", Any) if isinstance(key, str) else Any


def _form(annotation: Any, key: str = "") -> Form | None:
    """The form in which a field takes a message; None if it cannot."""
    kinds = set(_bare(annotation))
    if str in kinds:
        return "text"
    for kind in kinds:
        if get_origin(kind) is list and get_args(kind) == (str,):
            return "texts"
        if kind is list or get_origin(kind) in (list, Sequence):
            return "messages" if _of_messages(kind) else None
    if Any in kinds:
        return "messages" if key == "messages" else "text" if key else None
    return None


def _bare(annotation: Any) -> list[Any]:
    """The alternatives of an annotation, without Annotated and the like."""
    annotation = _unwrapped(annotation)
    if get_origin(annotation) in (Union, UnionType):
        return [bare for alternative in get_args(annotation) for bare in _bare(alternative)]
    return [annotation]


def _unwrapped(annotation: Any) -> Any:
    while get_origin(annotation) in (Annotated, Required, NotRequired):
        annotation = get_args(annotation)[0]
    return annotation


def _of_messages(kind: Any) -> bool:
    arguments = get_args(kind)
    return not arguments or "Message" in str(arguments[0]) or arguments[0] in (Any, dict)


def _no_input_key(key: str | None, fields: dict[str, Any]) -> str:
    asked = "its input has no 'messages' and not exactly one text field"
    if key:
        problem = "cannot take a message" if key in fields else "is not a field of its input"
        asked = f"the input key {key!r} {problem}"
    listed = ", ".join(f"{field} ({_short(fields[field])})" for field in fields) or "none"
    remedy = "Name the one for the user's text under graph_inputs in the operator's file"
    return f"{asked}; fields are: {listed}. {remedy}"


def _short(annotation: Any) -> str:
    if get_args(annotation):
        return str(annotation)[:60]
    return getattr(annotation, "__name__", str(annotation))


def _schema(fields: dict[str, Any]) -> dict[str, Any]:
    properties = {key: _field_schema(annotation) for key, annotation in fields.items()}
    definitions: dict[str, Any] = {}
    for field_schema in properties.values():
        definitions |= field_schema.pop("$defs", {})
    whole = properties.get(_ROOT, {"type": "object", "properties": properties})
    if definitions:
        whole = {**whole, "$defs": definitions}
    if len(json.dumps(whole)) > _LARGEST_SCHEMA:
        return {"type": "object", "properties": {key: {} for key in fields if key != _ROOT}}
    return whole


def _field_schema(annotation: Any) -> dict[str, Any]:
    """One field; {}, which is anything, where pydantic has no schema for its type."""
    annotation = _unwrapped(annotation)
    if _form(annotation, "messages") == "messages":
        return {"type": "array", "description": "Messages of the conversation."}
    try:
        return TypeAdapter(annotation).json_schema()
    except (PydanticUserError, NameError, TypeError):
        return {}
