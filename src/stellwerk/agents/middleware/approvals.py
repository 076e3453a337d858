"""Approvals: before a tool runs the user decides, about each call by itself."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Literal

from langchain.agents.middleware import (
    AgentMiddleware,
    HumanInTheLoopMiddleware,
    InterruptOnConfig,
    ToolCallRequest,
)
from langchain_core.tools import BaseTool, StructuredTool
from pydantic import create_model

from stellwerk.agents.middleware.conversation import TASK, names_of
from stellwerk.agents.middleware.kinds import Middleware, ToolOutcome
from stellwerk.spec.model import DECISIONS, Decision


class Approvals(AgentMiddleware[Any, Any, Any]):
    """One interrupt per call of these tools; a tool for which no decision is named is open to all of them.

    Asking is left to LangChain's middleware, which knows tools by their names only. A rule for a sub-agent of a deep
    agent therefore has one of its own, which is given the calls for that sub-agent and no others.
    """

    def __init__(self, rules: Mapping[str, Sequence[Decision]]) -> None:
        super().__init__()
        self._of_tools = {name: _asking(name, decisions) for name, decisions in rules.items()}
        self._of_agents = {name: _asking(TASK, decisions) for name, decisions in rules.items()}

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[ToolOutcome]]
    ) -> ToolOutcome:
        tool, *agent = names_of(request.tool_call)
        rule = self._of_agents.get(agent[0]) if agent else None
        rule = rule or self._of_tools.get(tool)
        if rule is None:
            return await handler(request)
        if not agent or request.tool is None:
            return await rule.awrap_tool_call(request, handler)
        task = request.tool
        asked = request.override(tool=_pinned(agent[0]))
        return await rule.awrap_tool_call(asked, lambda decided: handler(decided.override(tool=task)))


def _asking(tool: str, decisions: Sequence[Decision]) -> Middleware:
    rule = InterruptOnConfig(allowed_decisions=list(decisions or DECISIONS))
    return HumanInTheLoopMiddleware({tool: rule}, interrupt_mode="per_call")


def _pinned(agent: str) -> BaseTool:
    """The schema of a ``task`` call in which another sub-agent cannot be named: an edit is no way around its rules."""
    only: Any = Literal[agent]
    schema = create_model(TASK, description=(str, ...), subagent_type=(only, ...))
    return StructuredTool.from_function(lambda **_: None, name=TASK, description=TASK, args_schema=schema)
