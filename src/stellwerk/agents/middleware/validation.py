"""Validation: a judge accepts an answer before it is shown, or has it rewritten, up to a limit."""

import re
from typing import Any

from langchain.agents.middleware import AgentMiddleware, ExtendedModelResponse, hook_config
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from langgraph.runtime import Runtime
from langgraph.types import Command

from stellwerk.agents.middleware.call_log import model_call_entry
from stellwerk.agents.middleware.failures import RetryPolicy
from stellwerk.agents.middleware.limits import budget_of
from stellwerk.agents.middleware.types import Answer, AskModel, Request
from stellwerk.agents.runtime.context import CustomStateShared
from stellwerk.agents.runtime.conversation import (
    SPENT,
    VALIDATOR,
    Cost,
    by_model,
    cost_in,
    input_text,
    since_input,
    with_notes,
)
from stellwerk.agents.runtime.shapes import HELD, NOSTREAM
from stellwerk.spec.model import AgentConfig

_GOOD = r"\W*ok\W*"
"""OK alone: a verdict that starts with it may continue with an objection."""
_VERDICT = "Reply with the single word OK if the answer is good. Otherwise say briefly what is wrong with it."


class Validation(AgentMiddleware[Any, Any, Any]):
    """Asks the judge about every answer without tool calls.

    A rejected answer stays in the conversation, followed by the objection, and the model is called
    again. An accepted one is written again under its own id, so that the update names the message
    that may be shown.
    """

    state_schema = CustomStateShared

    def __init__(
        self,
        config: AgentConfig,
        *,
        agent: str,
        judge: BaseChatModel,
        retry_policy: RetryPolicy,
    ) -> None:
        super().__init__()
        self._prompt = f"{config.validation_prompt}\n\n{_VERDICT}"
        self._rounds, self._max_steps, self._agent = config.validation_rounds, config.max_steps, agent
        self._judge, self._retry_policy = judge, retry_policy

    async def awrap_model_call(self, request: Request, handler: AskModel) -> Answer:
        held = request.model.model_copy(update={"tags": [*(request.model.tags or []), NOSTREAM, HELD]})
        response = await handler(request.override(model=held))
        # The answer to an earlier input must not be taken for the answer to this one.
        return ExtendedModelResponse(response, Command(update={"validated_agent_output": ""}))

    @hook_config(can_jump_to=["model"])
    async def aafter_model(self, state: CustomStateShared, runtime: Runtime[Any]) -> dict[str, Any] | None:
        answer = state["messages"][-1]
        if not isinstance(answer, AIMessage) or answer.tool_calls or not by_model(answer):
            return None
        rounds = sum(message.name == VALIDATOR for message in since_input(state["messages"]))
        if rounds >= self._rounds:  # the limit of rewrites
            return {"messages": [answer], "validated_agent_output": str(answer.text)}
        verdict, spent = await self._judged(state, str(answer.text))
        # Costs noted in the conversation still count after an interrupt, or in another process.
        cost = {SPENT: spent.to_json()}
        if re.fullmatch(_GOOD, verdict, re.IGNORECASE):
            return {"messages": [with_notes(answer, **cost)], "validated_agent_output": str(answer.text)}
        remark = f"Your answer was refused and nobody has seen it: {verdict}\nWrite it again, as a whole."
        return {"messages": [HumanMessage(remark, name=VALIDATOR, response_metadata=cost)], "jump_to": "model"}

    async def _judged(self, state: CustomStateShared, answer: str) -> tuple[str, Cost]:
        """The judge's verdict on the answer, and its cost."""
        said = state["messages"]
        budget = budget_of(self._agent, self._max_steps, said)
        budget.check()
        budget.spend(Cost(steps=1))
        async with budget.in_time():
            verdict = await self._retry_policy.ask(lambda: self._ask(input_text(said), answer))
        tokens = cost_in([verdict]).tokens
        budget.spend(Cost(tokens=tokens))
        return str(verdict.text).strip(), Cost(steps=1, tokens=tokens)

    async def _ask(self, question: str, answer: str) -> AIMessage:
        asked = [
            SystemMessage(self._prompt),
            HumanMessage(f"The question:\n{question}"),
            HumanMessage(f"The answer to be judged:\n{answer}"),
        ]
        with model_call_entry(self._agent, self._judge) as line:
            verdict = await self._judge.ainvoke(asked, {"tags": [NOSTREAM]})
            line.tokens(verdict)
        return verdict
