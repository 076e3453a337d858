"""What must hold for the rights of agents: what each may call, on which terms, and what that does to the world."""

from collections.abc import Callable, Collection

from stellwerk.spec.findings import Findings
from stellwerk.spec.model import AgentSpec, SubAgentUse
from stellwerk.spec.own_graphs import DECIDES
from stellwerk.spec.rules_effects import effects_are_allowed

_NOTHING_NEAR = "`stellwerk tools` lists what there is"
BY_TOOL = ("tool_call_limits", "tool_timeouts", "approvals")


def _tools_are_registered(found: Findings) -> None:
    known = {*found.catalogue.tools, *found.family.agents}
    for where, agent in found.agents():
        seen: set[str] = set()
        for n, name in enumerate(agent.tools.allow):
            place = f"{where}.tools.allow[{n}]"
            if name not in known:
                _unknown_tool(found, place, name, known)
            if found.catalogue.named(name) in seen:
                found.warn(place, f"{name!r} is allowed twice")
            seen.add(found.catalogue.named(name))


def _unknown_tool(found: Findings, place: str, name: str, known: Collection[str]) -> None:
    if server := found.catalogue.unasked_server(name):
        found.warn(place, f"whether the MCP server {server!r} offers {name!r} was not checked")
        return
    hint = found.hint(name, known, otherwise=_NOTHING_NEAR)
    if hint != _NOTHING_NEAR or not found.gaps.nameless_agents:
        found.miss(place, f"the tool {name!r} is not registered; {hint}")


def _terms_fit_sub_agents(found: Findings) -> None:
    for where, agent in found.agents():
        for name, use in agent.tools.agents.items():
            place = f"{where}.tools.agents.{name}"
            if name not in found.family.agents:
                if not found.gaps.nameless_agents:
                    found.refuse(place, f"there is no agent {name!r}; {found.hint(name, found.family.agents)}")
            elif name not in agent.tools.allow:
                if found.gaps.sure(f"{where}.tools.allow"):
                    found.refuse(place, f"{agent.id!r} is not allowed to use {name!r}; add it to tools.allow")
            else:
                _only_takes_away(found, place, found.family.agents[name], use)


def _only_takes_away(found: Findings, place: str, agent: AgentSpec, use: SubAgentUse) -> None:
    if agent.kind == "graph":
        for term in SubAgentUse.model_fields:
            if getattr(use, term) is not None:
                found.refuse(f"{place}.{term}", DECIDES)
    elif found.gaps.sure(f"{found.where(agent.id)}.tools.allow"):
        own = found.may_call(agent)
        for n, tool in enumerate(use.allowed_tools or ()):
            if tool not in own:
                hint = found.hint(tool, agent.tools.allow)
                message = f"{agent.id!r} has no tool {tool!r}, and this list can only take away; {hint}"
                found.refuse(f"{place}.allowed_tools[{n}]", message)


def _settings_fit_tools(found: Findings) -> None:
    for where, agent in found.agents():
        if found.gaps.sure(f"{where}.tools.allow") and found.gaps.sure(f"{where}.kind"):
            own = found.may_call(agent)
            foreign = [(name, tool) for name in BY_TOOL for tool in getattr(agent, name) if tool not in own]
            for setting, tool in foreign:
                _foreign_tool(found, f"{where}.{setting}.{tool}", agent, tool)


def _foreign_tool(found: Findings, place: str, agent: AgentSpec, tool: str) -> None:
    message = f"{agent.id!r} is not allowed the tool {tool!r}"
    if agent.kind == "deep":
        found.warn(place, f"{message}; this counts only if deep agents bring a tool of that name")
    else:
        hint = found.hint(tool, agent.tools.allow, otherwise="add it to tools.allow, or remove this")
        found.refuse(place, f"{message}; {hint}")


RIGHTS_RULES: Collection[Callable[[Findings], None]] = (
    _tools_are_registered,
    _terms_fit_sub_agents,
    _settings_fit_tools,
    effects_are_allowed,
)
