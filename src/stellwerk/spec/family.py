"""Who uses whom: the agents of a system as a graph of ids, and the circles in it."""

from collections.abc import Mapping
from dataclasses import dataclass

from stellwerk.spec.model import AgentSpec, AgentSystem


@dataclass(frozen=True)
class Family:
    """``children`` leaves out each use that would close a circle; those stand in ``circles``."""

    agents: Mapping[str, AgentSpec]
    children: Mapping[str, tuple[str, ...]]
    circles: tuple[tuple[str, ...], ...]
    """Each as the ids along it, the first one again at its end."""

    @classmethod
    def of(cls, system: AgentSystem) -> "Family":
        agents: dict[str, AgentSpec] = {}
        for agent in system.agents:
            agents.setdefault(agent.id, agent)
        uses = {name: tuple(dict.fromkeys(t for t in a.tools.allow if t in agents)) for name, a in agents.items()}
        return _without_circles(agents, uses)

    def children_first(self) -> list[str]:
        order: dict[str, None] = {}
        for start in self.agents:
            self._after_children(start, order)
        return list(order)

    def _after_children(self, name: str, order: dict[str, None]) -> None:
        if name not in order:
            for child in self.children[name]:
                self._after_children(child, order)
            order[name] = None

    def reachable(self, root: str) -> set[str]:
        seen = {root}
        waiting = [root]
        while waiting:
            new = set(self.children[waiting.pop()]) - seen
            seen |= new
            waiting += new
        return seen

    def longest_chains(self) -> dict[str, tuple[str, ...]]:
        """For each agent the longest way down, itself included."""
        chains: dict[str, tuple[str, ...]] = {}
        for name in self.children_first():
            below = max((chains[child] for child in self.children[name]), key=len, default=())
            chains[name] = (name, *below)
        return chains

    def uses_below(self) -> dict[str, int]:
        """How many agents are made when each use gets one of its own."""
        sizes: dict[str, int] = {}
        for name in self.children_first():
            sizes[name] = 1 + sum(sizes[child] for child in self.children[name])
        return sizes


def _without_circles(agents: Mapping[str, AgentSpec], uses: Mapping[str, tuple[str, ...]]) -> Family:
    kept: dict[str, list[str]] = {name: [] for name in agents}
    circles: list[tuple[str, ...]] = []
    done: set[str] = set()

    def walk(trail: tuple[str, ...]) -> None:
        name = trail[-1]
        for child in uses[name]:
            if child in trail:
                circles.append((*trail[trail.index(child) :], child))
                continue
            kept[name].append(child)
            if child not in done:
                walk((*trail, child))
        done.add(name)

    for name in agents:
        if name not in done:
            walk((name,))
    return Family(agents, {name: tuple(found) for name, found in kept.items()}, tuple(circles))
