"""An agent system and what the server knows, put together: agents that are whole, and all that does not fit.

Rights go one way. Naming a sub-agent in ``allow`` grants the tools which that
agent declares for itself; ``allowed_tools`` and ``mission_override`` can only
take away.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from stellwerk.errors import SpecError, SpecProblem
from stellwerk.spec.catalogue import Catalogue
from stellwerk.spec.family import Family
from stellwerk.spec.gaps import NO_GAPS, Gaps
from stellwerk.spec.load import Loaded
from stellwerk.spec.model import AgentAsTool, AgentConfig, AgentSpec, AgentSystem, CompleteAgent, ToolSchema
from stellwerk.spec.own_graphs import idle_settings, in_force
from stellwerk.spec.rules import check
from stellwerk.spec.rules_rights import BY_TOOL


@dataclass(frozen=True)
class Resolved:
    """``problems`` forbid the system, what is missing forbids it on this server, ``warnings`` do not."""

    name: str
    system: AgentSystem
    """What was described, without settings that do nothing."""
    root: CompleteAgent
    agents: Mapping[str, CompleteAgent]
    problems: tuple[SpecProblem, ...]
    unregistered: tuple[SpecProblem, ...]
    """Tools."""
    uninstalled: tuple[SpecProblem, ...]
    """Packages of providers."""
    warnings: tuple[SpecProblem, ...]

    @property
    def missing(self) -> tuple[SpecProblem, ...]:
        return self.unregistered + self.uninstalled


def resolve(written: AgentSystem, catalogue: Catalogue, gaps: Gaps = NO_GAPS) -> Resolved:
    """Always whole: a sub-agent that closes a circle, or whose tools are unknown, is built without them."""
    system = in_force(written)
    family = Family.of(system)
    findings = check(system, family, catalogue, gaps)
    for setting, why in idle_settings(written):
        findings.refuse(setting, why)
    agents = _Builder(system, family, catalogue).agents()
    return Resolved(
        name=system.system.name,
        system=system,
        root=agents[system.orchestrator().id],
        agents=agents,
        problems=tuple(findings.problems),
        unregistered=tuple(findings.unregistered),
        uninstalled=tuple(findings.uninstalled),
        warnings=tuple(findings.warnings),
    )


def admit(loaded: Loaded, catalogue: Catalogue) -> Resolved:
    """Resolve a system that is to be registered; its warnings stay.

    Raises:
        SpecError: it has problems, names tools that are not registered, or needs packages that are not installed.
    """
    resolved = resolve(loaded.system, catalogue, loaded.gaps)
    if refused := loaded.all_problems((*resolved.problems, *resolved.missing)):
        raise SpecError.of(loaded.source, refused)
    return resolved


class _Builder:
    def __init__(self, system: AgentSystem, family: Family, catalogue: Catalogue) -> None:
        self._system, self._family, self._catalogue = system, family, catalogue
        self._made: dict[str, CompleteAgent] = {}

    def agents(self) -> dict[str, CompleteAgent]:
        """Children first, so that each agent is made once and shared by all who use it."""
        for name in self._family.children_first():
            self._made[name] = self._complete(self._family.agents[name])
        return self._made

    def _complete(self, agent: AgentSpec) -> CompleteAgent:
        tools = (self._catalogue.named(name) for name in agent.tools.allow if self._is_tool(name))
        return CompleteAgent(
            name=agent.id,
            description=agent.description,
            config=self._config(agent),
            tool_schemas=[ToolSchema(name=name) for name in dict.fromkeys(tools)],
            agents_as_tools=[self._as_tool(agent, child) for child in self._family.children[agent.id]],
            model=agent.model or self._system.system.default_model,
            kind=agent.kind,
            graph=agent.graph,
        )

    def _as_tool(self, agent: AgentSpec, child: str) -> AgentAsTool:
        made = self._made[child]
        use = agent.tools.agents.get(child)
        if use is None or made.kind == "graph":
            return AgentAsTool(agent=made)
        allowed = None if use.allowed_tools is None else [self._catalogue.named(name) for name in use.allowed_tools]
        return AgentAsTool(agent=made, allowed_tools=allowed, mission_override=use.mission_override)

    def _config(self, agent: AgentSpec) -> AgentConfig:
        """Settings for single tools are kept under the name that the tool has, whatever alias was written."""
        by_tool = {
            name: {self._catalogue.named(tool): value for tool, value in getattr(agent, name).items()}
            for name in BY_TOOL
        }
        return agent.config().model_copy(update=by_tool)

    def _is_tool(self, name: str) -> bool:
        known = name in self._catalogue.tools or self._catalogue.unasked_server(name) is not None
        return known and name not in self._family.agents
