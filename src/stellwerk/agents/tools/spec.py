"""The tool decorator and ToolSpec: a typed function with its schema, timeout and effects.

A model reads the function's own name, docstring and annotations. This module does not import
LangChain, so that a tool process starts quickly.
"""

import inspect
import math
import re
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any, Literal, NamedTuple, TypedDict, Unpack, get_args, get_origin, get_type_hints, overload

from pydantic import BaseModel, ConfigDict, Field, PydanticUserError, create_model
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema

from stellwerk.envelope.results import FileRef, Json, Table, Text
from stellwerk.errors import InvalidTool

Output = Literal["table", "text", "file_ref", "json"]
Effects = Literal["read", "write", "external"]
RunsIn = Literal["loop", "thread", "process"]
Function = Callable[..., Any]

ARTIFACT_KEY = "stellwerk"
"""Marks an artifact of a tool message that holds a typed result."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}", re.ASCII)
_RESERVED_BY_LANGCHAIN = ("config", "callbacks", "run_manager")
_RUNTIME = "runtime"
_OUTPUTS: dict[Any, Output] = {
    **{Table: "table", Text: "text", str: "text", FileRef: "file_ref", bytes: "file_ref"},
    **{Json: "json", int: "json", float: "json", bool: "json"},
}
_ARGS_SECTION = re.compile(r"^Args:\n((?:[ \t]+.*(?:\n|\Z)|\n)+)", re.MULTILINE)
_ARG_START = r"\w+(?: \([^)]*\))?:"
_ARG = re.compile(rf"^[ \t]+(\w+)(?: \([^)]*\))?: +(.+(?:\n[ \t]++(?!{_ARG_START}).+)*)", re.MULTILINE)


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


class ToolTraits(NamedTuple):
    """Effect and trust of a tool, or of an agent that is used as one."""

    effect: str | None
    """None for an agent, whose own tools are checked when they are called."""
    untrusted: bool
    """Whether its results may contain untrusted content."""


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
    if function is None:
        return lambda written: _build_spec(written, options)
    return _build_spec(function, options)


def _build_spec(function: Function, options: ToolOptions) -> ToolSpec:
    if not inspect.isfunction(function):
        name = getattr(function, "__name__", repr(function))
        raise InvalidTool(name, "is no plain function; decorate a def")
    name = function.__name__
    hints = _type_hints(function)
    is_async = inspect.iscoroutinefunction(function)
    runs_in = options.get("runs_in", "loop" if is_async else "thread")
    problems = chain(
        _option_problems(name, options),
        _function_problems(function, runs_in, hints),
        *(_parameter_problems(each, hints) for each in inspect.signature(function).parameters.values()),
    )
    if problem := next(problems, None):
        raise InvalidTool(name, problem)
    arguments = _arguments_model(function, hints)
    given: dict[str, Any] = {"output": _OUTPUTS.get(hints.get("return")), **options}
    given |= {"aliases": tuple(options.get("aliases", ())), "runs_in": runs_in}
    return ToolSpec(
        name=name,
        description=_ARGS_SECTION.sub("", inspect.getdoc(function) or "").strip(),
        input_schema=_json_schema(name, arguments),
        function=function,
        arguments=arguments,
        takes_runtime=_RUNTIME in hints,
        **given,
    )


def _option_problems(name: str, options: ToolOptions) -> Iterator[str]:
    if unknown := options.keys() - ToolOptions.__annotations__.keys():
        known = ", ".join(ToolOptions.__annotations__)
        yield f"has unknown options: {', '.join(sorted(unknown))}; known are: {known}"
    aliases = options.get("aliases", [])
    for each in (name, *aliases):
        if not _NAME.fullmatch(each):
            form = "up to 64 letters, digits, _ and -, with a letter or digit in front"
            yield f"cannot be called {each!r}; providers take {form}"
    if len({name, *aliases}) <= len(aliases):
        yield "has the same alias twice, or its own name as an alias; name each once"
    seconds = options.get("timeout", 1.0)
    if not (seconds > 0 and math.isfinite(seconds)):
        yield f"has a timeout of {seconds}; give seconds, more than 0"
    for option, allowed in (("effects", get_args(Effects)), ("output", get_args(Output))):
        if options.get(option, allowed[0]) not in allowed:
            yield f"has {option} {options.get(option)!r}; known are: {', '.join(allowed)}"


def _function_problems(function: Function, runs_in: str, hints: dict[str, Any]) -> Iterator[str]:
    is_async = inspect.iscoroutinefunction(function)
    if not inspect.getdoc(function):
        yield "has no docstring; say in a sentence what it does, because models choose by it"
    if runs_in not in get_args(RunsIn):
        yield f"is to run in {runs_in!r}; known are: {', '.join(get_args(RunsIn))}"
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        yield "yields; return the whole result, and report progress with LangGraph's stream writer"
    if is_async and runs_in != "loop":
        yield f"is async and is to run in a {runs_in}; leave runs_in out, or make it a plain def"
    if not is_async and runs_in == "loop":
        yield "would block everything else in the loop; make it an async def, or leave runs_in out"
    if runs_in == "process" and _RUNTIME in hints:
        yield "runs in a process, where there is no runtime; take the parameter away"
    if runs_in == "process" and function.__qualname__ != function.__name__:
        yield "runs in a process, which has to find it; define it at the top of a module"


def _parameter_problems(parameter: inspect.Parameter, hints: dict[str, Any]) -> Iterator[str]:
    name, hint = parameter.name, hints.get(parameter.name)
    if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
        yield f"takes {parameter}; a model must know every parameter, so write them out"
    if parameter.kind is parameter.POSITIONAL_ONLY:
        yield f"takes {name!r} by position only; models give names, so remove the slash"
    if name not in hints:
        yield f"has the parameter {name!r} without a type; annotate it, as in {name}: str"
    if name in _RESERVED_BY_LANGCHAIN:
        yield f"has the parameter {name!r}, a name that LangChain uses itself; take another"
    is_runtime = getattr(get_origin(hint) or hint, "__name__", "") == "ToolRuntime"
    if is_runtime != (name == _RUNTIME):
        yield f"has the parameter {name!r}; runtime: ToolRuntime[Any, Any] goes together"


def _type_hints(function: Function) -> dict[str, Any]:
    try:
        return get_type_hints(function, include_extras=True)
    except (NameError, TypeError) as error:
        problem = f"has an annotation that cannot be read ({error}); import its type at the top of the module"
        raise InvalidTool(function.__name__, problem) from error


def _arguments_model(function: Function, hints: dict[str, Any]) -> type[BaseModel]:
    documented = _parameter_docs(inspect.getdoc(function) or "")
    fields: dict[str, Any] = {
        name: (hints[name], _model_field(parameter, hints[name], documented.get(name)))
        for name, parameter in inspect.signature(function).parameters.items()
        if name != _RUNTIME
    }
    config = ConfigDict(extra="forbid", protected_namespaces=())
    try:
        with warnings.catch_warnings():
            # A parameter may be called `json` or `copy`: that method of the model is not used.
            warnings.filterwarnings("ignore", message="Field name .* shadows", category=UserWarning)
            return create_model(function.__name__, __config__=config, **fields)
    except (PydanticUserError, NameError, TypeError) as error:
        problem = f"has a parameter that a model cannot fill in: {_first_line(error)}"
        raise InvalidTool(function.__name__, problem) from error


def _model_field(parameter: inspect.Parameter, hint: Any, documented: str | None) -> FieldInfo:
    if isinstance(parameter.default, FieldInfo):
        return parameter.default
    default = ... if parameter.default is parameter.empty else parameter.default
    notes = [note for note in getattr(hint, "__metadata__", ()) if isinstance(note, str)]
    text = notes[0] if notes else documented
    described: dict[str, Any] = {} if text is None else {"description": text}
    field: FieldInfo = Field(default, **described)
    return field


def _parameter_docs(doc: str) -> dict[str, str]:
    """The description of each parameter in the ``Args:`` section of a docstring."""
    section = _ARGS_SECTION.search(doc)
    found = _ARG.findall(section[1]) if section else []
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
