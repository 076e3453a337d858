"""From an AgentConfig to the middleware of LangChain's ``create_agent``."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby

from langchain_core.language_models import BaseChatModel

from stellwerk.agents.middleware.aliases import Aliases
from stellwerk.agents.middleware.approvals import AfterReading, Approvals
from stellwerk.agents.middleware.call_log import CallLog
from stellwerk.agents.middleware.chain import Chain
from stellwerk.agents.middleware.final_prompt import FinalPrompt
from stellwerk.agents.middleware.images import Images
from stellwerk.agents.middleware.kinds import Middleware
from stellwerk.agents.middleware.one_call import OneModelCall
from stellwerk.agents.middleware.reading import Conduct, Reading
from stellwerk.agents.middleware.repair import Repair
from stellwerk.agents.middleware.retry import ModelRetry, Patience
from stellwerk.agents.middleware.steps import StepLimit
from stellwerk.agents.middleware.tool_errors import tool_errors
from stellwerk.agents.middleware.tool_limits import Limits, ToolLimits
from stellwerk.agents.middleware.tool_timeout import ToolTimeout
from stellwerk.agents.middleware.validation import Validation
from stellwerk.errors import SpecError
from stellwerk.spec.model import AgentConfig

_NODES = (OneModelCall, Validation)
"""Layers that are nodes of the graph, too, and so cannot be part of a chain."""
_OWN = {"only_one_model_call": False, "final_prompt": None, "validation_prompt": None}
"""Settings about the answer of an agent, with the values that switch them off."""


def middleware_for(
    config: AgentConfig,
    *,
    agent: str,
    judge: BaseChatModel,
    patience: Patience | None = None,
    aliases: Mapping[str, str] | None = None,
    known: Mapping[str, Conduct] | None = None,
) -> list[Middleware]:
    """Every setting that is used, in an order that matters; the first is the outermost.

    ``known`` is the conduct of the agent's tools, and of its sub-agents, by name.

    Raises:
        SpecError: two settings contradict each other.
    """
    if config.only_one_model_call and config.validation_prompt is not None:
        raise SpecError(
            f"agent {agent!r} has both only_one_model_call and validation_prompt, but to judge an answer, and to write "
            "it again, takes more calls of the model; leave one of them out"
        )
    layers = _layers(config, agent, judge, patience or Patience(config.model_retries), known or {})
    return list(_chained([*layers, Aliases(aliases)] if aliases else layers))


def guards_for(
    config: AgentConfig,
    *,
    agent: str,
    judge: BaseChatModel,
    patience: Patience | None = None,
    aliases: Mapping[str, str] | None = None,
    known: Mapping[str, Conduct] | None = None,
) -> list[Middleware]:
    """The same for a helper that works with the agent's tools: what limits it, without what shapes the answer."""
    bare = config.model_copy(update=_OWN)
    return middleware_for(bare, agent=agent, judge=judge, patience=patience, aliases=aliases, known=known)


def _chained(layers: Iterable[Middleware]) -> Iterator[Middleware]:
    for number, (alone, group) in enumerate(groupby(layers, key=lambda layer: isinstance(layer, _NODES)), start=1):
        if alone:
            yield from group
        else:
            yield Chain(list(group), name=f"Stellwerk{number}")


def _layers(
    config: AgentConfig, agent: str, judge: BaseChatModel, patience: Patience, known: Mapping[str, Conduct]
) -> Iterator[Middleware]:
    # Around a model call. First whether there is one at all: a step is one turn, however often it is tried.
    if config.only_one_model_call:
        yield OneModelCall()
    yield StepLimit(config.max_steps, agent=agent)
    # Then what is asked.
    if config.final_prompt is not None:
        yield FinalPrompt(config.final_prompt, after=config.final_prompt_after)
    yield Repair()
    yield Images()
    if config.validation_prompt is not None:
        yield Validation(config, agent=agent, judge=judge, patience=patience)
    yield ModelRetry(patience)
    # Around a tool call. A call beyond its limit is not worth a question to the user.
    yield ToolLimits(Limits(agent, config.tool_call_limit, config.tool_call_limits))
    # What stands before the approval runs again when the answer comes, so nothing there may act, or write a line.
    if config.approvals or config.approvals_after_reading:
        yield Approvals(config.approvals, AfterReading(config.approvals_after_reading, known, agent=agent))
    # Inside, because what the user says in a tool's place is not what a stranger says.
    yield Reading(known, framed=bool(config.approvals_after_reading))
    # Inside the retry a line for every attempt; outside the tool errors, so that it tells how the model sees the end.
    yield CallLog(agent)
    # Around the timeout: an error of the tool itself may be a TimeoutError too.
    yield tool_errors(agent)
    if config.tool_timeout is not None or config.tool_timeouts:
        yield ToolTimeout(config.tool_timeout, config.tool_timeouts)
