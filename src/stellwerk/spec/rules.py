"""What must hold in an agent system beyond the shape of each field. One function for each rule."""

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field

from stellwerk.errors import SpecProblem
from stellwerk.spec.catalogue import Catalogue
from stellwerk.spec.document import SHOWN
from stellwerk.spec.family import Family
from stellwerk.spec.model import AgentSpec, AgentSystem, ModelSpec
from stellwerk.spec.remedies import did_you_mean

NESTING_LIMIT = 10
USES_LIMIT = 1_000
BY_TOOL = ("tool_call_limits", "tool_timeouts", "approvals")


@dataclass
class Findings:
    system: AgentSystem
    family: Family
    catalogue: Catalogue
    problems: list[SpecProblem] = field(default_factory=list[SpecProblem])
    unregistered: list[SpecProblem] = field(default_factory=list[SpecProblem])
    """Tools that the system names and this server does not have."""
    warnings: list[SpecProblem] = field(default_factory=list[SpecProblem])
    _hints: int = 0

    def refuse(self, where: str, message: str) -> None:
        _add(self.problems, SpecProblem(message, where))

    def miss(self, where: str, message: str) -> None:
        _add(self.unregistered, SpecProblem(message, where))

    def warn(self, where: str, message: str) -> None:
        _add(self.warnings, SpecProblem(message, where))

    def hint(self, name: str, known: Collection[str], *, otherwise: str | None = None) -> str:
        """What may be meant. Only so often: to compare thousands of names would take seconds."""
        self._hints += 1
        if self._hints > SHOWN:
            return otherwise or "see above"
        return did_you_mean(name, known, otherwise=otherwise)

    def agents(self) -> Iterator[tuple[str, AgentSpec]]:
        """Each agent with the path of its field."""
        return ((f"agents[{n}]", agent) for n, agent in enumerate(self.system.agents))

    def where(self, name: str) -> str:
        return next(where for where, agent in self.agents() if agent.id == name)

    def may_call(self, agent: AgentSpec) -> set[str]:
        """Every name by which an agent may call something, aliases included."""
        named = {self.catalogue.named(name) for name in agent.tools.allow}
        return named | set(agent.tools.allow) | {alias for alias, name in self.catalogue.tools.items() if name in named}


def _add(found: list[SpecProblem], problem: SpecProblem) -> None:
    """Once, and no more than are told: the rest would only cost time."""
    if len(found) < SHOWN and problem not in found:
        found.append(problem)


def check(system: AgentSystem, family: Family, catalogue: Catalogue) -> Findings:
    findings = Findings(system, family, catalogue)
    for rule in _RULES:
        rule(findings)
    return findings


def _ids_are_unique(found: Findings) -> None:
    first: dict[str, str] = {}
    for where, agent in found.agents():
        if agent.id in first:
            found.refuse(f"{where}.id", f"{first[agent.id]} is called {agent.id!r} as well; rename one of them")
        first.setdefault(agent.id, where)
        if agent.id in found.catalogue.tools:
            found.refuse(f"{where}.id", f"a tool is called {agent.id!r} as well; give the agent another id")


def _one_orchestrator(found: Findings) -> None:
    orchestrators = [(where, agent) for where, agent in found.agents() if agent.role == "orchestrator"]
    if not orchestrators:
        found.refuse("agents", "nobody gets the user's messages; give one agent the role orchestrator")
    for where, agent in orchestrators[1:]:
        said = "" if "role" in agent.model_fields_set else ", because it says no role"
        found.refuse(
            f"{where}.role" if not said else where,
            f"{agent.id!r} is an orchestrator beside {orchestrators[0][1].id!r}{said}; "
            "there is one, so give the others role: sub-agent",
        )


def _no_circles(found: Findings) -> None:
    for circle in found.family.circles:
        user, used = circle[-2:]
        place = found.family.agents[user].tools.allow.index(used)
        found.refuse(
            f"{found.where(user)}.tools.allow[{place}]",
            f"these agents call each other in a circle: {' → '.join(circle)}; remove one of the steps",
        )


def _bounded_families(found: Findings) -> None:
    root = found.system.orchestrator().id
    chain = found.family.longest_chains()[root]
    if len(chain) - 1 > NESTING_LIMIT:
        found.refuse(
            f"{found.where(root)}.tools.allow",
            f"sub-agents are nested {len(chain) - 1} deep, {NESTING_LIMIT} are allowed: {' → '.join(chain)}",
        )
    uses = found.family.uses_below()[root]
    if uses > USES_LIMIT:
        found.refuse(
            f"{found.where(root)}.tools.allow",
            f"with each use counted, these are {uses} agents, and {USES_LIMIT} are allowed; let fewer use the same",
        )


def _graphs_are_known(found: Findings) -> None:
    for where, agent in found.agents():
        if agent.kind != "graph":
            if agent.graph is not None:
                found.refuse(f"{where}.graph", f"an agent of kind {agent.kind} has no graph; say kind: graph")
        elif agent.graph is None:
            found.refuse(where, "an agent of kind graph needs the name of one; add graph: <name>")
        elif agent.graph not in found.catalogue.graphs:
            hint = found.hint(agent.graph, found.catalogue.graphs)
            found.refuse(f"{where}.graph", f"the operator has registered no graph {agent.graph!r} (--config); {hint}")


def _tools_are_registered(found: Findings) -> None:
    for where, agent in found.agents():
        seen: set[str] = set()
        for n, name in enumerate(agent.tools.allow):
            place = f"{where}.tools.allow[{n}]"
            _is_registered(found, place, name)
            if found.catalogue.named(name) in seen:
                found.warn(place, f"{name!r} is allowed twice")
            seen.add(found.catalogue.named(name))


def _is_registered(found: Findings, place: str, name: str) -> None:
    known = {*found.catalogue.tools, *found.family.agents}
    if name in known:
        return
    if server := found.catalogue.unasked_server(name):
        found.warn(place, f"whether the MCP server {server!r} offers {name!r} was not checked")
        return
    hint = found.hint(name, known, otherwise="`stellwerk tools` lists what there is")
    found.miss(place, f"the tool {name!r} is not registered; {hint}")


def _terms_fit_sub_agents(found: Findings) -> None:
    for where, agent in found.agents():
        for name, use in agent.tools.agents.items():
            place = f"{where}.tools.agents.{name}"
            if name not in found.family.agents:
                found.refuse(place, f"there is no agent {name!r}; {found.hint(name, found.family.agents)}")
            elif name not in agent.tools.allow:
                found.refuse(place, f"{agent.id!r} is not allowed to use {name!r}; add it to tools.allow")
            else:
                _only_takes_away(found, place, found.family.agents[name], use.allowed_tools or ())


def _only_takes_away(found: Findings, place: str, agent: AgentSpec, allowed: Collection[str]) -> None:
    own = found.may_call(agent)
    for n, tool in enumerate(allowed):
        if tool not in own:
            hint = found.hint(tool, agent.tools.allow)
            message = f"{agent.id!r} has no tool {tool!r}, and this list can only take away; {hint}"
            found.refuse(f"{place}.allowed_tools[{n}]", message)


def _settings_fit_tools(found: Findings) -> None:
    for where, agent in found.agents():
        own = found.may_call(agent)
        for setting in BY_TOOL if agent.kind != "graph" else ():
            for tool in getattr(agent, setting):
                if tool not in own:
                    _foreign_tool(found, f"{where}.{setting}.{tool}", agent, tool)


def _foreign_tool(found: Findings, place: str, agent: AgentSpec, tool: str) -> None:
    message = f"{agent.id!r} is not allowed the tool {tool!r}"
    if agent.kind == "deep":
        found.warn(place, f"{message}; this counts only if deep agents bring a tool of that name")
    else:
        hint = found.hint(tool, agent.tools.allow, otherwise="add it to tools.allow, or remove this")
        found.refuse(place, f"{message}; {hint}")


def _models(found: Findings) -> Iterator[tuple[str, AgentSpec, ModelSpec]]:
    for where, agent in found.agents():
        if agent.model is None:
            yield "system.default_model", agent, found.system.system.default_model
        else:
            yield f"{where}.model", agent, agent.model


def _providers_are_known(found: Findings) -> None:
    used = {where: model.provider for where, _, model in _models(found)}
    keyless: set[str] = set()
    for where, said in {"system.default_model": found.system.system.default_model.provider, **used}.items():
        name = said if said in found.catalogue.providers else said.replace("-", "_").lower()
        if name not in found.catalogue.providers:
            found.refuse(
                f"{where}.provider", f"there is no provider {said!r}; {found.hint(said, found.catalogue.providers)}"
            )
        elif where in used and name not in found.catalogue.keys and name not in keyless:
            keyless.add(name)
            secret = f"{name.replace('-', '_').lower()}_api_key"
            remedy = f"store the secret {secret}, or start the server with {secret.upper()} set"
            found.warn(f"{where}.provider", f"there is no key for {said!r}; {remedy}")


def _scripts_fit_tools(found: Findings) -> None:
    for where, agent, model in _models(found):
        own = found.may_call(agent)
        for place, tool in _calls(model, where) if agent.kind == "react" else ():  # others bring tools of their own
            if tool not in own:
                hint = found.hint(tool, agent.tools.allow, otherwise="the call will be refused")
                found.warn(place, f"the script calls {tool!r}, which {agent.id!r} is not allowed; {hint}")


def _calls(model: ModelSpec, where: str) -> Iterator[tuple[str, str]]:
    """Each tool that a script calls, with the path of the field that says so."""
    for r, rule in enumerate(model.script):
        for s, step in enumerate(rule.steps):
            place = f"{where}.script[{r}].steps[{s}]"
            if step.call is not None:
                yield f"{place}.call", step.call
            yield from ((f"{place}.calls[{c}].call", call.call) for c, call in enumerate(step.calls))


def _everybody_is_reached(found: Findings) -> None:
    reached = found.family.reachable(found.system.orchestrator().id)
    for where, agent in found.agents():
        if agent.id not in reached and agent.role != "orchestrator":
            found.warn(where, f"nobody can reach {agent.id!r}; name it in the tools.allow of an agent that is reached")


_RULES: Collection[Callable[[Findings], None]] = (
    _ids_are_unique,
    _one_orchestrator,
    _no_circles,
    _bounded_families,
    _graphs_are_known,
    _tools_are_registered,
    _terms_fit_sub_agents,
    _settings_fit_tools,
    _providers_are_known,
    _scripts_fit_tools,
    _everybody_is_reached,
)
