"""A resolved system as clients get it: agents, tools and models as plain JSON, defaults filled in."""

from collections.abc import Iterable
from typing import Any

from stellwerk.errors import SpecProblem
from stellwerk.spec.model import AgentAsTool, CompleteAgent, ModelSpec
from stellwerk.spec.resolve import Resolved

_NOT_SHOWN = {"script"}
"""What the scripted model plays is no setting, and long."""


def published(resolved: Resolved) -> dict[str, Any]:
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


def told(problems: Iterable[SpecProblem], *, source: str) -> list[dict[str, Any]]:
    """Problems or warnings, each with its place."""
    return [
        {"file": source, "line": one.line, "column": one.column, "field": one.field, "message": one.message}
        for one in problems
    ]


def _agent(resolved: Resolved, agent: CompleteAgent) -> dict[str, Any]:
    shown: dict[str, Any] = {
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


def _use(use: AgentAsTool) -> dict[str, Any]:
    terms = {"allowed_tools": use.allowed_tools, "mission_override": use.mission_override}
    return {"id": use.agent.name, **{name: value for name, value in terms.items() if value is not None}}


def _model(model: ModelSpec) -> dict[str, Any]:
    return model.model_dump(exclude=_NOT_SHOWN, exclude_none=True)


def _model_name(model: ModelSpec) -> str:
    return f"{model.provider}:{model.model}"
