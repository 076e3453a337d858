"""Builds the middleware of an agent from its settings, in the order that matters."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby
from typing import Any

from langchain.agents.middleware import AgentMiddleware, ModelResponse, ToolCallRequest
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage

from stellwerk.agents.middleware.approvals import Approvals
from stellwerk.agents.middleware.call_log import CallLog
from stellwerk.agents.middleware.failures import ModelRetry, RetryPolicy, ToolTimeouts, tool_errors
from stellwerk.agents.middleware.limits import OneModelCall, StepLimit, ToolLimits
from stellwerk.agents.middleware.request import Aliases, DanglingToolCalls, FinalPrompt, Images
from stellwerk.agents.middleware.taint import TaintTracking, ToolTraits
from stellwerk.agents.middleware.types import Answer, AskModel, AskTool, Middleware, Request, ToolOutcome
from stellwerk.agents.middleware.validation import Validation
from stellwerk.errors import SpecError
from stellwerk.spec.model import AgentConfig

_NODES = (OneModelCall, Validation)
"""Layers that are also nodes of the graph, and so cannot be part of a composite."""
_ANSWER_SETTINGS = {"only_one_model_call": False, "final_prompt": None, "validation_prompt": None}
"""Settings that shape the answer of an agent, with the values that switch them off."""


def middleware_for(
    config: AgentConfig,
    *,
    agent: str,
    judge: BaseChatModel,
    retry_policy: RetryPolicy | None = None,
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
            f"agent {agent!r} has both only_one_model_call and validation_prompt, but to judge an answer, and to write "
            "it again, takes more calls of the model; leave one of them out"
        )
    layers = _layers(config, agent, judge, retry_policy or RetryPolicy(config.model_retries), known or {})
    return list(_chained([*layers, Aliases(aliases)] if aliases else layers))


def without_answer_settings(config: AgentConfig) -> AgentConfig:
    """An agent's limits, without answer settings, for a general sub-agent with the same tools."""
    return config.model_copy(update=_ANSWER_SETTINGS)


def _chained(layers: Iterable[Middleware]) -> Iterator[Middleware]:
    for number, (alone, group) in enumerate(groupby(layers, key=lambda layer: isinstance(layer, _NODES)), start=1):
        if alone:
            yield from group
        else:
            yield CompositeMiddleware(list(group), name=f"Stellwerk{number}")


def _layers(
    config: AgentConfig,
    agent: str,
    judge: BaseChatModel,
    retry_policy: RetryPolicy,
    known: Mapping[str, ToolTraits],
) -> Iterator[Middleware]:
    # Around a model call. First the limits: a step is one turn, however often it is retried.
    if config.only_one_model_call:
        yield OneModelCall()
    yield StepLimit(config.max_steps, agent=agent)
    # Then the request.
    if config.final_prompt is not None:
        yield FinalPrompt(config.final_prompt, after=config.final_prompt_after)
    yield DanglingToolCalls()
    yield Images()
    if config.validation_prompt is not None:
        yield Validation(config, agent=agent, judge=judge, retry_policy=retry_policy)
    yield ModelRetry(retry_policy)
    # Around a tool call. The user is not asked about a call beyond its limit.
    yield ToolLimits(agent, config.tool_call_limit, config.tool_call_limits)
    # Layers before the approval run again with the answer, so they must have no side effects.
    if config.approvals or config.approvals_after_reading:
        yield Approvals(config.approvals, config.approvals_after_reading, known, agent=agent)
    # Inside the approvals, because a user's answer in place of a tool result is trusted.
    yield TaintTracking(known, framed=bool(config.approvals_after_reading))
    # Inside the retry, for a line per attempt; outside the tool errors, for what the model sees.
    yield CallLog(agent)
    # Around the timeouts: a tool itself may also raise TimeoutError.
    yield tool_errors(agent)
    if config.tool_timeout is not None or config.tool_timeouts:
        yield ToolTimeouts(config.tool_timeout, config.tool_timeouts)


class CompositeMiddleware(AgentMiddleware[Any, Any, Any]):
    """Several layers around the same calls, the first one outermost.

    LangChain wraps every middleware in tracing, which costs a task and two copies of the context
    per call even when tracing is off. For layers as thin as ours that is more than their own work.
    The layers only wrap calls: they have no nodes, tools, state or commands.
    """

    def __init__(self, layers: Sequence[Middleware], *, name: str) -> None:
        super().__init__()
        self.layers, self._name = tuple(layers), name
        self._around_model = [layer for layer in layers if _overrides(layer, "awrap_model_call")]
        self._around_tool = [layer for layer in layers if _overrides(layer, "awrap_tool_call")]

    @property
    def name(self) -> str:
        return self._name

    async def awrap_model_call(self, request: Request, handler: AskModel) -> Answer:
        for layer in reversed(self._around_model):
            handler = partial(_answered, layer, handler)
        return await handler(request)

    async def awrap_tool_call(self, request: ToolCallRequest, handler: AskTool) -> ToolOutcome:
        for layer in reversed(self._around_tool):
            handler = partial(layer.awrap_tool_call, handler=handler)
        return await handler(request)


async def _answered(layer: Middleware, handler: AskModel, request: Request) -> ModelResponse[Any]:
    answer = await layer.awrap_model_call(request, handler)
    if isinstance(answer, AIMessage):  # a layer may answer instead of the model
        return ModelResponse(result=[answer])
    if not isinstance(answer, ModelResponse):
        raise TypeError(f"{layer.name} changes the state, so it cannot be part of a chain")
    return answer


def _overrides(layer: Middleware, hook: str) -> bool:
    return getattr(type(layer), hook) is not getattr(AgentMiddleware, hook)
