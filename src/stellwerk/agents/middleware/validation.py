"""Validation: a judge accepts an answer before it is shown, or has it rewritten, up to a limit."""

import re
from dataclasses import dataclass
from typing import Any

from langchain.agents.middleware import ExtendedModelResponse, hook_config
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage
from langgraph.types import Command

from stellwerk.agents.middleware.calls import RetryPolicy, model_call_entry
from stellwerk.agents.middleware.limits import budget_of
from stellwerk.agents.middleware.types import Answer, AskModel, CustomStateShared, Middleware, Request
from stellwerk.agents.runtime import conversation
from stellwerk.agents.runtime.shapes import ACCEPTED, HELD, NOSTREAM
from stellwerk.spec.model import AgentConfig

_GOOD = r"\W*ok\W*"
"""OK alone: a verdict that starts with it may continue with an objection."""
_VERDICT = "Reply with the single word OK if the answer is good. Otherwise say briefly what is wrong with it."


@dataclass(eq=False)
class Validation(Middleware):
    """Asks the judge about every answer without tool calls.

    A rejected answer stays in the conversation, followed by the objection, and the model is called
    again. An accepted one is written again under its own id, so that the update names the message
    that may be shown.
    """

    state_schema = CustomStateShared
    config: AgentConfig
    agent: str
    judge: BaseChatModel
    retry_policy: RetryPolicy

    async def awrap_model_call(self, request: Request, handler: AskModel) -> Answer:
        held = request.model.model_copy(update={"tags": [*(request.model.tags or []), NOSTREAM, HELD]})
        response = await handler(request.override(model=held))
        # The answer to an earlier input must not be taken for the answer to this one.
        return ExtendedModelResponse(response, Command(update={ACCEPTED: ""}))

    @hook_config(can_jump_to=["model"])
    async def aafter_model(self, state: CustomStateShared, runtime: Any) -> dict[str, Any] | None:
        said = state["messages"]
        answer = said[-1]
        if not isinstance(answer, AIMessage) or answer.tool_calls or not conversation.by_model(answer):
            return None
        text = str(answer.text)
        rounds = sum(message.name == conversation.VALIDATOR for message in conversation.since_input(said))
        if rounds >= self.config.validation_rounds:  # the limit of rewrites
            return {"messages": [answer], ACCEPTED: text}
        verdict, spent = await self._judged(said, text)
        # Costs noted in the conversation still count after an interrupt, or in another process.
        cost = {conversation.SPENT: spent.to_json()}
        if re.fullmatch(_GOOD, verdict, re.IGNORECASE):
            return {"messages": [conversation.with_notes(answer, **cost)], ACCEPTED: text}
        objection = f"Your answer was refused and nobody has seen it: {verdict}\nWrite it again, as a whole."
        remark = HumanMessage(objection, name=conversation.VALIDATOR, response_metadata=cost)
        return {"messages": [remark], "jump_to": "model"}

    async def _judged(self, said: list[AnyMessage], answer: str) -> tuple[str, conversation.Cost]:
        """The judge's verdict on the answer, and its cost."""
        question = conversation.input_text(said)
        budget = budget_of(self.agent, self.config.max_steps, said)
        budget.check()
        budget.spend(conversation.Cost(steps=1))
        async with budget.in_time():
            verdict = await self.retry_policy.ask(lambda: self._ask(question, answer))
        tokens = conversation.cost_in([verdict]).tokens
        budget.spend(conversation.Cost(tokens=tokens))
        return str(verdict.text).strip(), conversation.Cost(steps=1, tokens=tokens)

    async def _ask(self, question: str, answer: str) -> AIMessage:
        asked = [
            SystemMessage(f"{self.config.validation_prompt}\n\n{_VERDICT}"),
            HumanMessage(f"The question:\n{question}"),
            HumanMessage(f"The answer to be judged:\n{answer}"),
        ]
        with model_call_entry(self.agent, self.judge) as line:
            verdict = await self.judge.ainvoke(asked, {"tags": [NOSTREAM]})
            line.tokens(verdict)
        return verdict
