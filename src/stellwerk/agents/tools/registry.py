"""The tool registry: every tool an agent may use, by name and alias.

Tools come from the operator: the built-in ones, those of installed packages (the
entry-point group ``stellwerk.tools``), and those the operator references. Agent
systems can use registered tools only. Two tools with one name are rejected.
"""

import inspect
from collections.abc import Iterable, Sequence
from importlib.metadata import EntryPoint, entry_points
from types import ModuleType
from typing import cast

from stellwerk.agents.graphs.import_reference import load_all, load_reference, operator_code
from stellwerk.agents.tools.builtin import BUILTIN_TOOLS, ask_user
from stellwerk.agents.tools.spec import DescribedTool, ToolOptions, ToolSpec, tool
from stellwerk.errors import BrokenReference, InvalidTool, UnknownTool

__all__ = ["ARTIFACT_KEY", "ENTRY_POINT_GROUP", "ToolOptions", "ToolSpec", "Tools", "describe", "discover", "tool"]

ARTIFACT_KEY = "stellwerk"
"""Marks an artifact of a tool message that holds a typed result."""
ENTRY_POINT_GROUP = "stellwerk.tools"
_REMEDY = "name a function decorated with @stellwerk.tool, a list of them, or a module that has some"


class Tools:
    """The registered tools. Names and aliases share one namespace, and each belongs to one tool."""

    def __init__(self, specs: Iterable[ToolSpec] = ()) -> None:
        """
        Raises:
            InvalidTool: two tools share a name, or a value is not a ToolSpec.
        """
        self._by_name: dict[str, ToolSpec] = {}
        for spec in specs:
            if not isinstance(spec, ToolSpec):
                raise InvalidTool(
                    getattr(spec, "name", getattr(spec, "__name__", repr(spec))),
                    "is none yet; decorate its function with stellwerk.tool",
                )
            for name in (spec.name, *spec.aliases):
                self._register(name, spec)

    def find(self, name: str) -> ToolSpec:
        """The tool of this name or alias.

        Raises:
            UnknownTool: it is not registered.
        """
        if name not in self._by_name:
            raise UnknownTool(name, known=self._by_name)
        return self._by_name[name]

    def names(self) -> dict[str, str]:
        """Every name and alias, mapped to the name of its tool."""
        return {name: spec.name for name, spec in sorted(self._by_name.items())}

    def effects(self) -> dict[str, str]:
        """The effects of each tool, by name."""
        return {spec.name: spec.effects for spec in self.specs()}

    def specs(self) -> list[ToolSpec]:
        """Every tool once, sorted by name."""
        return [spec for name, spec in sorted(self._by_name.items()) if name == spec.name]

    def _register(self, name: str, spec: ToolSpec) -> None:
        other = self._by_name.setdefault(name, spec)
        if other is not spec:
            owner = f"the tool {other.name!r} of {_source_location(other)}"
            problem = f"of {_source_location(spec)} wants to be called {name!r}, like {owner}; rename one of them"
            raise InvalidTool(spec.name, problem)


def discover(references: Sequence[str] = ()) -> Tools:
    """Load the built-in tools, those of installed packages, and those of the operator's ``references``.

    Raises:
        BrokenReference: an entry point or a reference does not lead to tools.
        InvalidTool: two tools share a name.
    """
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
    given: list[object]
    if isinstance(loaded, ModuleType):
        given = [value for value in vars(loaded).values() if isinstance(value, ToolSpec)]
    else:
        given = list(loaded) if isinstance(loaded, list | tuple) else [loaded]
    found = [each for each in given if isinstance(each, ToolSpec)]
    if not found or len(found) < len(given):
        raise BrokenReference(source, f"there is no tool in it, or not only tools; {_REMEDY}")
    return found


def _source_location(spec: ToolSpec) -> str:
    code = inspect.unwrap(spec.function).__code__
    return f"{code.co_filename}, line {code.co_firstlineno}"


def describe(specs: Iterable[ToolSpec]) -> list[DescribedTool]:
    """The public description of tools, as JSON."""
    fields = DescribedTool.__annotations__
    return [
        cast("DescribedTool", {name: getattr(spec, name) for name in fields} | {"aliases": list(spec.aliases)})
        for spec in specs
    ]
