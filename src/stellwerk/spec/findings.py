"""What the rules find in an agent system, and what they may ask about it."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from stellwerk.errors import SpecProblem
from stellwerk.spec.catalogue import Catalogue
from stellwerk.spec.document import SHOWN
from stellwerk.spec.family import Family
from stellwerk.spec.gaps import NO_GAPS, Gaps
from stellwerk.spec.hints import Hints
from stellwerk.spec.model import AgentSpec, AgentSystem


@dataclass
class Findings:
    system: AgentSystem
    family: Family
    catalogue: Catalogue
    gaps: Gaps = NO_GAPS
    problems: list[SpecProblem] = field(default_factory=list[SpecProblem])
    unregistered: list[SpecProblem] = field(default_factory=list[SpecProblem])
    """Tools that the system names and this server does not have."""
    uninstalled: list[SpecProblem] = field(default_factory=list[SpecProblem])
    """Packages that its models need and this server does not have."""
    warnings: list[SpecProblem] = field(default_factory=list[SpecProblem])
    _hints: Hints = field(default_factory=Hints)
    _callable: dict[int, set[str]] = field(default_factory=dict[int, set[str]])

    def refuse(self, where: str, message: str) -> None:
        self._add(self.problems, where, message)

    def miss(self, where: str, message: str) -> None:
        self._add(self.unregistered, where, message)

    def lack(self, where: str, message: str) -> None:
        self._add(self.uninstalled, where, message)

    def warn(self, where: str, message: str) -> None:
        self._add(self.warnings, where, message)

    def _add(self, found: list[SpecProblem], where: str, message: str) -> None:
        """Once, and no more than are told: the rest would only cost time."""
        problem = SpecProblem(message, self.gaps.original(where))
        if len(found) < SHOWN and problem not in found and not self.gaps.took(where):
            found.append(problem)

    def hint(self, name: str, known: Collection[str], *, otherwise: str | None = None) -> str:
        return self._hints.did_you_mean(name, known, otherwise=otherwise)

    def agents(self) -> Iterator[tuple[str, AgentSpec]]:
        """Each agent with the path of its field."""
        return ((f"agents[{n}]", agent) for n, agent in enumerate(self.system.agents))

    def where(self, name: str) -> str:
        return next(where for where, agent in self.agents() if agent.id == name)

    def may_call(self, agent: AgentSpec) -> set[str]:
        """Every name by which an agent may call something, aliases included."""
        if id(agent) not in self._callable:
            named = {self.catalogue.named(name) for name in agent.tools.allow}
            aliases = {alias for alias, name in self.catalogue.tools.items() if name in named}
            self._callable[id(agent)] = named | aliases | set(agent.tools.allow)
        return self._callable[id(agent)]
