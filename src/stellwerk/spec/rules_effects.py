"""The rule of effects: what an agent's tools may do to the world holds for all agents below it, too."""

from collections.abc import Iterator
from typing import NamedTuple, get_args

from stellwerk.spec.findings import Findings
from stellwerk.spec.model import AgentSpec, Effect, SubAgentUse

_ANYTHING: frozenset[str] = frozenset(get_args(Effect))
_OF_A_GRAPH = "external"
"""Nobody knows what a graph does to the world, so the worst is assumed."""


class _Use(NamedTuple):
    """An agent, and what those above leave to it."""

    agent: str
    effects: frozenset[str]
    tools: frozenset[str] | None
    """All that it has, if nothing is said."""
    asked: bool = False
    """Whether the user is asked before anything external is done, once something untrusted was read."""


def effects_are_allowed(found: Findings) -> None:
    """Down from the orchestrator, in the way in which agents are built. Each use is looked at once."""
    root = found.system.orchestrator().id
    reached = found.family.reachable(root)
    waiting = [_Use(name, _ANYTHING, None) for name in found.family.agents if name == root or name not in reached]
    known = {name: _Known.of(found, name) for name in found.family.agents}
    seen: set[_Use] = set()
    while waiting:
        use = waiting.pop()
        if use not in seen:
            seen.add(use)
            waiting += _uses_below(found, known[use.agent], use)


class _Known(NamedTuple):
    """An agent and what it may call, each name with its place in the list."""

    where: str
    agent: AgentSpec
    allowed: dict[str, int]

    @classmethod
    def of(cls, found: Findings, name: str) -> "_Known":
        agent = found.family.agents[name]
        allowed: dict[str, int] = {}
        for n, written in enumerate(agent.tools.allow):
            allowed.setdefault(found.catalogue.named(written), n)
        return cls(found.where(name), agent, allowed)


def _uses_below(found: Findings, known: _Known, use: _Use) -> Iterator[_Use]:
    where, agent, allowed = known
    effects = use.effects
    if agent.effects is not None and found.gaps.sure(f"{where}.effects"):
        effects &= frozenset(agent.effects)
    asked = use.asked or _OF_A_GRAPH in agent.approvals_after_reading
    for name in allowed if use.tools is None else use.tools & allowed.keys():
        place = f"{where}.tools.allow[{allowed[name]}]"
        if name not in found.family.children[agent.id]:
            _compare(found, place, f"{agent.id!r} has the tool {name!r}", found.catalogue.effects.get(name), effects)
        elif found.family.agents[name].kind == "graph":
            _compare(found, place, f"{agent.id!r} has the graph {name!r}", _OF_A_GRAPH, effects)
            if asked and agent.kind == "workplan":
                found.refuse(place, cannot_ask(agent.id, name))
        elif found.gaps.sure(f"{where}.tools.agents"):
            yield _Use(name, effects, _left_by(found, agent.tools.agents.get(name)), asked)


def cannot_ask(workplan: str, graph: str) -> str:
    return (
        f"agent {workplan!r} is a workplan, which hands tasks to the graph {graph!r} without asking, but "
        "approvals_after_reading of it, or of an agent that uses it, has the effect external; "
        "take the graph away, or let an agent of another kind use it"
    )


def _left_by(found: Findings, terms: SubAgentUse | None) -> frozenset[str] | None:
    if terms is None or terms.allowed_tools is None:
        return None
    return frozenset(map(found.catalogue.named, terms.allowed_tools))


def _compare(found: Findings, place: str, who: str, effect: str | None, allowed: frozenset[str]) -> None:
    if effect is not None and effect not in allowed:
        found.refuse(
            place,
            f"agent {who} of effect {effect!r}, but it, or an agent that uses it, "
            f"may only have: {', '.join(sorted(allowed)) or 'none'}; take it away, or add the effect",
        )
