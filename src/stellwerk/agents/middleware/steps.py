"""StepLimit: an agent asks its model so many times for one input, and never more than those around it have left."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, replace
from typing import Any

from langchain.agents.middleware import AgentMiddleware, ToolCallRequest
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langgraph.config import get_config
from langgraph.types import Command

from stellwerk.agents.middleware.budget import Budget, current, spending
from stellwerk.agents.middleware.conversation import OUR_WORDS, SPENT, Spent, since_input, spent_in
from stellwerk.agents.middleware.kinds import Answer, AskModel, Request, ToolOutcome
from stellwerk.ids import digest_id


class StepLimit(AgentMiddleware[Any, Any, Any]):
    """Counts before the call, so the tools that the last step asked for still run and no call stays unanswered.

    The end is an AI message, not an error: the user reads why there is no better answer.
    """

    def __init__(self, max_steps: int, *, agent: str) -> None:
        super().__init__()
        self._max, self._agent = max_steps, agent

    async def awrap_model_call(self, request: Request, handler: AskModel) -> Answer:
        # The state, not the request: others may have shortened what is sent.
        said = request.state["messages"]
        budget = self._budget(said)
        budget.check()
        if empty := budget.used_up():
            return self._end(said, mine=empty is budget)
        budget.spend(Spent(steps=1))
        async with budget.in_time():
            response = await handler(request)
        budget.spend(Spent(tokens=spent_in(response.result).tokens))
        return response

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[ToolOutcome]]
    ) -> ToolOutcome:
        with spending(within=self._budget(request.state["messages"])) as inside:
            async with inside.in_time():
                outcome = await handler(request)
        return _priced(outcome, inside.spent)

    def _budget(self, messages: Sequence[BaseMessage]) -> Budget:
        # The namespace of the graph that this node belongs to: each running agent has one of its own.
        namespace = str(get_config().get("configurable", {}).get("checkpoint_ns", ""))
        budget = current().of(namespace.rpartition("|")[0], self._max)
        budget.catch_up(spent_in(since_input(messages)))
        return budget

    def _end(self, messages: Sequence[BaseMessage], *, mine: bool) -> AIMessage:
        why = f"I have used all {self._max} steps that I have for one message" if mine else "no steps are left for this"
        return AIMessage(
            f"I stop here: {why}.",
            # Without an id of its own it could not be told from others in the stream of updates.
            id=digest_id("steps", *(message.id or "" for message in messages[-1:])),
            name=self._agent,
            response_metadata={OUR_WORDS: "max_steps"},
        )


def _priced(outcome: ToolOutcome, spent: Spent) -> ToolOutcome:
    """The outcome with what it has cost, so that the count outlives this process."""
    if spent == Spent():
        return outcome
    if isinstance(outcome, ToolMessage):
        return _marked(outcome, spent)
    match outcome:
        case Command(update={"messages": [*others, ToolMessage() as result], **rest}):
            return replace(outcome, update={**rest, "messages": [*others, _marked(result, spent)]})
        case _:
            return outcome


def _marked(result: ToolMessage, spent: Spent) -> ToolMessage:
    return result.model_copy(update={"response_metadata": {**result.response_metadata, SPENT: asdict(spent)}})
