"""Resolved config of a system as clients get it: plain JSON with defaults filled in."""

from collections.abc import Iterable
from typing import Any, NotRequired, TypedDict, cast

from stellwerk.errors import SpecProblem
from stellwerk.spec.model import AgentAsTool, CompleteAgent, ModelSpec, SubAgentUse
from stellwerk.spec.resolve import Resolved


class SpecProblemInfo(TypedDict):
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
    """One agent, its defaults filled in; a graph of the operator's has its name, schemas and defaults instead."""

    id: str
    role: str
    kind: str
    description: str
    graph: NotRequired[str]
    input_schema: NotRequired[dict[str, Any]]
    takes_text: NotRequired[bool]
    text_key: NotRequired[str]
    output_schema: NotRequired[dict[str, Any]]
    state_schema: NotRequired[dict[str, Any]]
    reducers: NotRequired[list[str]]
    context_schema: NotRequired[dict[str, Any]]
    config_schema: NotRequired[dict[str, Any]]
    nodes: NotRequired[list[str]]
    model: NotRequired[dict[str, Any]]
    tools: NotRequired[list[str]]
    agents: NotRequired[list[AgentUse]]
    config: NotRequired[dict[str, Any]]
    context: NotRequired[dict[str, Any]]
    input: NotRequired[dict[str, Any]]


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
    metadata: NotRequired[dict[str, Any]]


def published(resolved: Resolved) -> PublishedSystem:
    spec = resolved.system.system
    agents = list(resolved.agents.values())
    models = {f"{agent.model.provider}:{agent.model.model}" for agent in agents if agent.kind != "graph"}
    shown: PublishedSystem = {
        "id": resolved.name,
        "description": spec.description,
        "orchestrator": resolved.root.name,
        "agents": [_agent(resolved, agent) for agent in agents],
        "tools": sorted({tool.name for agent in agents for tool in agent.tool_schemas}),
        "models": sorted(models),
        "default_model": _model(spec.default_model),
        "storage": spec.storage.model_dump(),
        "coalescing_window": spec.coalescing_window,
        "store_prompts": spec.store_prompts,
        "quotas": spec.quotas.model_dump(),
    }
    if spec.metadata:
        shown["metadata"] = spec.metadata
    return shown


def spec_problems(problems: Iterable[SpecProblem], *, source: str) -> list[SpecProblemInfo]:
    return [
        {"file": source, "line": at.line, "column": at.column, "field": at.field, "message": at.message}
        for at in problems
    ]


def _agent(resolved: Resolved, agent: CompleteAgent) -> PublishedAgent:
    shown: PublishedAgent = {
        "id": agent.name,
        "role": "orchestrator" if agent is resolved.root else "sub-agent",
        "kind": agent.kind,
        "description": agent.description,
    }
    if agent.kind == "graph":
        shown["graph"] = agent.graph or agent.name
        schemas = resolved.graph_schemas.get(shown["graph"], {})
        return cast("PublishedAgent", {**shown, **schemas, **agent.defaults.model_dump(exclude_none=True)})
    return {
        **shown,
        "model": _model(agent.model),
        "tools": [tool.name for tool in agent.tool_schemas],
        "agents": [_use(use) for use in agent.agents_as_tools],
        "config": agent.config.model_dump(),
    }


def _use(use: AgentAsTool) -> AgentUse:
    terms = use.model_dump(include=set(SubAgentUse.model_fields), exclude_none=True)
    return cast("AgentUse", {"id": use.agent.name, **terms})


def _model(model: ModelSpec) -> dict[str, Any]:
    """Without the script, which is no setting, and long."""
    return model.model_dump(exclude={"script"}, exclude_none=True)
