"""The input of a graph: its fields, and which of them takes the user's message, in which form.

A graph may have any state. Nearly all take ``messages``; for the others it is the only text field,
or the one that the operator names. A graph without such a field takes no text, only ``input``.
"""

import dataclasses
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import UnionType
from typing import Annotated, Any, Literal, NotRequired, Required, Union, get_args, get_origin

from langchain_core.messages import BaseMessage, HumanMessage, convert_to_messages
from langgraph.channels.binop import BinaryOperatorAggregate
from langgraph.graph import StateGraph
from langgraph.pregel import Pregel
from pydantic import BaseModel
from typing_extensions import is_typeddict

from stellwerk.agents.graphs.state_types import entry_type, hints_of
from stellwerk.errors import BrokenReference

Graph = Pregel[Any, Any, Any, Any]
Form = Literal["messages", "text", "texts", "none"]

ROOT = "__root__"


@dataclass(frozen=True, slots=True)
class InputShape:
    """What a graph takes: an object with fields, or a single value."""

    whole: Any
    """The type of the input as a whole."""
    fields: Mapping[str, Any] | None = None
    """The fields and their types; None for a single value."""
    required: frozenset[str] = frozenset()
    """Fields without which the graph's own code cannot make its state."""
    is_open: bool = False
    """Whether it takes any other keys, too."""
    makes: type | None = None
    """The class of which a function of the functional API takes an instance."""


@dataclass(frozen=True, slots=True)
class GraphInput:
    """The key and the form in which a graph takes the user's message."""

    key: str | None
    """None for a graph whose whole input is the message, and for one that takes no message."""
    form: Form
    own_graph: bool = field(default=True, compare=False)
    """Whether it is a graph of the operator, whose final state is the answer; not an agent of ours."""
    shape: InputShape = field(default=InputShape(Any), compare=False)

    @property
    def has_fields(self) -> bool:
        return self.key is not None or self.shape.fields is not None

    @property
    def wanted(self) -> str:
        """The keys of the input and their types, for people."""
        if self.shape.fields is None:
            return f"a value of type {_short(self.shape.whole)}"
        listed = [f"{name} ({_short(kind)})" for name, kind in self.shape.fields.items()]
        return ", ".join([*listed, *(["any other key"] if self.shape.is_open else [])]) or "none"

    def to_input(self, messages: Sequence[BaseMessage], given: Any = None) -> Any:
        """The graph's input: ``given``, with the messages or the text of the user's last one."""
        value = self._value(messages, is_alone=given is None)
        if not self.has_fields:
            if given is None:
                return value
            return [*messages, *given] if self.form == "messages" and isinstance(given, list) else given
        state = dict(given or {})
        if self.key in state and self.form == "messages":
            state[self.key] = [*messages, *state[self.key]]
        elif self.key is not None and value is not None:
            state[self.key] = value
        return state if self.shape.makes is None else self.shape.makes(**state)

    def _value(self, messages: Sequence[BaseMessage], *, is_alone: bool) -> Any:
        """The value that takes the message; None if there is no message."""
        if self.form == "none":
            return None
        if self.form == "messages":
            return list(messages) if messages or is_alone else None
        said = [str(message.text) for message in messages if isinstance(message, HumanMessage)]
        if not said and not is_alone:
            return None
        text = said[-1] if said else ""
        return text if self.form == "text" else [text]

    def with_messages(self, given: Any, message_id: str) -> Any:
        """``given`` with messages in the place of JSON; the user's last one gets this id."""
        if self.form != "messages" or given is None:
            return given
        if not self.has_fields:
            return _as_messages(given, message_id)
        if self.key not in given:
            return given
        return {**given, self.key: _as_messages(given[self.key], message_id)}


def find_input(graph: Graph, *, name: str, key: str | None = None) -> GraphInput:
    """Find the input key once, when the graph is built.

    Raises:
        BrokenReference: the ``key`` that the operator names cannot take a message.
    """
    shape = input_shape(graph)
    if shape.fields is None:
        whole = _form(shape.whole) or ("messages" if shape.whole is Any else "none")
        return GraphInput(None, whole, shape=shape)
    fields = shape.fields
    texts = [each for each, annotation in fields.items() if _form(annotation) == "text"]
    texts = [each for each in texts if not _is_output(graph, shape, each)] if len(texts) == 1 else texts
    chosen = key or ("messages" if "messages" in fields else texts[0] if len(texts) == 1 else None)
    form = None if chosen is None or chosen not in fields else _form(fields[chosen], chosen)
    if form is not None:
        return GraphInput(chosen, form, shape=shape)
    found = GraphInput(None, "none", shape=shape)
    if key is not None:
        problem = "cannot take a message" if key in fields else "is not a field of its input"
        remedy = (
            "Name the one for the user's text under graph_inputs in the operator's file, "
            "or none: then a message has `input` with these fields"
        )
        raise BrokenReference(name, f"the input key {key!r} {problem}; fields are: {found.wanted}. {remedy}")
    return found


def _is_output(graph: Any, shape: InputShape, key: str) -> bool:
    """Whether a text field is no place for a message, but for the answer.

    It is, if the graph names an output and no input of its own; or if it may be absent from the
    input while other fields may not.
    """
    builder: Any = getattr(graph, "builder", None)
    if builder is not None and builder.input_schema is builder.state_schema is not builder.output_schema:
        if key in builder.schemas[builder.output_schema]:
            return True
    required = shape.required or getattr(shape.whole, "__required_keys__", frozenset())
    return bool(required) and key not in required


def input_shape(graph: Any) -> InputShape:
    """What a graph takes, also if it is not compiled yet."""
    builder: Any = graph if isinstance(graph, StateGraph) else getattr(graph, "builder", None)
    if builder is None:
        return _shape_of_function(graph)
    schema = builder.input_schema
    channels = builder.schemas[schema]
    if ROOT in channels:
        return InputShape(schema)
    hints = field_types(schema)
    fields = {key: hints.get(key, Any) for key in channels if key in builder.channels}
    # A channel with a reducer begins with an empty value.
    filled = {key for key in fields if isinstance(builder.channels[key], BinaryOperatorAggregate)}
    return InputShape(schema, fields, required_fields(schema) & fields.keys() - filled)


def _shape_of_function(graph: Graph) -> InputShape:
    """The input of a function of the functional API, by the annotation of its first parameter."""
    whole = entry_type(graph)
    if is_typeddict(whole):
        return InputShape(whole, field_types(whole))
    if whole in (dict, Mapping) or get_origin(whole) in (dict, Mapping):
        return InputShape(whole, {"messages": Any}, is_open=True)
    if is_made(whole):
        return InputShape(whole, field_types(whole), required_fields(whole), makes=whole)
    return InputShape(whole)


def field_types(schema: Any) -> dict[str, Any]:
    """The fields of a schema and their types, with the constraints of Pydantic's fields."""
    hints = hints_of(schema)
    if isinstance(schema, type) and issubclass(schema, BaseModel):
        return {key: Annotated[hints.get(key, Any), each] for key, each in schema.model_fields.items()}
    if dataclasses.is_dataclass(schema):
        return {each.name: hints.get(each.name, Any) for each in dataclasses.fields(schema) if each.init}
    return hints


def required_fields(schema: Any) -> frozenset[str]:
    """Fields without a default, where LangGraph makes an object; the keys of a TypedDict may be absent."""
    if isinstance(schema, type) and issubclass(schema, BaseModel):
        return frozenset(key for key, each in schema.model_fields.items() if each.is_required())
    if not dataclasses.is_dataclass(schema):
        return frozenset()
    missing = dataclasses.MISSING
    own = [each for each in dataclasses.fields(schema) if each.init]
    return frozenset(each.name for each in own if each.default is missing and each.default_factory is missing)


def is_made(whole: Any) -> bool:
    return isinstance(whole, type) and (issubclass(whole, BaseModel) or dataclasses.is_dataclass(whole))


def _as_messages(given: Any, message_id: str) -> list[BaseMessage]:
    messages = convert_to_messages(given if isinstance(given, list) else [given])
    for message in reversed(messages):
        if isinstance(message, HumanMessage):
            message.id = message.id or message_id
            break
    return messages


def takes_messages(key: str, annotation: Any) -> bool:
    """Whether a field holds a conversation."""
    is_list = _form(annotation, "messages") == "messages"
    return is_list and (key in ("messages", ROOT) or "Message" in str(annotation))


def _form(annotation: Any, key: str = "") -> Form | None:
    """The form in which a field takes a message; None if it cannot."""
    kinds = _bare(annotation)
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
    annotation = unwrapped(annotation)
    if get_origin(annotation) in (Union, UnionType):
        return [bare for alternative in get_args(annotation) for bare in _bare(alternative)]
    return [annotation]


def unwrapped(annotation: Any) -> Any:
    while get_origin(annotation) in (Annotated, Required, NotRequired):
        annotation = get_args(annotation)[0]
    return annotation


def _of_messages(kind: Any) -> bool:
    arguments = get_args(kind)
    return not arguments or "Message" in str(arguments[0]) or arguments[0] in (Any, dict)


def _short(annotation: Any) -> str:
    annotation = unwrapped(annotation)
    written = str(annotation) if get_args(annotation) else getattr(annotation, "__name__", str(annotation))
    return re.sub(r"('[^']*')|(?:\w+\.)+", r"\1", written)[:60]  # types without their modules; texts as they are
