"""An agent that is a graph of the operator's: it runs as it is, so few settings reach it."""

from collections.abc import Iterator

from stellwerk.spec.model import AgentSpec, AgentSystem

DECIDES = "a graph of your own decides this itself; take it away"
_REACH = frozenset({"id", "role", "kind", "graph", "description", "completion_signal"})


def idle_settings(system: AgentSystem) -> Iterator[str]:
    """The path of each setting that would do nothing."""
    for n, agent in enumerate(system.agents):
        if agent.kind == "graph":
            yield from (f"agents[{n}].{name}" for name in sorted(agent.model_fields_set - _REACH))


def in_force(system: AgentSystem) -> AgentSystem:
    """The same system without them."""
    return system.model_copy(update={"agents": [_in_force(agent) for agent in system.agents]})


def _in_force(agent: AgentSpec) -> AgentSpec:
    if agent.kind != "graph":
        return agent
    return AgentSpec.model_validate({name: getattr(agent, name) for name in agent.model_fields_set & _REACH})
