"""Approvals: before a tool runs the user decides, about each call by itself."""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any, Literal

from langchain.agents.middleware import (
    AgentMiddleware,
    HumanInTheLoopMiddleware,
    InterruptOnConfig,
    ToolCallRequest,
)
from langchain_core.messages import ToolCall
from langchain_core.tools import BaseTool, StructuredTool
from pydantic import create_model

from stellwerk.agents.middleware.conversation import TASK, names_of
from stellwerk.agents.middleware.kinds import Middleware, ToolOutcome
from stellwerk.agents.middleware.reading import Conduct, conduct_of, read_so_far
from stellwerk.spec.model import DECISIONS, Decision


class AfterReading:
    """Which calls need an approval once something untrusted has been read: those of tools with one of the effects."""

    def __init__(self, effects: Collection[str], known: Mapping[str, Conduct], *, agent: str) -> None:
        self._effects, self._known, self._agent = frozenset(effects), known, agent

    def rule_for(self, request: ToolCallRequest) -> Middleware | None:
        """The conversation decides, up to the message that asks for the call: the same again when the answer comes."""
        call = request.tool_call
        if not any(each.effect in self._effects for each in conduct_of(call, self._known).values()):
            return None
        read = read_so_far(request.state["messages"])
        return _asking(call["name"], DECISIONS, self._words(call, read)) if read else None

    def _words(self, call: ToolCall, read: Sequence[str]) -> str:
        why = (
            f"{self._agent} has read what others may have written ({', '.join(read)}), so this call needs your approval"
        )
        return f"{why}\n\nTool: {call['name']}\nArgs: {call['args']}"


class Approvals(AgentMiddleware[Any, Any, Any]):
    """One interrupt per call of these tools; a tool for which no decision is named is open to all of them.

    Asking is left to LangChain's middleware, which knows tools by their names only. A rule for a sub-agent of a deep
    agent therefore has one of its own, which is given the calls for that sub-agent and no others.
    """

    def __init__(self, rules: Mapping[str, Sequence[Decision]], after_reading: AfterReading) -> None:
        super().__init__()
        self._of_tools = {name: _asking(name, decisions) for name, decisions in rules.items()}
        self._of_agents = {name: _asking(TASK, decisions) for name, decisions in rules.items()}
        self._after_reading = after_reading

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[ToolOutcome]]
    ) -> ToolOutcome:
        tool, *agent = names_of(request.tool_call)
        rule = self._of_agents.get(agent[0]) if agent else None
        rule = rule or self._of_tools.get(tool) or self._after_reading.rule_for(request)
        if rule is None:
            return await handler(request)
        if not agent or request.tool is None:
            return await rule.awrap_tool_call(request, handler)
        task = request.tool
        asked = request.override(tool=_pinned(agent[0]))
        return await rule.awrap_tool_call(asked, lambda decided: handler(decided.override(tool=task)))


def _asking(tool: str, decisions: Sequence[Decision], words: str | None = None) -> Middleware:
    rule = InterruptOnConfig(allowed_decisions=list(decisions or DECISIONS))
    if words is not None:
        rule["description"] = words
    return HumanInTheLoopMiddleware({tool: rule}, interrupt_mode="per_call")


def _pinned(agent: str) -> BaseTool:
    """The schema of a ``task`` call in which another sub-agent cannot be named: an edit is no way around its rules."""
    only: Any = Literal[agent]
    schema = create_model(TASK, description=(str, ...), subagent_type=(only, ...))
    return StructuredTool.from_function(lambda **_: None, name=TASK, description=TASK, args_schema=schema)
