"""The tool registry: every tool an agent may use, by name and alias.

Tools come from the operator: built-in ones, those of installed packages (the entry-point group
``stellwerk.tools``), and those the operator references. Agent systems can use no others.
"""

import inspect
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from importlib.metadata import EntryPoint, entry_points
from types import ModuleType
from typing import Any, cast

from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool

from stellwerk.agents.graphs.import_reference import load_all, load_reference, operator_code
from stellwerk.agents.tools.builtin import BUILTIN_TOOLS, ask_user
from stellwerk.agents.tools.spec import ARTIFACT_KEY, DescribedTool, ToolSpec, tool
from stellwerk.errors import BrokenReference, InvalidTool, UnknownTool

__all__ = ["ARTIFACT_KEY", "ToolSpec", "Tools", "discover", "tool"]

ENTRY_POINT_GROUP = "stellwerk.tools"
_REMEDY = "name a function decorated with @stellwerk.tool, a list of them, or a module that has some"


class Tools:
    """The registered tools. Names and aliases share one namespace, and each belongs to one tool."""

    def __init__(self, specs: Iterable[ToolSpec] = ()) -> None:
        self._by_name: dict[str, ToolSpec] = {}
        for spec in specs:
            if not isinstance(spec, ToolSpec):
                raise InvalidTool(
                    getattr(spec, "name", getattr(spec, "__name__", repr(spec))),
                    "is none yet; decorate its function with stellwerk.tool",
                )
            for name in (spec.name, *spec.aliases):
                other = self._by_name.setdefault(name, spec)
                if other is not spec:
                    raise InvalidTool(spec.name, _name_clash(name, spec, other))

    def find(self, name: str) -> ToolSpec:
        if name not in self._by_name:
            raise UnknownTool(name, known=self._by_name)
        return self._by_name[name]

    def names(self) -> dict[str, str]:
        """Every name and alias, mapped to the name of its tool."""
        return {name: spec.name for name, spec in sorted(self._by_name.items())}

    def specs(self) -> list[ToolSpec]:
        """Every tool once, sorted by name."""
        return [spec for name, spec in sorted(self._by_name.items()) if name == spec.name]


def discover(references: Sequence[str] = ()) -> Tools:
    """Load the built-in tools, those of installed packages, and the operator's ``references``."""
    found = load_all([*entry_points(group=ENTRY_POINT_GROUP), *references], _load)
    return Tools([*BUILTIN_TOOLS, ask_user, *(spec for specs in found for spec in specs)])


def _load(source: EntryPoint | str) -> list[ToolSpec]:
    if isinstance(source, str):
        return _specs_in(load_reference(source), source)
    package = source.dist.name if source.dist else source.module
    origin = f"the entry point {source.name!r} of the package {package!r}"
    with operator_code(origin, f"loading {source.value}"):
        loaded = source.load()
    return _specs_in(loaded, origin)


def _specs_in(loaded: object, source: str) -> list[ToolSpec]:
    given = list(loaded) if isinstance(loaded, list | tuple) else [loaded]
    if isinstance(loaded, ModuleType):
        given = [value for value in vars(loaded).values() if isinstance(value, ToolSpec)]
    found = [each for each in given if isinstance(each, ToolSpec)]
    if not found or len(found) < len(given):
        raise BrokenReference(source, f"there is no tool in it, or not only tools; {_REMEDY}")
    return found


def _name_clash(name: str, spec: ToolSpec, other: ToolSpec) -> str:
    place, other_place = _source_location(spec), _source_location(other)
    owner = f"the tool {other.name!r} of {other_place}"
    return f"of {place} wants to be called {name!r}, like {owner}; rename one of them"


def _source_location(spec: ToolSpec) -> str:
    code = inspect.unwrap(spec.function).__code__
    return f"{code.co_filename}, line {code.co_firstlineno}"


# The inventory: descriptions of tools for clients and for a terminal.


def inventory(registered: Iterable[ToolSpec], offered: Iterable[BaseTool]) -> list[DescribedTool]:
    """Descriptions of all tools, sorted by name."""
    tools = [*describe(registered), *map(_describe_langchain_tool, offered)]
    return sorted(tools, key=lambda tool: tool["name"])


def select(tools: Sequence[DescribedTool], names: Collection[str]) -> list[DescribedTool]:
    """The tools with these names or aliases; all tools if ``names`` is empty."""
    known = {name: tool["name"] for tool in tools for name in (*tool["aliases"], tool["name"])}
    for name in names:
        if name not in known:
            raise UnknownTool(name, known=known)
    wanted = {known[name] for name in names}
    return [tool for tool in tools if not names or tool["name"] in wanted]


def as_text(tools: Sequence[DescribedTool]) -> str:
    """Text for a terminal: a few lines for each tool."""
    return "\n\n".join("\n".join(_tool_lines(tool)) for tool in tools)


def describe(specs: Iterable[ToolSpec]) -> list[DescribedTool]:
    fields = DescribedTool.__annotations__
    described = [{name: getattr(spec, name) for name in fields} for spec in specs]
    return [cast("DescribedTool", each | {"aliases": list(each["aliases"])}) for each in described]


def _describe_langchain_tool(tool: BaseTool) -> DescribedTool:
    ours = (tool.metadata or {}).get(ARTIFACT_KEY, {})
    return {
        "name": tool.name,
        "description": tool.description,
        "input_schema": convert_to_openai_tool(tool)["function"]["parameters"],
        "output": ours.get("output"),
        "timeout": ours.get("timeout"),
        "idempotent": ours.get("idempotent", False),
        "effects": ours.get("effects", "read"),
        "untrusted": ours.get("untrusted", False),
        "runs_in": "loop",
        "aliases": [],
    }


def _tool_lines(tool: DescribedTool) -> Iterator[str]:
    yield f"{tool['name']}  {tool['description'].splitlines()[0]}"
    schema = tool["input_schema"]
    for name, field in schema.get("properties", {}).items():
        mark = "required" if name in schema.get("required", []) else "optional"
        yield f"    {name}: {_type_text(field)}, {mark}  {field.get('description', '')}".rstrip()
    if tool["aliases"]:
        yield f"    also called {', '.join(tool['aliases'])}"
    limit = "" if tool["timeout"] is None else f"timeout {tool['timeout']:g} s, "
    doubt = "untrusted, " if tool["untrusted"] else ""
    yield f"    {limit}effects: {tool['effects']}, {doubt}runs in: {tool['runs_in']}"


def _type_text(schema: Mapping[str, Any]) -> str:
    if "enum" in schema:
        return " | ".join(repr(value) for value in schema["enum"])
    if "anyOf" in schema:
        return " | ".join(_type_text(each) for each in schema["anyOf"])
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if "items" in schema:
        return f"array of {_type_text(schema['items'])}"
    return str(schema.get("type", "anything"))
