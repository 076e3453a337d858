"""Report of `stellwerk check` on one text: the tree of agents, warnings, problems, a verdict."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from pydantic import BaseModel

from stellwerk.errors import SpecError, SpecProblem
from stellwerk.spec.catalogue import Catalogue
from stellwerk.spec.load import load_system
from stellwerk.spec.model import DECISIONS, AgentAsTool, AgentConfig, CompleteAgent, ModelSpec, SystemSpec
from stellwerk.spec.resolve import Resolved, resolve

Style = Literal["plain", "name", "dim", "good", "warn", "bad"]
Line = Sequence[tuple[str, Style]]
"""Pieces of text with a style; joined, they are the plain line."""

_WIDTH = 60
_MODEL_SETTINGS = ("temperature", "top_p", "max_tokens", "timeout", "tool_calling", "images")


@dataclass(frozen=True)
class Report:
    lines: list[Line]
    sound: bool
    """The text itself has no problem; tools or packages may be missing on this server."""


def report(text: str | bytes, *, source: str, catalogue: Catalogue) -> Report:
    try:
        loaded = load_system(text, source=source)
    except SpecError as error:
        problems = error.problems
        return Report([*_listed("error", source, problems), _refused(source, problems)], sound=False)
    resolved = resolve(loaded.system, catalogue)
    problems = loaded.located(resolved.problems)
    warnings = loaded.located((*resolved.missing, *resolved.warnings))
    verdict = _refused(source, problems) if problems else _accepted(source, resolved)
    lines = [
        *_lines(_Tree(resolved, catalogue).system(), first="", rest=""),
        *_listed("warning", source, warnings),
        *_listed("error", source, problems),
        verdict,
    ]
    return Report(lines, sound=not problems)


def _listed(word: str, source: str, problems: Iterable[SpecProblem]) -> Iterator[Line]:
    style: Style = "bad" if word == "error" else "warn"
    for problem in problems:
        yield [(f"{word}: ", style), (problem.sentence(source), "plain")]


def _refused(source: str, problems: Sequence[SpecProblem]) -> Line:
    return [(f"{source}: ", "plain"), (f"refused, {_count(problems, 'problem')}", "bad")]


def _accepted(source: str, resolved: Resolved) -> Line:
    missing: list[str] = []
    if resolved.unregistered:
        missing.append(f"{_count(resolved.unregistered, 'tool')} not registered")
    if resolved.uninstalled:
        missing.append(f"{_count(resolved.uninstalled, 'package')} not installed")
    if missing:
        return [(f"{source}: ", "plain"), (f"sound, but {', '.join(missing)} here", "warn")]
    return [(f"{source}: ", "plain"), ("ready to register", "good")]


def _count(things: Sequence[object], word: str) -> str:
    return f"{len(things)} {word}" if len(things) == 1 else f"{len(things)} {word}s"


@dataclass
class _Node:
    line: Line
    below: list["_Node"] = field(default_factory=list["_Node"])


def _lines(node: _Node, *, first: str, rest: str) -> Iterator[Line]:
    yield [(first, "dim"), *node.line]
    for child in node.below:
        branch, below = ("└── ", "    ") if child is node.below[-1] else ("├── ", "│   ")
        yield from _lines(child, first=rest + branch, rest=rest + below)


class _Tree:
    """A resolved system: its agents, their tools, and the settings that differ from the defaults."""

    def __init__(self, resolved: Resolved, catalogue: Catalogue) -> None:
        self._resolved = resolved
        self._catalogue = catalogue
        agents = reversed(resolved.system.agents)  # the first of a name counts
        self._allowed = {agent.id: agent.tools.allow for agent in agents}
        self._shown: set[str] = set()

    def system(self) -> _Node:
        spec = self._resolved.system.system
        details = _dotted([f"version {self._resolved.system.version}", spec.description])
        settings = _settings(_different(spec, SystemSpec(name=spec.name)))
        node = _Node([(spec.name, "name"), (details, "dim")], settings)
        node.below.append(self._agent(self._resolved.root, None))
        for name, agent in self._resolved.agents.items():
            if name not in self._shown:
                node.below.append(self._agent(agent, None, remark="not called by any agent"))
        return node

    def _agent(self, agent: CompleteAgent, use: AgentAsTool | None, *, remark: str = "") -> _Node:
        kind = [f"graph {agent.graph}"] if agent.kind == "graph" else [agent.kind, _model(agent.model)]
        again = agent.name in self._shown
        details = [*kind, _text(agent.description), remark, "see above" if again else ""]
        node = _Node([(agent.name, "name"), (_dotted(details), "dim")])
        if use is not None:
            if use.allowed_tools is not None:
                node.below += _settings({"only these tools": use.allowed_tools})
            if use.mission_override is not None:
                node.below += _settings({"mission instead": use.mission_override})
        if not again:
            self._shown.add(agent.name)
            node.below += _settings(_different(_with_all_decisions(agent.config), AgentConfig()))
            node.below += self._callable(agent)
        return node

    def _callable(self, agent: CompleteAgent) -> Iterator[_Node]:
        """In the order in which the document allows them."""
        uses = {use.agent.name: use for use in agent.agents_as_tools}
        for name in dict.fromkeys(self._allowed[agent.name]):
            if name in uses:
                yield self._agent(uses[name].agent, uses[name])
            elif name not in self._resolved.agents:
                yield _Node(self._tool(name))

    def _tool(self, name: str) -> Line:
        canonical = self._catalogue.named(name)
        if name in self._catalogue.tools:
            return [(canonical, "plain"), (f" (as {name})" if canonical != name else "", "dim")]
        if server := self._catalogue.unasked_server(name):
            return [(name, "plain"), (f"  of the MCP server {server}, not checked", "dim")]
        return [("✗ ", "bad"), (name, "plain"), ("  not registered", "bad")]


def _with_all_decisions(config: AgentConfig) -> AgentConfig:
    """An approval that names no decision allows all of them."""
    approvals = {tool: decisions or list(DECISIONS) for tool, decisions in config.approvals.items()}
    return config.model_copy(update={"approvals": approvals})


def _different(model: BaseModel, default: BaseModel) -> dict[str, object]:
    names = [name for name in type(model).model_fields if name != "description"]
    settings = {name: getattr(model, name) for name in names}
    return {name: value for name, value in settings.items() if value != getattr(default, name)}


def _settings(values: Mapping[str, object]) -> list[_Node]:
    return [_Node([(f"{name}: ", "dim"), (_text(value), "plain")]) for name, value in values.items()]


def _model(model: ModelSpec) -> str:
    different = _different(model, ModelSpec()).items()
    settings = [f"{name} {_text(value)}" for name, value in different if name in _MODEL_SETTINGS]
    name = model.provider if model.provider == model.model else f"{model.provider}:{model.model}"
    return ", ".join([name, *settings])


def _text(value: object) -> str:
    """One short line, without characters that control a terminal."""
    match value:
        case ModelSpec():
            text = _model(value)
        case BaseModel():
            text = _text(_different(value, type(value)()))
        case dict():
            text = ", ".join(f"{name} {_text(part)}" for name, part in value.items())
        case list():
            text = "/".join(map(str, value)) or "none"
        case bool():
            text = str(value).lower()
        case _:
            text = str(value)
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return line if len(line) <= _WIDTH else line[: _WIDTH - 1] + "…"


def _dotted(parts: Sequence[str]) -> str:
    return "".join(f" · {part}" for part in parts if part)
