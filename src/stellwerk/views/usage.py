"""Usage of a session so far: tokens per model, calls, and seconds.

Counted from the ends of the calls, so a run that is under way, or that crashed,
counts with what it has used.
"""

from typing import TypedDict

import msgspec
from msgspec.structs import asdict, replace

from stellwerk.envelope.model import Envelope, LlmEnd, RunEnd, RunStart, ToolEnd
from stellwerk.envelope.payloads import Usage


class ModelUsage(msgspec.Struct, frozen=True, kw_only=True):
    input_tokens: int = 0
    output_tokens: int = 0
    calls: int = 0


class UsageTotals(msgspec.Struct, frozen=True, kw_only=True):
    models: dict[str, ModelUsage] = {}
    """By name; calls without a count of their provider are only in ``model_calls``."""
    model_calls: int = 0
    tool_calls: int = 0
    """Including agents that are used as tools."""
    runs: int = 0
    seconds: float = 0.0
    """The time of all runs that have ended."""
    since: float | None = None
    """The start of the current run."""


class UsageOfModel(TypedDict):
    model: str
    input_tokens: int
    output_tokens: int
    calls: int


class UsageInfo(TypedDict):
    """What a session has used."""

    input_tokens: int
    output_tokens: int
    model_calls: int
    tool_calls: int
    runs: int
    seconds: float
    models: list[UsageOfModel]


def fold(usage: UsageTotals, envelope: Envelope) -> UsageTotals:
    match envelope:
        case RunStart(ts=ts):
            return replace(usage, runs=usage.runs + 1, since=ts)
        case RunEnd(ts=ts) if usage.since is not None:
            seconds = round(usage.seconds + max(0.0, ts - usage.since), 6)
            return replace(usage, seconds=seconds, since=None)
        case LlmEnd(payload=ended):
            models = _counted(usage.models, ended.usage) if ended.usage else usage.models
            return replace(usage, models=models, model_calls=usage.model_calls + 1)
        case ToolEnd():
            return replace(usage, tool_calls=usage.tool_calls + 1)
        case _:
            return usage


def _counted(models: dict[str, ModelUsage], spent: Usage) -> dict[str, ModelUsage]:
    before = models.get(spent.model, ModelUsage())
    after = ModelUsage(
        input_tokens=before.input_tokens + spent.input_tokens,
        output_tokens=before.output_tokens + spent.output_tokens,
        calls=before.calls + 1,
    )
    return {**models, spent.model: after}


def as_json(usage: UsageTotals) -> UsageInfo:
    """Return the JSON of the API: a list of models, and the sum over them."""
    models = [
        msgspec.convert({"model": name, **asdict(spent)}, UsageOfModel) for name, spent in sorted(usage.models.items())
    ]
    return {
        "input_tokens": sum(model["input_tokens"] for model in models),
        "output_tokens": sum(model["output_tokens"] for model in models),
        "model_calls": usage.model_calls,
        "tool_calls": usage.tool_calls,
        "runs": usage.runs,
        "seconds": usage.seconds,
        "models": models,
    }
