"""A resolved system as clients get it: agents, tools and models as plain JSON, defaults filled in."""

from collections.abc import Iterable
from typing import Any, NotRequired, TypedDict

from stellwerk.errors import SpecProblem
from stellwerk.spec.model import AgentAsTool, CompleteAgent, ModelSpec
from stellwerk.spec.resolve import Resolved

_NOT_SHOWN = {"script"}
"""What the scripted model plays is no setting, and long."""


class ProblemTold(TypedDict):
    """A problem or a warning, and where it is."""

    file: str
    line: int | None
    column: int | None
    field: str
    message: str


class AgentUse(TypedDict):
    """Another agent as a tool, and on which terms."""

    id: str
    allowed_tools: NotRequired[list[str]]
    mission_override: NotRequired[str]


class PublishedAgent(TypedDict):
    """One agent, its defaults filled in; a graph of the operator's has only its name."""

    id: str
    role: str
    kind: str
    description: str
    graph: NotRequired[str]
    model: NotRequired[dict[str, Any]]
    tools: NotRequired[list[str]]
    agents: NotRequired[list[AgentUse]]
    config: NotRequired[dict[str, Any]]


class PublishedSystem(TypedDict):
    id: str
    description: str
    orchestrator: str
    agents: list[PublishedAgent]
    tools: list[str]
    models: list[str]
    default_model: dict[str, Any]
    storage: dict[str, Any]
    coalescing_window: float | None
    store_prompts: bool
    quotas: dict[str, Any]


def published(resolved: Resolved) -> PublishedSystem:
    said = resolved.system.system
    agents = list(resolved.agents.values())
    return {
        "id": resolved.name,
        "description": said.description,
        "orchestrator": resolved.root.name,
        "agents": [_agent(resolved, agent) for agent in agents],
        "tools": sorted({tool.name for agent in agents for tool in agent.tool_schemas}),
        "models": sorted({_model_name(agent.model) for agent in agents if agent.kind != "graph"}),
        "default_model": _model(said.default_model),
        "storage": said.storage.model_dump(),
        "coalescing_window": said.coalescing_window,
        "store_prompts": said.store_prompts,
        "quotas": said.quotas.model_dump(),
    }


def told(problems: Iterable[SpecProblem], *, source: str) -> list[ProblemTold]:
    """Problems or warnings, each with its place."""
    return [
        {"file": source, "line": one.line, "column": one.column, "field": one.field, "message": one.message}
        for one in problems
    ]


def _agent(resolved: Resolved, agent: CompleteAgent) -> PublishedAgent:
    shown: PublishedAgent = {
        "id": agent.name,
        "role": "orchestrator" if agent is resolved.root else "sub-agent",
        "kind": agent.kind,
        "description": agent.description,
    }
    if agent.kind == "graph":
        return {**shown, "graph": agent.graph or agent.name}
    return {
        **shown,
        "model": _model(agent.model),
        "tools": [tool.name for tool in agent.tool_schemas],
        "agents": [_use(use) for use in agent.agents_as_tools],
        "config": agent.config.model_dump(),
    }


def _use(use: AgentAsTool) -> AgentUse:
    shown: AgentUse = {"id": use.agent.name}
    if use.allowed_tools is not None:
        shown["allowed_tools"] = list(use.allowed_tools)
    if use.mission_override is not None:
        shown["mission_override"] = use.mission_override
    return shown


def _model(model: ModelSpec) -> dict[str, Any]:
    return model.model_dump(exclude=_NOT_SHOWN, exclude_none=True)


def _model_name(model: ModelSpec) -> str:
    return f"{model.provider}:{model.model}"
