"""ToolLimits: so many tool calls for one input, of all tools and of single ones, and so many in one turn.

LangChain's own limit keeps its count for one input outside the checkpoint, so an approval in between would reset it,
and two of them answer the same call twice, which providers refuse. Here the count is part of the budget, as steps are:
it follows from the conversation, and the helper that a deep agent has for all purposes counts for the agent itself.
"""

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from langchain.agents.middleware import AgentMiddleware, ToolCallRequest
from langchain_core.messages import AIMessage, BaseMessage, ToolCall, ToolMessage

from stellwerk.agents.middleware.budget import Budget, current
from stellwerk.agents.middleware.conversation import REFUSED, Spent, names_of, ran_in, since_input, spent_in
from stellwerk.agents.middleware.kinds import ToolOutcome

AT_ONCE = 64
"""Tool calls of one turn that run; a model may ask for thousands."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How often an agent may call its tools for one input."""

    agent: str
    of_all: int | None
    of_each: Mapping[str, int]

    def verdicts(self, calls: Sequence[ToolCall], ran: Counter[str]) -> Iterator[str | None]:
        """For each call of a turn why it may not run, or None; a refused call uses nothing up."""
        ran = ran.copy()
        for place, call in enumerate(calls):
            why = _CROWDED if place >= AT_ONCE else self._beyond(call, ran)
            if why is None:
                ran.update(self.counted(call))
            yield why

    def counted(self, call: ToolCall) -> Iterator[str]:
        """Where the call counts: under each of its names that has a limit, and in the count of all."""
        yield from (self._key(name) for name in names_of(call) if name in self.of_each)
        if self.of_all is not None:
            yield self._key()

    def _beyond(self, call: ToolCall, ran: Counter[str]) -> str | None:
        for name in names_of(call):
            limit = self.of_each.get(name)
            if limit is not None and ran[self._key(name)] >= limit:
                return f"Refused: {name} may be called {limit} times for one message. Do not call it again."
        if self.of_all is not None and ran[self._key()] >= self.of_all:
            return f"Refused: {self.of_all} tool calls are allowed for one message. Answer with what you have."
        return None

    def _key(self, tool: str = "") -> str:
        return f"{self.agent}/{tool}"


class ToolLimits(AgentMiddleware[Any, Any, Any]):
    """Stands inside the step limit, which makes the budget of the agent."""

    def __init__(self, limits: Limits) -> None:
        super().__init__()
        self._limits = limits

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[ToolOutcome]]
    ) -> ToolOutcome:
        name, call_id = request.tool_call["name"], request.tool_call["id"] or ""
        why = self._refusals(since_input(request.state["messages"])).get(call_id)
        if why is None:
            return await handler(request)
        notes = {REFUSED: True}
        return ToolMessage(why, tool_call_id=call_id, name=name, status="error", response_metadata=notes)

    def _refusals(self, said: Sequence[BaseMessage]) -> Mapping[str, str]:
        """Why calls of the current turn may not run; decided for the whole turn when the first of them begins."""
        # The innermost is this agent's own. In the outermost the same agent waits for this one, its helper.
        own = [budget for budget in current().around() if budget.agent == self._limits.agent]
        mine, whole = own[0], own[-1]
        turn = next(n for n in reversed(range(len(said))) if isinstance(said[n], AIMessage))
        key = f"{turn} {said[turn].id}"
        if key not in mine.refusals:
            known = [*said, *(mine.siblings or ())]
            mine.catch_up(spent_in(known) + Spent(calls=self._count(ran_in(said))))
            mine.refusals[key] = self._decided(getattr(said[turn], "tool_calls", ()), mine, whole)
        return mine.refusals[key]

    def _decided(self, calls: Sequence[ToolCall], mine: Budget, whole: Budget) -> dict[str, str]:
        verdicts = list(self._limits.verdicts(calls, whole.spent.calls))
        mine.spend(Spent(calls=self._count(call for call, why in zip(calls, verdicts, strict=True) if why is None)))
        # If two calls share an id, what is said about either counts for both.
        return {call["id"] or "": why for call, why in zip(calls, verdicts, strict=True) if why is not None}

    def _count(self, calls: Iterable[ToolCall]) -> Counter[str]:
        return Counter(key for call in calls for key in self._limits.counted(call))


_CROWDED = f"Refused: of the tool calls of one turn, {AT_ONCE} are run. Ask for the others in your next turn."
