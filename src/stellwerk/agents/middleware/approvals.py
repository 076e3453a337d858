"""Approvals: the user decides about each call of certain tools before it runs."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal

from langchain.agents.middleware import (
    AgentMiddleware,
    HumanInTheLoopMiddleware,
    InterruptOnConfig,
    ToolCallRequest,
)
from langchain_core.tools import BaseTool, StructuredTool
from pydantic import create_model

from stellwerk.agents.middleware.taint import ToolTraits, traits_of
from stellwerk.agents.middleware.types import AskTool, Middleware, ToolOutcome
from stellwerk.agents.runtime.conversation import TASK, names_of, taint_sources
from stellwerk.spec.model import DECISIONS, Decision


class Approvals(AgentMiddleware[Any, Any, Any]):
    """One interrupt per call of these tools; all decisions are allowed for a tool that lists none.

    Once untrusted content was read, calls of tools with one of the effects ``after_reading`` need
    an approval, too. LangChain's middleware asks the user, and knows tools by name only. A rule for
    a sub-agent of a deep agent therefore has its own instance, which gets only the calls for that
    sub-agent.
    """

    def __init__(
        self,
        rules: Mapping[str, Sequence[Decision]],
        after_reading: Collection[str],
        known: Mapping[str, ToolTraits],
        *,
        agent: str,
    ) -> None:
        super().__init__()
        self._of_tools = {name: _approval(name, decisions) for name, decisions in rules.items()}
        self._of_agents = {name: _approval(TASK, decisions) for name, decisions in rules.items()}
        self._after_reading, self._known, self._agent = frozenset(after_reading), known, agent

    async def awrap_tool_call(self, request: ToolCallRequest, handler: AskTool) -> ToolOutcome:
        tool, *agent = names_of(request.tool_call)
        rule = self._of_agents.get(agent[0]) if agent else None
        rule = rule or self._of_tools.get(tool) or self._rule_after_reading(request)
        if rule is None:
            return await handler(request)
        if not agent or request.tool is None:
            return await rule.awrap_tool_call(request, handler)
        task = request.tool
        asked = request.override(tool=_pinned(agent[0]))
        return await rule.awrap_tool_call(asked, lambda decided: handler(decided.override(tool=task)))

    def _rule_after_reading(self, request: ToolCallRequest) -> Middleware | None:
        """Depends only on the conversation before the call: the same when the answer arrives."""
        call = request.tool_call
        if not any(each.effect in self._after_reading for each in traits_of(call, self._known).values()):
            return None
        if not (read := taint_sources(request.state["messages"])):
            return None
        question = (
            f"{self._agent} has read what others may have written ({', '.join(read)}), so this call needs your approval"
            f"\n\nTool: {call['name']}\nArgs: {call['args']}"
        )
        return _approval(call["name"], DECISIONS, question)


def _approval(tool: str, decisions: Sequence[Decision], question: str | None = None) -> Middleware:
    rule = InterruptOnConfig(allowed_decisions=list(decisions or DECISIONS))
    if question is not None:
        rule["description"] = question
    return HumanInTheLoopMiddleware({tool: rule}, interrupt_mode="per_call")


def _pinned(agent: str) -> BaseTool:
    """The schema of a ``task`` call for this sub-agent only: no edit bypasses another's rules."""
    only: Any = Literal[agent]
    schema = create_model(TASK, description=(str, ...), subagent_type=(only, ...))
    return StructuredTool.from_function(lambda **_: None, name=TASK, description=TASK, args_schema=schema)
