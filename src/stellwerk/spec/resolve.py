"""Resolution of an agent system against the catalogue of a server: complete agents, and problems.

Permissions only narrow. Naming a sub-agent in ``allow`` grants the tools which
that agent declares for itself; ``allowed_tools`` and ``mission_override`` can
only take away.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from stellwerk.errors import SpecError, SpecProblem
from stellwerk.spec.catalogue import Catalogue
from stellwerk.spec.load import LoadedSystem
from stellwerk.spec.model import AgentAsTool, AgentConfig, AgentSpec, AgentSystem, CompleteAgent, ToolSchema
from stellwerk.spec.rules import BY_TOOL, RULES, AgentGraph, Findings


@dataclass(frozen=True)
class Resolved:
    """``problems`` forbid the system, ``missing`` forbids it on this server, ``warnings`` nothing."""

    name: str
    system: AgentSystem
    root: CompleteAgent
    agents: Mapping[str, CompleteAgent]
    graph_schemas: Mapping[str, Mapping[str, Any]]
    """By the name of a graph: its JSON Schemas and nodes, if they are known."""
    problems: tuple[SpecProblem, ...]
    unregistered: tuple[SpecProblem, ...]
    """Tools."""
    uninstalled: tuple[SpecProblem, ...]
    """Packages of providers."""
    warnings: tuple[SpecProblem, ...]

    @property
    def missing(self) -> tuple[SpecProblem, ...]:
        return self.unregistered + self.uninstalled


def resolve(system: AgentSystem, catalogue: Catalogue) -> Resolved:
    """Always succeeds: a use that closes a cycle, and a tool that is unknown, are left out."""
    findings = Findings(system, AgentGraph(system), catalogue)
    for rule in RULES:
        rule(findings)
    agents = _complete_agents(findings)
    return Resolved(
        name=system.system.name,
        system=system,
        root=agents[system.orchestrator().id],
        agents=agents,
        graph_schemas=_graph_schemas(agents.values(), catalogue),
        problems=tuple(findings.problems),
        unregistered=tuple(findings.unregistered),
        uninstalled=tuple(findings.uninstalled),
        warnings=tuple(findings.warnings),
    )


def admit(loaded: LoadedSystem, catalogue: Catalogue) -> Resolved:
    """Resolve a system that is to be registered; its warnings stay.

    Raises:
        SpecError: it has problems, or needs tools or packages that are not there.
    """
    resolved = resolve(loaded.system, catalogue)
    if refused := loaded.located((*resolved.problems, *resolved.missing)):
        raise SpecError.of(loaded.source, refused)
    return resolved


def _complete_agents(found: Findings) -> dict[str, CompleteAgent]:
    """Children first, so that each agent is made once and shared by all agents that use it."""
    made: dict[str, CompleteAgent] = {}
    for name, children in found.graph.children.items():
        agent = found.graph.agents[name]
        uses = [_as_tool(agent, made[child], found.catalogue) for child in children]
        made[name] = CompleteAgent(
            name=agent.id,
            description=agent.description,
            config=_config(agent, found.catalogue),
            tool_schemas=_tool_schemas(agent, found),
            agents_as_tools=uses,
            model=agent.model or found.system.system.default_model,
            kind=agent.kind,
            graph=agent.graph,
            defaults=agent.defaults(),
        )
    return made


def _graph_schemas(agents: Iterable[CompleteAgent], catalogue: Catalogue) -> dict[str, Mapping[str, Any]]:
    graphs = {agent.graph for agent in agents if agent.graph in catalogue.graphs}
    return {name: catalogue.graph_schemas(name) for name in graphs if name is not None}


def _tool_schemas(agent: AgentSpec, found: Findings) -> list[ToolSchema]:
    names: dict[str, None] = {}
    for name in agent.tools.allow:
        known = name in found.catalogue.tools or found.catalogue.unasked_server(name) is not None
        if known and name not in found.graph.agents:
            names[found.catalogue.named(name)] = None
    return [ToolSchema(name=name) for name in names]


def _as_tool(agent: AgentSpec, child: CompleteAgent, catalogue: Catalogue) -> AgentAsTool:
    use = agent.tools.agents.get(child.name)
    if use is None or child.kind == "graph":
        return AgentAsTool(agent=child)
    allowed = use.allowed_tools
    if allowed is not None:
        allowed = [catalogue.named(name) for name in allowed]
    return AgentAsTool(agent=child, allowed_tools=allowed, mission_override=use.mission_override)


def _config(agent: AgentSpec, catalogue: Catalogue) -> AgentConfig:
    """Settings of single tools move from aliases to the canonical names."""
    changes: dict[str, object] = {}
    for setting in BY_TOOL:
        by_tool = getattr(agent, setting)
        changes[setting] = {catalogue.named(tool): value for tool, value in by_tool.items()}
    return agent.settings().model_copy(update=changes)
