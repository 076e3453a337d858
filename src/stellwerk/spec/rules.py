"""Rules for agent systems beyond the shape of fields: structure, permissions, models, settings."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple, get_args

from stellwerk.errors import SpecProblem
from stellwerk.spec.catalogue import Catalogue, plain
from stellwerk.spec.messages import Suggestions
from stellwerk.spec.model import AgentSpec, AgentSystem, Effect, ModelSpec, RunDefaults, SubAgentUse
from stellwerk.spec.secret_references import secret_names
from stellwerk.spec.yaml import PROBLEM_LIMIT


class AgentGraph:
    """Which agents use which. A use that would close a cycle is left out of ``children``."""

    def __init__(self, system: AgentSystem) -> None:
        self.agents: dict[str, AgentSpec] = {}
        for agent in system.agents:
            self.agents.setdefault(agent.id, agent)
        self.children: dict[str, tuple[str, ...]] = {}
        """In an order in which every agent comes after its children."""
        self.cycles: list[tuple[str, ...]] = []
        """Each as the ids along it, the first one repeated at its end."""
        for name in self.agents:
            if name not in self.children:
                self._walk((name,))
        self.reachable: dict[str, set[str]] = {}
        self.longest_chain: dict[str, tuple[str, ...]] = {}
        """The longest way down from each agent, the agent included."""
        self.uses: dict[str, int] = {}
        """The number of agents that are built when each use gets one of its own."""
        for name, below in self.children.items():
            self.reachable[name] = {name}.union(*(self.reachable[child] for child in below))
            longest = max((self.longest_chain[child] for child in below), key=len, default=())
            self.longest_chain[name] = (name, *longest)
            self.uses[name] = 1 + sum(self.uses[child] for child in below)

    def _walk(self, trail: tuple[str, ...]) -> None:
        below: list[str] = []
        for child in dict.fromkeys(self.agents[trail[-1]].tools.allow):
            if child in trail:
                self.cycles.append((*trail[trail.index(child) :], child))
            elif child in self.agents:
                below.append(child)
                if child not in self.children:
                    self._walk((*trail, child))
        self.children[trail[-1]] = tuple(below)


@dataclass
class Findings:
    system: AgentSystem
    graph: AgentGraph
    catalogue: Catalogue
    problems: list[SpecProblem] = field(default_factory=list[SpecProblem])
    unregistered: list[SpecProblem] = field(default_factory=list[SpecProblem])
    """Tools that the system names and this server does not have."""
    uninstalled: list[SpecProblem] = field(default_factory=list[SpecProblem])
    """Packages that its models need and this server does not have."""
    warnings: list[SpecProblem] = field(default_factory=list[SpecProblem])
    suggestions: Suggestions = field(default_factory=Suggestions)

    def refuse(self, path: str, *message: str) -> None:
        """The message says what is wrong, and then how to correct it."""
        _add(self.problems, path, *message)

    def warn(self, path: str, *message: str) -> None:
        _add(self.warnings, path, *message)

    def agents(self) -> Iterator[tuple[str, AgentSpec]]:
        """Each agent with the path of its field."""
        return ((f"agents[{n}]", agent) for n, agent in enumerate(self.system.agents))

    def path_of(self, name: str) -> str:
        return next(path for path, agent in self.agents() if agent.id == name)

    def may_call(self, agent: AgentSpec) -> set[str]:
        """Every name by which an agent may call something, aliases included."""
        named = {self.catalogue.named(name) for name in agent.tools.allow}
        aliases = {alias for alias, name in self.catalogue.tools.items() if name in named}
        return named | aliases | set(agent.tools.allow)


def _add(found: list[SpecProblem], path: str, *message: str) -> None:
    problem = SpecProblem("; ".join(message), path)
    if len(found) < PROBLEM_LIMIT and problem not in found:
        found.append(problem)


# Structure.

NESTING_LIMIT = 10
USES_LIMIT = 1_000
_ONLY_PLANS = "an agent of kind workplan only plans"


def _ids_are_unique(found: Findings) -> None:
    first: dict[str, str] = {}
    for path, agent in found.agents():
        as_well = f"is called {agent.id!r} as well"
        if agent.id in first:
            found.refuse(f"{path}.id", f"{first[agent.id]} {as_well}", "rename one of them")
        first.setdefault(agent.id, path)
        if agent.id in found.catalogue.tools:
            found.refuse(f"{path}.id", f"a tool {as_well}", "give the agent another id")


def _one_orchestrator(found: Findings) -> None:
    first = found.system.orchestrator()
    if first.role != "orchestrator":
        problem = "no agent receives the user's messages"
        found.refuse("agents", problem, "give one agent the role orchestrator")
    for path, agent in found.agents():
        if agent.role == "orchestrator" and agent is not first:
            names_role = "role" in agent.model_fields_set
            both = f"{agent.id!r} is an orchestrator beside {first.id!r}"
            reason = "" if names_role else ", because it names no role"
            remedy = "there is one, so give the others role: sub-agent"
            found.refuse(f"{path}.role" if names_role else path, both + reason, remedy)


def _no_cycles(found: Findings) -> None:
    for cycle in found.graph.cycles:
        user, used = cycle[-2:]
        index = found.graph.agents[user].tools.allow.index(used)
        path = f"{found.path_of(user)}.tools.allow[{index}]"
        problem = f"these agents call each other in a circle: {' → '.join(cycle)}"
        found.refuse(path, problem, "remove one of the steps")


def _bounded_nesting(found: Findings) -> None:
    root = found.system.orchestrator().id
    path = f"{found.path_of(root)}.tools.allow"
    chain = found.graph.longest_chain[root]
    depth = len(chain) - 1
    if depth > NESTING_LIMIT:
        limit = f"{NESTING_LIMIT} are allowed: {' → '.join(chain)}"
        found.refuse(path, f"sub-agents are nested {depth} deep, {limit}")
    uses = found.graph.uses[root]
    if uses > USES_LIMIT:
        problem = f"with each use counted, these are {uses} agents, and {USES_LIMIT} are allowed"
        found.refuse(path, problem, "let fewer use the same")


def _graphs_are_known(found: Findings) -> None:
    for path, agent in found.agents():
        if agent.kind != "graph":
            if agent.graph is not None:
                problem = f"an agent of kind {agent.kind} has no graph"
                found.refuse(f"{path}.graph", problem, "write kind: graph")
        elif agent.graph is None:
            found.refuse(path, "an agent of kind graph needs the name of one", "add graph: <name>")
        elif agent.graph not in found.catalogue.graphs:
            hint = found.suggestions.did_you_mean(agent.graph, found.catalogue.graphs)
            problem = f"the operator has registered no graph {agent.graph!r} (--config)"
            found.refuse(f"{path}.graph", problem, hint)


def _workplans_have_agents(found: Findings) -> None:
    """A workplan hands out tasks, and has no tools of its own."""
    for path, agent in found.agents():
        if agent.kind != "workplan":
            continue
        for n, name in enumerate(agent.tools.allow):
            if name in found.catalogue.tools and name not in found.graph.agents:
                remedy = f"give the tool {name!r} to a sub-agent that needs it"
                found.refuse(f"{path}.tools.allow[{n}]", _ONLY_PLANS, remedy)
        if not found.graph.children[agent.id]:
            problem = "no agent does the tasks of this plan"
            found.refuse(path, problem, "name sub-agents in tools.allow")


def _agents_are_reachable(found: Findings) -> None:
    reached = found.graph.reachable[found.system.orchestrator().id]
    for path, agent in found.agents():
        if agent.id not in reached and agent.role != "orchestrator":
            remedy = "name it in the tools.allow of an agent that is reached"
            found.warn(path, f"no agent reaches {agent.id!r}", remedy)


# Permissions.

BY_TOOL = ("tool_call_limits", "tool_timeouts", "approvals")
"""The settings whose keys are names of tools."""
_ALL_EFFECTS: frozenset[str] = frozenset(get_args(Effect))
_EFFECT_OF_GRAPHS = "external"
"""What a graph does to the world is unknown, so the worst is assumed."""


def _tools_are_registered(found: Findings) -> None:
    known = {*found.catalogue.tools, *found.graph.agents}
    for path, agent in found.agents():
        for n, name in enumerate(agent.tools.allow):
            item = f"{path}.tools.allow[{n}]"
            if name in known:
                continue
            if server := found.catalogue.unasked_server(name):
                found.warn(item, f"whether the MCP server {server!r} offers {name!r} was not checked")
            else:
                otherwise = "`stellwerk tools` lists what there is"
                hint = found.suggestions.did_you_mean(name, known, otherwise=otherwise)
                _add(found.unregistered, item, f"the tool {name!r} is not registered", hint)


def _terms_only_narrow(found: Findings) -> None:
    for path, agent in found.agents():
        for name, use in agent.tools.agents.items():
            field = f"{path}.tools.agents.{name}"
            if name not in found.graph.agents:
                hint = found.suggestions.did_you_mean(name, found.graph.agents)
                found.refuse(field, f"there is no agent {name!r}", hint)
            elif name not in agent.tools.allow:
                problem = f"{agent.id!r} is not allowed to use {name!r}"
                found.refuse(field, problem, "add it to tools.allow")
            else:
                _only_narrows(found, field, found.graph.agents[name], use)


def _only_narrows(found: Findings, path: str, agent: AgentSpec, use: SubAgentUse) -> None:
    if agent.kind == "graph":
        for term in SubAgentUse.model_fields:
            if getattr(use, term) is not None:
                found.refuse(f"{path}.{term}", DECIDED_BY_GRAPH)
        return
    own = found.may_call(agent)
    for n, tool in enumerate(use.allowed_tools or ()):
        if tool not in own:
            hint = found.suggestions.did_you_mean(tool, agent.tools.allow)
            problem = f"{agent.id!r} has no tool {tool!r}, and this list can only take away"
            found.refuse(f"{path}.allowed_tools[{n}]", problem, hint)


def _settings_fit_tools(found: Findings) -> None:
    for path, agent in found.agents():
        if agent.kind == "graph":
            continue
        own = found.may_call(agent)
        for setting in BY_TOOL:
            for tool in getattr(agent, setting):
                if tool not in own:
                    _setting_without_tool(found, f"{path}.{setting}.{tool}", agent, tool)


def _setting_without_tool(found: Findings, path: str, agent: AgentSpec, tool: str) -> None:
    problem = f"{agent.id!r} is not allowed the tool {tool!r}"
    if agent.kind == "deep":
        found.warn(path, problem, "this counts only if deep agents bring a tool of that name")
    else:
        otherwise = "add it to tools.allow, or remove this"
        hint = found.suggestions.did_you_mean(tool, agent.tools.allow, otherwise=otherwise)
        found.refuse(path, problem, hint)


class _Use(NamedTuple):
    """An agent, and what the agents above leave to it."""

    agent: str
    effects: frozenset[str] = _ALL_EFFECTS
    tools: frozenset[str] | None = None
    """All that it has, if None."""
    asks: bool = False
    """Whether the user must approve external effects after untrusted content was read."""


def _effects_are_allowed(found: Findings) -> None:
    """The allowed effects of an agent bind all agents below it. Each use is checked once."""
    root = found.system.orchestrator().id
    below = found.graph.reachable[root] - {root}
    waiting = [_Use(name) for name in found.graph.agents if name not in below]
    seen: set[_Use] = set()
    while waiting:
        use = waiting.pop()
        if use not in seen:
            seen.add(use)
            waiting += _uses_below(found, use)


def _uses_below(found: Findings, use: _Use) -> Iterator[_Use]:
    agent = found.graph.agents[use.agent]
    effects = use.effects if agent.effects is None else use.effects & frozenset(agent.effects)
    asks = use.asks or _EFFECT_OF_GRAPHS in agent.approvals_after_reading
    allow = f"{found.path_of(agent.id)}.tools.allow"
    checked: set[str] = set()
    for n, written in enumerate(agent.tools.allow):
        name = found.catalogue.named(written)
        if name in checked or (use.tools is not None and name not in use.tools):
            continue
        checked.add(name)
        child = found.graph.agents[name] if name in found.graph.children[agent.id] else None
        if child is not None and child.kind != "graph":
            left = agent.tools.agents.get(name, SubAgentUse()).allowed_tools
            tools = None if left is None else frozenset(map(found.catalogue.named, left))
            yield _Use(name, effects, tools, asks)
            continue
        what, effect = "graph", _EFFECT_OF_GRAPHS
        if child is None:
            what, effect = "tool", found.catalogue.effects.get(name, "")
        if effect and effect not in effects:
            user = f"{agent.id!r} has the {what} {name!r}"
            found.refuse(f"{allow}[{n}]", effect_refused(user, effect, effects))
        if child is not None and asks and agent.kind == "workplan":
            found.refuse(f"{allow}[{n}]", cannot_ask(agent.id, name))


def cannot_ask(workplan: str, graph: str) -> str:
    return (
        f"agent {workplan!r} is a workplan, which hands tasks to the graph {graph!r} without asking, "
        "but approvals_after_reading of it, or of an agent that uses it, has the effect external; "
        "take the graph away, or let an agent of another kind use it"
    )


def effect_refused(user: str, effect: str, allowed: Collection[str]) -> str:
    return (
        f"agent {user} of effect {effect!r}, but it, or an agent that uses it, "
        f"may only have: {', '.join(sorted(allowed)) or 'none'}; take it away, or add the effect"
    )


# Models.

_SCRIPTED = "scripted"


def _used_models(found: Findings) -> Iterator[tuple[str, ModelSpec]]:
    """The model of each agent, with the path of the field that names it."""
    for path, agent in found.agents():
        if agent.kind == "graph":
            continue
        if agent.model is None:
            yield "system.default_model", found.system.system.default_model
        else:
            yield f"{path}.model", agent.model


def _models_are_known_and_named(found: Findings) -> None:
    """Only the scripted model needs no name."""
    default = ("system.default_model", found.system.system.default_model)
    for path, model in dict((default, *_used_models(found))).items():
        if found.catalogue.provider(model.provider) is None:
            hint = found.suggestions.did_you_mean(model.provider, found.catalogue.providers)
            found.refuse(f"{path}.provider", f"there is no provider {model.provider!r}", hint)
        elif model.provider != _SCRIPTED and "model" not in model.model_fields_set:
            found.refuse(f"{path}.model", "this is missing", f"name the model of {model.provider!r}")


def _keys_and_packages_are_there(found: Findings) -> None:
    reported: set[str] = set()
    for path, model in _used_models(found):
        name = found.catalogue.provider(model.provider)
        if name is None or name in reported:
            continue
        reported.add(name)
        if name not in found.catalogue.keys:
            secret = f"{plain(name)}_api_key"
            remedy = f"store the secret {secret}"
            if found.catalogue.environment:
                remedy += f", or start the server with {secret.upper()} set"
            found.warn(f"{path}.provider", f"there is no key for {model.provider!r}", remedy)
        package = found.catalogue.packages.get(name)
        if package is not None and package not in reported:
            reported.add(package)
            problem = f"models of {model.provider!r} need a package that is not installed"
            _add(found.uninstalled, f"{path}.provider", f"{problem}: pip install '{package}'")


# Settings without effect.

DECIDED_BY_GRAPH = "a graph of your own decides this itself; take it away"
_DECIDED_BY_SUB_AGENTS = f"{_ONLY_PLANS}; set this at the sub-agents that do the tasks"
_ONLY_IN_WORKPLANS = "only an agent of kind workplan has documents summed up; take it away"
_ONLY_OF_GRAPHS = "only an agent of kind graph has this; take it away"
_ONLY_OUTERMOST = (
    "only the graph that gets the user's messages has this; take it away. "
    "A sub-agent reads config.configurable of the message"
)
_SUMMARIES = "document_summaries"
_DEFAULTS = set(RunDefaults.model_fields)
_OF_GRAPHS = {"id", "role", "kind", "description", "completion_signal", "graph"}
_OF_WORKPLANS = {"system_prompt", "mission", "model", "model_retries", "tools", "effects"}
_EFFECTIVE = {
    "graph": _OF_GRAPHS,
    "workplan": _OF_GRAPHS | _OF_WORKPLANS | {"approvals_after_reading", _SUMMARIES},
}
"""The effective settings by kind; ``graph`` for another kind is refused by the structure rules."""


def _settings_have_an_effect(found: Findings) -> None:
    for path, agent in found.agents():
        if agent.kind in _EFFECTIVE:
            why = DECIDED_BY_GRAPH if agent.kind == "graph" else _DECIDED_BY_SUB_AGENTS
            for name in sorted(agent.model_fields_set - _EFFECTIVE[agent.kind] - _DEFAULTS):
                found.refuse(f"{path}.{name}", why)
        elif _SUMMARIES in agent.model_fields_set:
            found.refuse(f"{path}.{_SUMMARIES}", _ONLY_IN_WORKPLANS)


def _defaults_have_an_effect(found: Findings) -> None:
    """Only the outermost graph gets what messages, sessions and agent systems give."""
    root = found.system.orchestrator()
    for path, agent in found.agents():
        if agent is root and agent.kind == "graph":
            for name in sorted({*secret_names(agent.context), *secret_names(agent.config)}):
                if not found.catalogue.has_secret(name):
                    found.warn(path, f"the secret {name!r} is not stored", "store it before the first message")
        else:
            why = _ONLY_OUTERMOST if agent.kind == "graph" else _ONLY_OF_GRAPHS
            for name in sorted(agent.model_fields_set & _DEFAULTS):
                found.refuse(f"{path}.{name}", why)


RULES = (
    _ids_are_unique,
    _one_orchestrator,
    _no_cycles,
    _bounded_nesting,
    _graphs_are_known,
    _workplans_have_agents,
    _agents_are_reachable,
    _tools_are_registered,
    _terms_only_narrow,
    _settings_fit_tools,
    _effects_are_allowed,
    _models_are_known_and_named,
    _keys_and_packages_are_there,
    _settings_have_an_effect,
    _defaults_have_an_effect,
)
