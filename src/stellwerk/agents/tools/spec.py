"""The tool decorator and ToolSpec: a typed function with its JSON Schema, timeout, effects and place to run.

The name, description and schema that a model reads come from the function's own
name, docstring and annotations. This module does not import LangChain, so that a
tool process starts quickly.
"""

import inspect
import math
import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypedDict, Unpack, get_args, get_origin, get_type_hints, overload

from pydantic import BaseModel, ConfigDict, Field, PydanticUserError, create_model
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema

from stellwerk.envelope.results import FileRef, Json, Table, Text
from stellwerk.errors import InvalidTool

Output = Literal["table", "text", "file_ref", "json"]
Effects = Literal["read", "write", "external"]
RunsIn = Literal["loop", "thread", "process"]
Function = Callable[..., Any]

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}", re.ASCII)
_RESERVED_BY_LANGCHAIN = ("config", "callbacks", "run_manager")
_RUNTIME = "runtime"
_OUTPUTS: dict[Any, Output] = {
    **{Table: "table", Text: "text", str: "text", FileRef: "file_ref", bytes: "file_ref"},
    **{Json: "json", int: "json", float: "json", bool: "json"},
}
_ARGS_SECTION = re.compile(r"^Args:\n((?:[ \t]+.*(?:\n|\Z)|\n)+)", re.MULTILINE)
_ARG_LINE = re.compile(r"^[ \t]+(\w+)(?: \([^)]*\))?: +(.+(?:\n[ \t]++(?!\w+(?: \([^)]*\))?:).+)*)", re.MULTILINE)


@dataclass(frozen=True, eq=False, kw_only=True)
class ToolSpec:
    """A tool. It can still be called like the function it was made from."""

    name: str
    description: str
    input_schema: dict[str, Any]
    """The JSON Schema of the arguments, for models and forms."""
    function: Function
    arguments: type[BaseModel]
    """The Pydantic model that validates arguments against the same schema."""
    output: Output | None = None
    """The kind of its results, if it is always the same."""
    aliases: tuple[str, ...] = ()
    timeout: float = 60.0
    idempotent: bool = False
    """Whether an interrupted call may be repeated."""
    effects: Effects = "read"
    untrusted: bool = False
    """Whether its results may contain text written by third parties (see taint tracking)."""
    runs_in: RunsIn = "thread"
    takes_runtime: bool = False
    """Whether the function receives LangGraph's runtime."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)


class ToolOptions(TypedDict, total=False):
    """The options of the ``tool`` decorator."""

    aliases: list[str]
    timeout: float
    idempotent: bool
    effects: Effects
    untrusted: bool
    runs_in: RunsIn
    output: Output


class DescribedTool(TypedDict):
    """A tool, as clients get to know it."""

    name: str
    description: str
    input_schema: dict[str, Any]
    output: Output | None
    timeout: float | None
    idempotent: bool
    effects: Effects
    untrusted: bool
    runs_in: RunsIn
    aliases: list[str]


@overload
def tool(function: Function, /) -> ToolSpec: ...
@overload
def tool(**options: Unpack[ToolOptions]) -> Callable[[Function], ToolSpec]: ...


def tool(function: Function | None = None, /, **options: Unpack[ToolOptions]) -> Any:
    """Make a typed function a tool: ``@tool``, or ``@tool(timeout=5, runs_in="process")``.

    Raises:
        InvalidTool: the function does not qualify; the message names the change it needs.
    """
    return (lambda written: _build_spec(written, options)) if function is None else _build_spec(function, options)


def _build_spec(function: Function, options: ToolOptions) -> ToolSpec:
    if not inspect.isfunction(function):
        raise InvalidTool(getattr(function, "__name__", repr(function)), "is no plain function; decorate a def")
    name = function.__name__
    _check_options(name, options)
    doc = inspect.getdoc(function)
    if not doc:
        raise InvalidTool(name, "has no docstring; say in a sentence what it does, because models choose by it")
    hints = _type_hints(function)
    arguments = _arguments_model(function, hints, _parameter_docs(doc))
    takes_runtime = _RUNTIME in hints
    given: dict[str, Any] = {"output": _OUTPUTS.get(hints.get("return")), **options}
    return ToolSpec(
        name=name,
        description=_ARGS_SECTION.sub("", doc).strip(),
        input_schema=_json_schema(name, arguments),
        function=function,
        arguments=arguments,
        takes_runtime=takes_runtime,
        **given | {"aliases": tuple(options.get("aliases", ())), "runs_in": _runs_in(function, options, takes_runtime)},
    )


def _check_options(name: str, options: ToolOptions) -> None:
    if unknown := options.keys() - ToolOptions.__annotations__.keys():
        known = ", ".join(ToolOptions.__annotations__)
        raise InvalidTool(name, f"has unknown options: {', '.join(sorted(unknown))}; known are: {known}")
    aliases = options.get("aliases", [])
    for each in (name, *aliases):
        if not _NAME.fullmatch(each):
            form = "up to 64 letters, digits, _ and -, with a letter or digit in front"
            raise InvalidTool(name, f"cannot be called {each!r}; providers take {form}")
    if len({name, *aliases}) <= len(aliases):
        raise InvalidTool(name, "has the same alias twice, or its own name as an alias; name each once")
    seconds = options.get("timeout", 1.0)
    if not (seconds > 0 and math.isfinite(seconds)):
        raise InvalidTool(name, f"has a timeout of {seconds}; give seconds, more than 0")
    for option, allowed in (("effects", get_args(Effects)), ("output", get_args(Output))):
        if options.get(option, allowed[0]) not in allowed:
            raise InvalidTool(name, f"has {option} {options.get(option)!r}; known are: {', '.join(allowed)}")


def _runs_in(function: Function, options: ToolOptions, takes_runtime: bool) -> RunsIn:
    """Where the tool runs: an async function in the loop, others in a thread, or in a killable process."""
    name, is_async = function.__name__, inspect.iscoroutinefunction(function)
    place: RunsIn = options.get("runs_in", "loop" if is_async else "thread")
    if place not in get_args(RunsIn):
        raise InvalidTool(name, f"is to run in {place!r}; known are: {', '.join(get_args(RunsIn))}")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise InvalidTool(name, "yields; return the whole result, and report progress with LangGraph's stream writer")
    if is_async and place != "loop":
        raise InvalidTool(name, f"is async and is to run in a {place}; leave runs_in out, or make it a plain def")
    if not is_async and place == "loop":
        raise InvalidTool(name, "would block everything else in the loop; make it an async def, or leave runs_in out")
    if place == "process" and takes_runtime:
        raise InvalidTool(name, "runs in a process, where there is no runtime; take the parameter away")
    if place == "process" and function.__qualname__ != name:
        raise InvalidTool(name, "runs in a process, which has to find it; define it at the top of a module")
    return place


def _type_hints(function: Function) -> dict[str, Any]:
    try:
        return get_type_hints(function, include_extras=True)
    except (NameError, TypeError) as error:
        problem = f"has an annotation that cannot be read ({error}); import its type at the top of the module"
        raise InvalidTool(function.__name__, problem) from error


def _arguments_model(function: Function, hints: dict[str, Any], documented: dict[str, str]) -> type[BaseModel]:
    name, fields = function.__name__, dict[str, Any]()
    for parameter in inspect.signature(function).parameters.values():
        _check_parameter(name, parameter, hints)
        if parameter.name != _RUNTIME:
            fields[parameter.name] = (hints[parameter.name], _model_field(parameter, hints, documented))
    try:
        with warnings.catch_warnings():
            # A parameter may be called `json` or `copy`: the method of that name is not used on this model.
            warnings.filterwarnings("ignore", message="Field name .* shadows", category=UserWarning)
            return create_model(name, __config__=ConfigDict(extra="forbid", protected_namespaces=()), **fields)
    except (PydanticUserError, NameError, TypeError) as error:
        raise InvalidTool(name, f"has a parameter that a model cannot fill in: {_first_line(error)}") from error


def _check_parameter(tool_name: str, parameter: inspect.Parameter, hints: dict[str, Any]) -> None:
    name = parameter.name
    if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
        raise InvalidTool(tool_name, f"takes {parameter}; a model must know every parameter, so write them out")
    if parameter.kind is parameter.POSITIONAL_ONLY:
        raise InvalidTool(tool_name, f"takes {name!r} by position only; models give names, so remove the slash")
    if name not in hints:
        raise InvalidTool(tool_name, f"has the parameter {name!r} without a type; annotate it, as in {name}: str")
    if name in _RESERVED_BY_LANGCHAIN:
        raise InvalidTool(tool_name, f"has the parameter {name!r}, a name that LangChain uses itself; take another")
    is_runtime = getattr(get_origin(hints[name]) or hints[name], "__name__", "") == "ToolRuntime"
    if is_runtime != (name == _RUNTIME):
        raise InvalidTool(tool_name, f"has the parameter {name!r}; runtime: ToolRuntime[Any, Any] goes together")


def _model_field(parameter: inspect.Parameter, hints: dict[str, Any], documented: dict[str, str]) -> FieldInfo:
    if isinstance(parameter.default, FieldInfo):
        return parameter.default
    notes = [note for note in getattr(hints[parameter.name], "__metadata__", ()) if isinstance(note, str)]
    text = notes[0] if notes else documented.get(parameter.name)
    description: dict[str, Any] = {} if text is None else {"description": text}
    field: FieldInfo = Field(... if parameter.default is parameter.empty else parameter.default, **description)
    return field


def _parameter_docs(doc: str) -> dict[str, str]:
    """The description of each parameter in the ``Args:`` section of a docstring."""
    section = _ARGS_SECTION.search(doc)
    found = _ARG_LINE.findall(section.group(1)) if section else []
    return {name: " ".join(text.split()) for name, text in found}


class _UntitledSchema(GenerateJsonSchema):
    """A JSON Schema without titles: they only repeat the parameter names and cost tokens."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


def _json_schema(name: str, arguments: type[BaseModel]) -> dict[str, Any]:
    try:
        schema = arguments.model_json_schema(schema_generator=_UntitledSchema)
    except PydanticUserError as error:
        raise InvalidTool(name, f"has a parameter that JSON cannot carry: {_first_line(error)}") from error
    del schema["title"]
    return schema


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]
