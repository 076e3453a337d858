"""Approvals: the user decides about each call of certain tools before it runs."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from inspect import signature
from typing import Any, Literal

from langchain.agents.middleware import HumanInTheLoopMiddleware, InterruptOnConfig
from langchain_core.tools import BaseTool, StructuredTool
from pydantic import create_model

from stellwerk.agents.middleware.call_approval import CallApproval
from stellwerk.agents.middleware.taint import traits_of
from stellwerk.agents.middleware.types import AskTool, Middleware, ToolOutcome, ToolRequest
from stellwerk.agents.runtime.conversation import TASK, names_of, taint_sources
from stellwerk.agents.tools.spec import ToolTraits
from stellwerk.spec.model import DECISIONS, Decision

_ASKS_PER_CALL = "interrupt_mode" in signature(HumanInTheLoopMiddleware).parameters
"""Whether LangChain can ask for each call of a turn; from 1.4.6 on."""


@dataclass(eq=False)
class Approvals(Middleware):
    """One interrupt per call of these tools; all decisions are allowed for a tool that lists none.

    Once untrusted content was read, calls of tools with one of the effects ``after_reading`` need
    an approval, too. A rule for a sub-agent of a deep agent precedes one for the tool that calls it.
    """

    rules: Mapping[str, Sequence[Decision]]
    after_reading: Collection[str]
    known: Mapping[str, ToolTraits]
    agent: str

    async def awrap_tool_call(self, request: ToolRequest, handler: AskTool) -> ToolOutcome:
        tool, *agent = names_of(request.tool_call)
        rules = [self.rules[name] for name in (*agent, tool) if name in self.rules]
        approval = _approval(tool, rules[0]) if rules else self._approval_after_reading(request)
        if approval is None:
            return await handler(request)
        if not agent or request.tool is None:
            return await approval.awrap_tool_call(request, handler)
        task = request.tool
        pinned = request.override(tool=_pinned(agent[0]))
        return await approval.awrap_tool_call(pinned, lambda asked: handler(asked.override(tool=task)))

    def _approval_after_reading(self, request: ToolRequest) -> Middleware | None:
        """Depends only on the conversation before the call: the same when the answer arrives."""
        call = request.tool_call
        effects = {each.effect for each in traits_of(call, self.known).values()}
        read = taint_sources(request.state["messages"]) if effects.intersection(self.after_reading) else []
        if not read:
            return None
        question = (
            f"{self.agent} has read what others may have written ({', '.join(read)}), "
            f"so this call needs your approval\n\nTool: {call['name']}\nArgs: {call['args']}"
        )
        return _approval(call["name"], DECISIONS, question)


def _approval(tool: str, decisions: Sequence[Decision], question: str | None = None) -> Middleware:
    if not _ASKS_PER_CALL:
        return CallApproval(decisions or DECISIONS, question)
    rule = InterruptOnConfig(allowed_decisions=list(decisions or DECISIONS))
    if question is not None:
        rule["description"] = question
    return HumanInTheLoopMiddleware({tool: rule}, interrupt_mode="per_call")


def _pinned(agent: str) -> BaseTool:
    """The schema of a ``task`` call for this sub-agent only: no edit bypasses another's rules."""
    only: Any = Literal[agent]
    schema = create_model(TASK, description=(str, ...), subagent_type=(only, ...))
    return StructuredTool.from_function(lambda **_: None, name=TASK, description=TASK, args_schema=schema)
