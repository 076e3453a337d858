"""Settings that do nothing: a graph of the operator's runs as it is, and a workplan leaves most to its sub-agents."""

from collections.abc import Iterator

from stellwerk.spec.model import AgentSpec, AgentSystem

DECIDES = "a graph of your own decides this itself; take it away"
_PLANS = "an agent of kind workplan only plans; set this at the sub-agents that do the tasks"
_SUMS_UP = "only an agent of kind workplan has documents summed up; take it away"
_SUMMARIES = "document_summaries"
_ALWAYS = {"id", "role", "kind", "description", "completion_signal"}
_REACH = {
    "graph": _ALWAYS | {"graph"},
    "workplan": _ALWAYS
    | {"graph", "system_prompt", "mission", "model", "model_retries", "tools", "effects", "approvals_after_reading"}
    | {_SUMMARIES},
}
"""By kind, the settings that do something; a graph for the wrong kind is refused elsewhere."""


def idle_settings(system: AgentSystem) -> Iterator[tuple[str, str]]:
    """The path of each setting that would do nothing, and why."""
    for n, agent in enumerate(system.agents):
        if agent.kind in _REACH:
            why = DECIDES if agent.kind == "graph" else _PLANS
            yield from ((f"agents[{n}].{name}", why) for name in sorted(agent.model_fields_set - _REACH[agent.kind]))
        elif _SUMMARIES in agent.model_fields_set:
            yield f"agents[{n}].{_SUMMARIES}", _SUMS_UP


def in_force(system: AgentSystem) -> AgentSystem:
    """The same system without them."""
    return system.model_copy(update={"agents": [_in_force(agent) for agent in system.agents]})


def _in_force(agent: AgentSpec) -> AgentSpec:
    if agent.kind not in _REACH:
        return agent
    reach = agent.model_fields_set & _REACH[agent.kind]
    return AgentSpec.model_validate({name: getattr(agent, name) for name in reach})
