"""Limits on the steps and tool calls of an agent for one input.

Steps are model calls. They are bounded by the agent's own limit and by what its callers have left.
Tool calls are bounded in all, for single tools, and for one turn. LangChain's own limit keeps its
count outside the checkpoint, so an approval would reset it, and two of them answer the same call
twice, which providers reject. Here the counts are part of the budget: they follow from the
conversation, and calls of the general-purpose sub-agent of a deep agent count for the agent itself.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from langchain.agents.middleware import AgentState, hook_config
from langchain_core.messages import AIMessage, BaseMessage, ToolCall, ToolMessage

# Private, but the only way to the pending writes of an unfinished step; a test of limits pins it.
from langgraph._internal import _constants as keys
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.config import get_config

from stellwerk.agents.middleware.types import Answer, AskModel, AskTool, Middleware, Request, ToolOutcome, ToolRequest
from stellwerk.agents.runtime import conversation
from stellwerk.agents.runtime.budget import Budget, current, spending
from stellwerk.agents.runtime.context import check_quotas
from stellwerk.agents.runtime.conversation import Cost, cost_in, since_input, with_notes
from stellwerk.ids import digest_id

AT_ONCE = 64
"""Tool calls of one turn that run; a model may request thousands."""
_CROWDED = f"Refused: of the tool calls of one turn, {AT_ONCE} are run. Ask for the others in your next turn."


@dataclass(eq=False)
class StepLimit(Middleware):
    """Counts before the call, so the tool calls of the last step still run and get results.

    At the limit the agent answers with an AI message, not an error: the user reads the reason.
    """

    max_steps: int
    agent: str

    async def awrap_model_call(self, request: Request, handler: AskModel) -> Answer:
        # The state, not the request, which other layers may have shortened.
        said = request.state["messages"]
        budget = budget_of(self.agent, self.max_steps, said)
        budget.parallel_results = None  # they have joined the conversation
        budget.check()
        if empty := budget.used_up():
            return self._end(said, mine=empty is budget)
        budget.spend(Cost(steps=1))
        async with budget.in_time():
            response = await handler(request)
        budget.spend(Cost(tokens=cost_in(response.result).tokens))
        if notes := _clock(budget):
            response.result = [with_notes(message, **notes) for message in response.result]
        return response

    async def awrap_tool_call(self, request: ToolRequest, handler: AskTool) -> ToolOutcome:
        check_quotas()
        said = request.state["messages"]
        budget = budget_of(self.agent, self.max_steps, said)
        if budget.parallel_results is None:
            budget.parallel_results = await finished_parallel_results()
            budget = budget_of(self.agent, self.max_steps, [*said, *budget.parallel_results])
        with spending(within=budget) as inside:
            async with inside.in_time():
                outcome = await handler(request)
        notes = _clock(inside)
        if inside.spent != Cost():  # noted, so that the count survives a restart
            notes[conversation.SPENT] = inside.spent.to_json()
        return conversation.outcome_with_notes(outcome, **notes) if notes else outcome

    def _end(self, messages: Sequence[BaseMessage], *, mine: bool) -> AIMessage:
        why = "no steps are left for this"
        if mine:
            why = f"I have used all {self.max_steps} steps that I have for one message"
        return AIMessage(
            f"I stop here: {why}.",
            # The stream of updates distinguishes messages by id.
            id=digest_id("steps", *(message.id or "" for message in messages[-1:])),
            name=self.agent,
            response_metadata={conversation.SERVER_WRITTEN: "max_steps"},
        )


def budget_of(agent: str, max_steps: int, messages: Sequence[BaseMessage]) -> Budget:
    """The budget of the current node's agent, including the cost shown by its conversation."""
    # The namespace of the node's graph: each running agent has its own.
    namespace = str(get_config().get("configurable", {}).get("checkpoint_ns", ""))
    budget = current().of(namespace.rpartition("|")[0], agent=agent, limit=max_steps)
    said = since_input(messages)
    budget.catch_up(cost_in(said), seconds=conversation.seconds_in(said))
    return budget


def _clock(budget: Budget) -> dict[str, Any]:
    """The running time of the run, if seconds are limited."""
    seconds = budget.seconds()
    return {} if seconds is None else {conversation.SECONDS: seconds}


async def finished_parallel_results() -> list[BaseMessage]:
    """Results of calls parallel to the current one, after an interrupt or a crash.

    They are stored as pending writes, and join the conversation only when the turn is over.
    """
    here = get_config().get("configurable", {})
    saver = here.get(keys.CONFIG_KEY_CHECKPOINTER)
    if not here.get(keys.CONFIG_KEY_RESUMING) or not isinstance(saver, BaseCheckpointSaver):
        return []
    namespace = str(here.get("checkpoint_ns", "")).rpartition("|")[0]
    checkpoint = here.get(keys.CONFIG_KEY_CHECKPOINT_MAP, {}).get(namespace)
    place = {"checkpoint_ns": namespace, "checkpoint_id": checkpoint}
    saved = await saver.aget_tuple({"configurable": {"thread_id": here["thread_id"], **place}})
    found: list[Any] = []
    for _, channel, value in (saved.pending_writes if saved else None) or ():
        if channel == "messages":
            found += value if isinstance(value, list) else [value]
    return [message for message in found if isinstance(message, BaseMessage)]


class OneModelCall(Middleware):
    """Ends after one model call and its tools; the tool result is the answer."""

    @hook_config(can_jump_to=["end"])
    async def abefore_model(self, state: AgentState[Any], runtime: Any) -> dict[str, Any] | None:
        return {"jump_to": "end"} if isinstance(state["messages"][-1], ToolMessage) else None


@dataclass(eq=False)
class ToolLimits(Middleware):
    """How often an agent may call its tools; inside the step limit, which creates its budget."""

    agent: str
    of_all: int | None
    of_each: Mapping[str, int]

    async def awrap_tool_call(self, request: ToolRequest, handler: AskTool) -> ToolOutcome:
        name, call_id = request.tool_call["name"], request.tool_call["id"] or ""
        why = self._refusals(since_input(request.state["messages"])).get(call_id)
        if why is None:
            return await handler(request)
        notes = {conversation.REFUSED: True}
        return ToolMessage(why, tool_call_id=call_id, name=name, status="error", response_metadata=notes)

    def _refusals(self, said: Sequence[BaseMessage]) -> Mapping[str, str]:
        """The refused calls of the current turn, decided when its first call starts."""
        # The innermost budget is the agent's own; in the outermost it waits for this sub-agent.
        own = [budget for budget in current().around() if budget.agent == self.agent]
        mine, whole = own[0], own[-1]
        turn = next(n for n in reversed(range(len(said))) if isinstance(said[n], AIMessage))
        key = f"{turn} {said[turn].id}"
        if key not in mine.refusals:
            known = [*said, *(mine.parallel_results or ())]
            mine.catch_up(cost_in(known) + Cost(calls=self._count(conversation.ran_in(said))))
            calls = getattr(said[turn], "tool_calls", ())
            decided = list(zip(calls, self.verdicts(calls, whole.spent.calls), strict=True))
            mine.spend(Cost(calls=self._count(call for call, why in decided if why is None)))
            # If two calls share an id, a refusal of either applies to both.
            mine.refusals[key] = {call["id"] or "": why for call, why in decided if why is not None}
        return mine.refusals[key]

    def verdicts(self, calls: Sequence[ToolCall], ran: Counter[str]) -> Iterator[str | None]:
        """Why each call of a turn is refused, or None; a refused call is not counted."""
        ran = ran.copy()
        for place, call in enumerate(calls):
            limits = list(self._limits(call))
            why = next((refusal for key, limit, refusal in limits if ran[key] >= limit), None)
            if place >= AT_ONCE:
                why = _CROWDED
            if why is None:
                ran.update(key for key, _, _ in limits)
            yield why

    def _count(self, calls: Iterable[ToolCall]) -> Counter[str]:
        return Counter(key for call in calls for key, _, _ in self._limits(call))

    def _limits(self, call: ToolCall) -> Iterator[tuple[str, int, str]]:
        """The limits that apply to a call: the key of its count, the number, and the refusal."""
        for name in conversation.names_of(call):
            if name in self.of_each:
                why = f"{name} may be called {self.of_each[name]} times for one message. Do not call it again."
                yield f"{self.agent}/{name}", self.of_each[name], f"Refused: {why}"
        if self.of_all is not None:
            why = f"{self.of_all} tool calls are allowed for one message. Answer with what you have."
            yield f"{self.agent}/", self.of_all, f"Refused: {why}"
