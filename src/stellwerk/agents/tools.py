"""The tools that agents may be allowed: found once, known by name and alias, refused if two claim the same name.

Tools come from the operator: ready-made ones, those that installed packages
bring by the entry-point group ``stellwerk.tools``, and those that he names. An
agent system can only name what is here.
"""

import inspect
from collections.abc import Iterable, Sequence
from importlib.metadata import EntryPoint, entry_points
from types import ModuleType

from stellwerk.agents.builtin import BUILTIN_TOOLS
from stellwerk.agents.document_digest import DIGEST_TOOLS
from stellwerk.agents.document_tools import DOCUMENT_TOOLS
from stellwerk.agents.questions import ask_user
from stellwerk.agents.references import Blaming, each, load_reference
from stellwerk.agents.tool_spec import DescribedTool, ToolOptions, ToolSpec, tool
from stellwerk.errors import BrokenReference, InvalidTool, UnknownTool

__all__ = ["ARTIFACT_KEY", "GROUP", "ToolOptions", "ToolSpec", "Tools", "described", "discover", "tool"]

ARTIFACT_KEY = "stellwerk"
"""Marks an artifact of ours on a tool message: it holds the typed result."""
GROUP = "stellwerk.tools"
_REMEDY = "name a function decorated with @stellwerk.tool, a list of them, or a module that has some"


class Tools:
    """What is registered. The names of all of them are one space: no two tools answer to the same one."""

    def __init__(self, specs: Iterable[ToolSpec] = ()) -> None:
        """
        Raises:
            InvalidTool: two want the same name, or something is no tool of ours.
        """
        self._by_name: dict[str, ToolSpec] = {}
        for spec in specs:
            if not isinstance(spec, ToolSpec):
                raise _stranger(spec)
            for name in (spec.name, *spec.aliases):
                self._claim(name, spec)

    def find(self, name: str) -> ToolSpec:
        """The tool of this name or alias.

        Raises:
            UnknownTool: nobody registered it.
        """
        if name not in self._by_name:
            raise UnknownTool(name, known=self._by_name)
        return self._by_name[name]

    def names(self) -> dict[str, str]:
        """Every name and alias, and the name of the tool behind it."""
        return {name: spec.name for name, spec in sorted(self._by_name.items())}

    def effects(self) -> dict[str, str]:
        """What each tool does to the world, by its name."""
        return {spec.name: spec.effects for spec in self.specs()}

    def specs(self) -> list[ToolSpec]:
        """Every tool once, by name."""
        return [spec for name, spec in sorted(self._by_name.items()) if name == spec.name]

    def _claim(self, name: str, spec: ToolSpec) -> None:
        other = self._by_name.setdefault(name, spec)
        if other is not spec:
            owner = f"the tool {other.name!r} of {_place(other)}"
            problem = f"of {_place(spec)} wants to be called {name!r}, like {owner}; rename one of them"
            raise InvalidTool(spec.name, problem)


def discover(references: Sequence[str] = ()) -> Tools:
    """All tools of this installation, and those that the operator names by ``references``.

    Raises:
        BrokenReference: an installed package or a reference does not give what it promises.
        InvalidTool: two tools want the same name.
    """
    found = each([*entry_points(group=GROUP), *references], _loaded)
    return Tools(
        [*BUILTIN_TOOLS, *DOCUMENT_TOOLS, *DIGEST_TOOLS, ask_user, *(spec for specs in found for spec in specs)]
    )


def _loaded(source: EntryPoint | str) -> list[ToolSpec]:
    return _specs_in(load_reference(source), source) if isinstance(source, str) else _of_package(source)


def _of_package(point: EntryPoint) -> list[ToolSpec]:
    package = point.dist.name if point.dist else point.module
    source = f"the entry point {point.name!r} of the package {package!r}"
    with Blaming(source, f"loading {point.value}"):
        loaded = point.load()
    return _specs_in(loaded, source)


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


def _stranger(given: object) -> InvalidTool:
    # Here, because only who is mistaken needs it.
    from langchain_core.tools import BaseTool

    if isinstance(given, BaseTool):
        return InvalidTool(given.name, "is a tool of LangChain; decorate the function behind it with stellwerk.tool")
    return InvalidTool(getattr(given, "__name__", repr(given)), "is none yet; decorate it with stellwerk.tool")


def _place(spec: ToolSpec) -> str:
    code = inspect.unwrap(spec.function).__code__
    return f"{code.co_filename}, line {code.co_firstlineno}"


def described(specs: Iterable[ToolSpec]) -> list[DescribedTool]:
    """Everything about tools that clients may know, as JSON."""
    return [
        {
            "name": spec.name,
            "description": spec.description,
            "input_schema": spec.input_schema,
            "output": spec.output,
            "timeout": spec.timeout,
            "idempotent": spec.idempotent,
            "effects": spec.effects,
            "untrusted": spec.untrusted,
            "runs_in": spec.runs_in,
            "aliases": list(spec.aliases),
        }
        for spec in specs
    ]
