"""What must hold in an agent system beyond the shape of each field. One function for each rule."""

from collections.abc import Callable, Collection

from stellwerk.spec.catalogue import Catalogue
from stellwerk.spec.family import Family
from stellwerk.spec.findings import Findings
from stellwerk.spec.gaps import Gaps
from stellwerk.spec.model import AgentSystem
from stellwerk.spec.rules_models import MODEL_RULES
from stellwerk.spec.rules_rights import RIGHTS_RULES

NESTING_LIMIT = 10
USES_LIMIT = 1_000


def check(system: AgentSystem, family: Family, catalogue: Catalogue, gaps: Gaps) -> Findings:
    findings = Findings(system, family, catalogue, gaps)
    for rule in (*_RULES, *RIGHTS_RULES, *MODEL_RULES):
        rule(findings)
    return findings


def _ids_are_unique(found: Findings) -> None:
    first: dict[str, str] = {}
    for where, agent in found.agents():
        if agent.id in first:
            other = found.gaps.original(first[agent.id])
            found.refuse(f"{where}.id", f"{other} is called {agent.id!r} as well; rename one of them")
        first.setdefault(agent.id, where)
        if agent.id in found.catalogue.tools:
            found.refuse(f"{where}.id", f"a tool is called {agent.id!r} as well; give the agent another id")


def _one_orchestrator(found: Findings) -> None:
    sure = [(where, agent) for where, agent in found.agents() if found.gaps.sure(f"{where}.role")]
    orchestrators = [(where, agent) for where, agent in sure if agent.role == "orchestrator"]
    everybody_is_known = len(sure) == len(found.system.agents) and not found.gaps.nameless_agents
    if not orchestrators and everybody_is_known:
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
            if agent.graph is not None and found.gaps.sure(f"{where}.kind"):
                found.refuse(f"{where}.graph", f"an agent of kind {agent.kind} has no graph; say kind: graph")
        elif agent.graph is None:
            if found.gaps.sure(f"{where}.graph"):
                found.refuse(where, "an agent of kind graph needs the name of one; add graph: <name>")
        elif agent.graph not in found.catalogue.graphs:
            hint = found.hint(agent.graph, found.catalogue.graphs)
            found.refuse(f"{where}.graph", f"the operator has registered no graph {agent.graph!r} (--config); {hint}")


def _workplans_have_agents(found: Findings) -> None:
    """Who plans hands out tasks, and does nothing himself."""
    for where, agent in found.agents():
        if agent.kind != "workplan" or not found.gaps.sure(f"{where}.kind"):
            continue
        for n, name in enumerate(agent.tools.allow):
            if name in found.catalogue.tools and name not in found.family.agents:
                message = f"an agent of kind workplan only plans; give the tool {name!r} to a sub-agent that needs it"
                found.refuse(f"{where}.tools.allow[{n}]", message)
        if not found.family.children[agent.id] and found.gaps.sure(f"{where}.tools.allow"):
            found.refuse(where, "nobody does the tasks of this plan; name sub-agents in tools.allow")


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
    _workplans_have_agents,
    _everybody_is_reached,
)
