"""Validation: nobody sees an answer before it was found good, or written again as often as is allowed."""

import re
from typing import Any

from langchain.agents.middleware import AgentMiddleware, ExtendedModelResponse, hook_config
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from langgraph.runtime import Runtime
from langgraph.types import Command

from stellwerk.agents.middleware.call_log import model_line
from stellwerk.agents.middleware.conversation import (
    SPENT,
    VALIDATOR,
    Spent,
    by_model,
    noted,
    question_of,
    since_input,
    spent_in,
)
from stellwerk.agents.middleware.kinds import Answer, AskModel, Request
from stellwerk.agents.middleware.retry import Patience
from stellwerk.agents.middleware.steps import budget_of
from stellwerk.agents.state import CustomStateShared
from stellwerk.spec.model import AgentConfig

NOSTREAM = "nostream"
"""LangGraph's own tag: no tokens of this call in the ``messages`` stream."""
HELD = "stellwerk_held"
"""Ours: the tokens of this call are held back; its message is shown when the state has accepted it."""
_GOOD = r"\W*ok\W*"
"""Nothing but OK: a verdict that begins with it may go on with what is wrong."""
_VERDICT = "Reply with the single word OK if the answer is good. Otherwise say briefly what is wrong with it."


class Validation(AgentMiddleware[Any, Any, Any]):
    """Asks a judge about every answer without tool calls.

    A refused answer stays in the conversation, with what is wrong with it below, and the model is asked again. An
    accepted one is written once more under its own id, so that the update says which message may be shown.
    """

    state_schema = CustomStateShared

    def __init__(self, config: AgentConfig, *, agent: str, judge: BaseChatModel, patience: Patience) -> None:
        super().__init__()
        self._prompt = f"{config.validation_prompt}\n\n{_VERDICT}"
        self._rounds, self._max_steps, self._agent = config.validation_rounds, config.max_steps, agent
        self._judge, self._patience = judge, patience

    async def awrap_model_call(self, request: Request, handler: AskModel) -> Answer:
        held = request.model.model_copy(update={"tags": [*(request.model.tags or []), NOSTREAM, HELD]})
        response = await handler(request.override(model=held))
        # What an earlier input was answered must not pass for the answer to this one.
        return ExtendedModelResponse(response, Command(update={"validated_agent_output": ""}))

    @hook_config(can_jump_to=["model"])
    async def aafter_model(self, state: CustomStateShared, runtime: Runtime[Any]) -> dict[str, Any] | None:
        answer = state["messages"][-1]
        if not isinstance(answer, AIMessage) or answer.tool_calls or not by_model(answer):
            return None
        rounds = sum(message.name == VALIDATOR for message in since_input(state["messages"]))
        if rounds >= self._rounds:  # it was written again often enough
            return {"messages": [answer], "validated_agent_output": str(answer.text)}
        verdict, spent = await self._judged(state, str(answer.text))
        # What is noted in the conversation still counts after a question, or in another process.
        cost = {SPENT: spent.to_json()}
        if re.fullmatch(_GOOD, verdict, re.IGNORECASE):
            return {"messages": [noted(answer, **cost)], "validated_agent_output": str(answer.text)}
        remark = f"Your answer was refused and nobody has seen it: {verdict}\nWrite it again, as a whole."
        return {"messages": [HumanMessage(remark, name=VALIDATOR, response_metadata=cost)], "jump_to": "model"}

    async def _judged(self, state: CustomStateShared, answer: str) -> tuple[str, Spent]:
        """What the judge says about the answer, and what it has cost to ask."""
        said = state["messages"]
        budget = budget_of(self._agent, self._max_steps, said)
        budget.check()
        budget.spend(Spent(steps=1))
        async with budget.in_time():
            verdict = await self._patience.ask(self._judge, lambda judge: self._ask(judge, question_of(said), answer))
        tokens = spent_in([verdict]).tokens
        budget.spend(Spent(tokens=tokens))
        return str(verdict.text).strip(), Spent(steps=1, tokens=tokens)

    async def _ask(self, judge: BaseChatModel, question: str, answer: str) -> AIMessage:
        asked = [
            SystemMessage(self._prompt),
            HumanMessage(f"The question:\n{question}"),
            HumanMessage(f"The answer to be judged:\n{answer}"),
        ]
        with model_line(self._agent, judge) as line:
            verdict = await judge.ainvoke(asked, {"tags": [NOSTREAM]})
            line.tokens(verdict)
        return verdict
