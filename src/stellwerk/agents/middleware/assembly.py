"""From an AgentConfig to the middleware of LangChain's ``create_agent``."""

from collections.abc import Iterator

from langchain_core.language_models import BaseChatModel

from stellwerk.agents.middleware.approvals import approvals
from stellwerk.agents.middleware.call_log import CallLog
from stellwerk.agents.middleware.final_prompt import FinalPrompt
from stellwerk.agents.middleware.kinds import Middleware
from stellwerk.agents.middleware.one_call import OneModelCall
from stellwerk.agents.middleware.repair import Repair
from stellwerk.agents.middleware.retry import ModelRetry, Patience
from stellwerk.agents.middleware.steps import StepLimit
from stellwerk.agents.middleware.tool_errors import tool_errors
from stellwerk.agents.middleware.tool_limits import ToolLimits
from stellwerk.agents.middleware.tool_timeout import ToolTimeout
from stellwerk.agents.middleware.validation import Validation
from stellwerk.spec.model import AgentConfig


def middleware_for(
    config: AgentConfig, *, agent: str, judge: BaseChatModel, patience: Patience | None = None
) -> list[Middleware]:
    """Every setting that is used, in an order that matters; the first is the outermost."""
    return list(_layers(config, agent, judge, patience or Patience(config.model_retries)))


def _layers(config: AgentConfig, agent: str, judge: BaseChatModel, patience: Patience) -> Iterator[Middleware]:
    # Around a model call. First whether there is one at all: a step is one turn, however often it is tried.
    if config.only_one_model_call:
        yield OneModelCall()
    yield StepLimit(config.max_steps, agent=agent)
    # Then what is asked.
    if config.final_prompt is not None:
        yield FinalPrompt(config.final_prompt, after=config.final_prompt_after)
    yield Repair()
    if config.validation_prompt is not None:
        yield Validation(config, agent=agent, judge=judge, patience=patience)
    yield ModelRetry(patience)
    # Around a tool call. A call beyond its limit is not worth a question to the user.
    if config.tool_call_limit is not None or config.tool_call_limits:
        yield ToolLimits(config.tool_call_limit, config.tool_call_limits)
    # What stands before the approval runs again when the answer comes, so nothing there may act, or write a line.
    if config.approvals:
        yield approvals(config.approvals)
    # Inside the retry a line for every attempt; outside the tool errors, so that it tells how the model sees the end.
    yield CallLog(agent)
    # Around the timeout: an error of the tool itself may be a TimeoutError too.
    yield tool_errors(agent)
    if config.tool_timeout is not None or config.tool_timeouts:
        yield ToolTimeout(config.tool_timeout, config.tool_timeouts)
