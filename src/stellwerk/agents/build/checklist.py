"""Checklist middleware: adds the checklist to the state of an agent, and its tools to the agent."""

from collections.abc import Collection
from dataclasses import replace
from typing import Annotated, Any

from langchain.agents.middleware import AgentMiddleware, AgentState

from stellwerk.agents.build.checklist_tools import CHECKLIST_TOOLS, checklist_tools, shared_checklist
from stellwerk.agents.middleware.types import AskTool, ToolOutcome, ToolRequest
from stellwerk.agents.runtime.conversation import TASK
from stellwerk.spec.model import CompleteAgent
from stellwerk.views import checklist as view

__all__ = ["CHECKLIST_TOOLS", "ChecklistMiddleware", "checklist_for"]


def merged_json(left: dict[str, Any], right: dict[str, Any]) -> dict[str, Any]:
    """The reducer of the state key; an empty dict is an empty checklist."""
    return view.to_json(view.merged(view.from_json(left), view.from_json(right)))


class ChecklistState(AgentState[Any], total=False):
    """Plain JSON, so that it can be stored under the strict rules for checkpoints."""

    checklist: Annotated[dict[str, Any], merged_json]
    checklist_branch: str
    """The branch of a sub-agent among parallel ones, such as ``s2``."""


class ChecklistMiddleware(AgentMiddleware[ChecklistState, Any, Any]):
    """Adds the checklist to the agent's state, and the checklist tools that it may use."""

    state_schema = ChecklistState

    def __init__(self, agent: str, allow: Collection[str]) -> None:
        super().__init__()
        self.tools = [tool for tool in checklist_tools(agent) if tool.name in allow]


class DeepChecklist(ChecklistMiddleware):
    """For a deep agent, which passes its whole state to a sub-agent and takes back the changes."""

    async def awrap_tool_call(self, request: ToolRequest, handler: AskTool) -> ToolOutcome:
        if request.tool_call["name"] == TASK:
            shared = shared_checklist(request.state, request.tool_call["id"] or "")
            state = {**request.state, **shared}
            request = replace(request, state=state, runtime=replace(request.runtime, state=state))
        return await handler(request)


def checklist_for(agent: CompleteAgent) -> ChecklistMiddleware:
    """The middleware for an agent; each of its sub-agents gets a branch of the checklist."""
    kind = DeepChecklist if agent.kind == "deep" else ChecklistMiddleware
    return kind(agent.name, {schema.name for schema in agent.tool_schemas})
