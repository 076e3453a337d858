"""A resolved system as a tree to read: who there is, what each may call, and what differs from the defaults."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from pydantic import BaseModel

from stellwerk.spec.catalogue import Catalogue
from stellwerk.spec.model import DECISIONS, AgentAsTool, AgentConfig, CompleteAgent, ModelSpec, SystemSpec
from stellwerk.spec.resolve import Resolved

Style = Literal["plain", "name", "dim", "good", "warn", "bad"]
Line = Sequence[tuple[str, Style]]

_LONGEST = 60


@dataclass
class _Node:
    line: Line
    below: list["_Node"]


def tree(resolved: Resolved, catalogue: Catalogue) -> Iterator[Line]:
    """Each line as pieces of text with a style; joined, they are the plain line."""
    drawing = _Drawing(resolved, catalogue)
    yield from _lines(drawing.system(), first="", rest="")


def _lines(node: _Node, *, first: str, rest: str) -> Iterator[Line]:
    yield [(first, "dim"), *node.line]
    for child in node.below:
        last = child is node.below[-1]
        yield from _lines(child, first=rest + ("└── " if last else "├── "), rest=rest + ("    " if last else "│   "))


class _Drawing:
    def __init__(self, resolved: Resolved, catalogue: Catalogue) -> None:
        self._resolved, self._catalogue = resolved, catalogue
        agents = reversed(resolved.system.agents)  # the first of a name counts
        self._written = {agent.id: agent.tools.allow for agent in agents}
        self._shown: set[str] = set()

    def system(self) -> _Node:
        said = self._resolved.system.system
        below = [_note(name, value) for name, value in _different(said, SystemSpec(name=said.name))]
        below.append(self._agent(self._resolved.root, None))
        for name, agent in self._resolved.agents.items():
            if name not in self._shown:
                below.append(self._agent(agent, None, remark="nobody calls it"))
        return _Node(
            [(said.name, "name"), (_dotted([f"version {self._resolved.system.version}", said.description]), "dim")],
            below,
        )

    def _agent(self, agent: CompleteAgent, use: AgentAsTool | None, *, remark: str = "") -> _Node:
        what = [f"graph {agent.graph}"] if agent.kind == "graph" else [agent.kind, _model(agent.model)]
        again = agent.name in self._shown
        details = [*what, _text(agent.description), remark, "see above" if again else ""]
        node = _Node([(agent.name, "name"), (_dotted(details), "dim")], self._terms(use))
        if not again:
            self._shown.add(agent.name)
            node.below += [_note(name, value) for name, value in _different(_spelt_out(agent.config), AgentConfig())]
            node.below += self._callable(agent)
        return node

    def _terms(self, use: AgentAsTool | None) -> list[_Node]:
        if use is None:
            return []
        said = (("only these tools", use.allowed_tools), ("mission instead", use.mission_override))
        return [_note(name, value) for name, value in said if value is not None]

    def _callable(self, agent: CompleteAgent) -> Iterator[_Node]:
        """In the order in which the document allows them."""
        uses = {use.agent.name: use for use in agent.agents_as_tools}
        for name in dict.fromkeys(self._written[agent.name]):
            if name in uses:
                yield self._agent(uses[name].agent, uses[name])
            elif name not in self._resolved.agents:
                yield _Node(self._tool(name), [])

    def _tool(self, name: str) -> Line:
        known = self._catalogue.named(name)
        if name in self._catalogue.tools:
            return [(known, "plain"), (f" (as {name})" if known != name else "", "dim")]
        if server := self._catalogue.unasked_server(name):
            return [(name, "plain"), (f"  of the MCP server {server}, not checked", "dim")]
        return [("✗ ", "bad"), (name, "plain"), ("  not registered", "bad")]


def _spelt_out(config: AgentConfig) -> AgentConfig:
    """No decision named means that all are open."""
    approvals = {tool: decisions or list(DECISIONS) for tool, decisions in config.approvals.items()}
    return config.model_copy(update={"approvals": approvals})


def _model(model: ModelSpec) -> str:
    settings = [f"{name} {_text(value)}" for name, value in _different(model, ModelSpec()) if name in _MODEL_SETTINGS]
    name = model.provider if model.provider == model.model else f"{model.provider}:{model.model}"
    return ", ".join([name, *settings])


_MODEL_SETTINGS = ("temperature", "top_p", "max_tokens", "timeout", "tool_calling", "images")


def _different(said: BaseModel, default: BaseModel) -> Iterator[tuple[str, object]]:
    for name in type(said).model_fields:
        value = getattr(said, name)
        if value != getattr(default, name) and name != "description":
            yield name, value


def _note(name: str, value: object) -> _Node:
    return _Node([(f"{name}: ", "dim"), (_text(value), "plain")], [])


def _text(value: object) -> str:
    """One short line, in which no character can play tricks with a terminal."""
    match value:
        case ModelSpec():
            text = _model(value)
        case BaseModel():
            text = ", ".join(f"{name} {_text(part)}" for name, part in _different(value, type(value)()))
        case dict():
            text = ", ".join(f"{name} {_text(part)}" for name, part in value.items())
        case list():
            text = "/".join(map(str, value)) or "none"
        case bool():
            text = str(value).lower()
        case _:
            text = str(value)
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return line if len(line) <= _LONGEST else line[: _LONGEST - 1] + "…"


def _dotted(parts: Sequence[str]) -> str:
    return "".join(f" · {part}" for part in parts if part)
