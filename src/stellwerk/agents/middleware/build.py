"""Builds the middleware of an agent from its settings, in the order that matters."""

from collections.abc import Iterator, Mapping
from itertools import groupby

from langchain_core.language_models import BaseChatModel

from stellwerk.agents.middleware import calls, limits, request
from stellwerk.agents.middleware.approvals import Approvals
from stellwerk.agents.middleware.taint import TaintTracking
from stellwerk.agents.middleware.types import CompositeMiddleware, Middleware
from stellwerk.agents.middleware.validation import Validation
from stellwerk.agents.tools.spec import ToolTraits
from stellwerk.errors import SpecError
from stellwerk.spec.model import AgentConfig

_NODES = (limits.OneModelCall, Validation)
"""Layers that are also nodes of the graph, and so cannot be part of a composite."""
_ANSWER_SETTINGS = {"only_one_model_call": False, "final_prompt": None, "validation_prompt": None}
"""Settings that shape the answer of an agent, with the values that switch them off."""


def middleware_for(
    config: AgentConfig,
    *,
    agent: str,
    judge: BaseChatModel,
    retry_policy: calls.RetryPolicy | None = None,
    aliases: Mapping[str, str] | None = None,
    known: Mapping[str, ToolTraits] | None = None,
) -> list[Middleware]:
    """The middleware for every setting in use; the first is the outermost.

    ``known`` has the traits of the agent's tools and sub-agents, by name.

    Raises:
        SpecError: two settings contradict each other.
    """
    if config.only_one_model_call and config.validation_prompt is not None:
        raise SpecError(
            f"agent {agent!r} has both only_one_model_call and validation_prompt, but to judge an answer, "
            "and to write it again, takes more calls of the model; leave one of them out"
        )
    retry_policy = retry_policy or calls.RetryPolicy(config.model_retries)
    layers = [*_layers(config, agent, judge, retry_policy, known or {})]
    if aliases:
        layers.append(request.Aliases(aliases))
    middleware: list[Middleware] = []
    for is_node, group in groupby(layers, key=lambda layer: isinstance(layer, _NODES)):
        if is_node:
            middleware += group
        else:
            name = f"Stellwerk{len(middleware) + 1}"
            middleware.append(CompositeMiddleware(list(group), name=name))
    return middleware


def without_answer_settings(config: AgentConfig) -> AgentConfig:
    """An agent's limits, without answer settings, for a general sub-agent with the same tools."""
    return config.model_copy(update=_ANSWER_SETTINGS)


def _layers(
    config: AgentConfig,
    agent: str,
    judge: BaseChatModel,
    retry_policy: calls.RetryPolicy,
    known: Mapping[str, ToolTraits],
) -> Iterator[Middleware]:
    # Around a model call. First the limits: a step is one turn, however often it is retried.
    if config.only_one_model_call:
        yield limits.OneModelCall()
    yield limits.StepLimit(config.max_steps, agent)
    # Then the request.
    if config.final_prompt is not None:
        yield request.FinalPrompt(config.final_prompt, config.final_prompt_after)
    yield request.DanglingToolCalls()
    yield request.Images()
    if config.validation_prompt is not None:
        yield Validation(config, agent, judge, retry_policy)
    yield calls.ModelRetry(retry_policy)
    # Around a tool call. The user is not asked about a call beyond its limit.
    yield limits.ToolLimits(agent, config.tool_call_limit, config.tool_call_limits)
    # Layers before the approval run again with the answer, so they must have no side effects.
    if config.approvals or config.approvals_after_reading:
        yield Approvals(config.approvals, config.approvals_after_reading, known, agent)
    # Inside the approvals, because a user's answer in place of a tool result is trusted.
    yield TaintTracking(known, framed=bool(config.approvals_after_reading))
    # Inside the retry, for a line per attempt; outside the tool errors, for what the model sees.
    yield calls.CallLog(agent)
    # Around the timeouts: a tool itself may also raise TimeoutError.
    yield calls.ToolErrors(agent)
    if config.tool_timeout is not None or config.tool_timeouts:
        yield calls.ToolTimeouts(config.tool_timeout, config.tool_timeouts)
