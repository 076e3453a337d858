"""StepLimit: an agent asks its model so many times for one input, and never more than those around it have left."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from langchain.agents.middleware import AgentMiddleware, ModelResponse, ToolCallRequest
from langchain_core.messages import AIMessage, BaseMessage
from langgraph.config import get_config

from stellwerk.agents import metering
from stellwerk.agents.middleware.budget import Budget, current, spending
from stellwerk.agents.middleware.conversation import (
    OUR_WORDS,
    SECONDS,
    SPENT,
    Spent,
    noted,
    outcome_noted,
    seconds_in,
    since_input,
    spent_in,
)
from stellwerk.agents.middleware.kinds import Answer, AskModel, Request, ToolOutcome
from stellwerk.agents.middleware.siblings import finished_siblings
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
        budget = budget_of(self._agent, self._max, said)
        budget.siblings = None  # by now they are part of the conversation
        budget.check()
        if empty := budget.used_up():
            return self._end(said, mine=empty is budget)
        budget.spend(Spent(steps=1))
        async with budget.in_time():
            response = await handler(request)
        budget.spend(Spent(tokens=spent_in(response.result).tokens))
        return _timed(response, budget)

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[ToolOutcome]]
    ) -> ToolOutcome:
        metering.check()
        said = request.state["messages"]
        budget = budget_of(self._agent, self._max, said)
        if budget.siblings is None:
            budget.siblings = await finished_siblings()
            budget = budget_of(self._agent, self._max, [*said, *budget.siblings])
        with spending(within=budget) as inside:
            async with inside.in_time():
                outcome = await handler(request)
        return _priced(outcome, inside)

    def _end(self, messages: Sequence[BaseMessage], *, mine: bool) -> AIMessage:
        why = f"I have used all {self._max} steps that I have for one message" if mine else "no steps are left for this"
        return AIMessage(
            f"I stop here: {why}.",
            # Without an id of its own it could not be told from others in the stream of updates.
            id=digest_id("steps", *(message.id or "" for message in messages[-1:])),
            name=self._agent,
            response_metadata={OUR_WORDS: "max_steps"},
        )


def budget_of(agent: str, max_steps: int, messages: Sequence[BaseMessage]) -> Budget:
    """The budget of the agent whose node runs here, which knows what its conversation shows as spent."""
    # The namespace of the graph that this node belongs to: each running agent has one of its own.
    namespace = str(get_config().get("configurable", {}).get("checkpoint_ns", ""))
    budget = current().of(namespace.rpartition("|")[0], agent=agent, limit=max_steps)
    said = since_input(messages)
    budget.catch_up(spent_in(said), seconds=seconds_in(said))
    return budget


def _timed(response: ModelResponse[Any], budget: Budget) -> ModelResponse[Any]:
    """The response with the time at which it came, if the seconds of the run are counted."""
    if notes := _clock(budget):
        response.result = [noted(message, **notes) for message in response.result]
    return response


def _priced(outcome: ToolOutcome, inside: Budget) -> ToolOutcome:
    """The outcome with what it has cost, so that the count outlives this process."""
    notes = _clock(inside)
    if inside.spent != Spent():
        notes[SPENT] = inside.spent.to_json()
    return outcome_noted(outcome, **notes) if notes else outcome


def _clock(budget: Budget) -> dict[str, Any]:
    seconds = budget.seconds()
    return {} if seconds is None else {SECONDS: seconds}
