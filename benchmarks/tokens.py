"""Tokens: what it costs to make one word of a model, or one piece of a tool's arguments, an envelope that is sampled.

Only our own two parts, adapter and sampler, without LangGraph, log and network; the smallest of several turns.
"""

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.figures import Figure, at_most
from stellwerk.stream.adapter import StreamAdapter
from stellwerk.stream.coalescer import Coalescer
from stellwerk.stream.facts import ModelStarted, ModelToken, ToolArgsDelta

BUDGET = 4.0
TOKENS, TURNS = 100_000, 5
_RUN, _WINDOW = "model", 0.04
_PACE = 0.0005
"""Seconds between two tokens: a model that speaks 2,000 a second, so that a window merges eighty."""


async def measure(_: Path) -> list[Figure]:
    note = f"adapter and sampler, {TOKENS:,} tokens, windows of {_WINDOW * 1e3:.0f} ms"
    return [
        at_most("CPU per token of text", _least(_word), "µs", BUDGET, note),
        at_most("CPU per token of tool arguments", _least(_piece), "µs", BUDGET),
    ]


def _least(token: Callable[[int], ModelToken | ToolArgsDelta]) -> float:
    return min(_cost([token(n) for n in range(TOKENS)]) for _ in range(TURNS)) / TOKENS * 1e6


def _cost(facts: Sequence[ModelToken | ToolArgsDelta]) -> float:
    """CPU seconds from the facts to the envelopes that would be stored."""
    adapter, sampler, taken = StreamAdapter(trace_id="trace", run_id="run", agent="root"), Coalescer(_WINDOW), 0
    for envelope in adapter.feed(ModelStarted(0.0, _RUN, None, "scripted", "root", None)):
        sampler.feed(envelope, 0.0)
    began = time.process_time()
    for fact in facts:
        for envelope in adapter.feed(fact):
            sampler.feed(envelope, fact.ts)
        due = sampler.due()
        if due is not None and due <= fact.ts:
            taken += len(sampler.take_due(fact.ts))
    took = time.process_time() - began
    assert taken > TOKENS * _PACE / _WINDOW / 2, f"only {taken} envelopes were taken"
    return took


def _word(n: int) -> ModelToken:
    return ModelToken(n * _PACE, _RUN, "word ")


def _piece(n: int) -> ToolArgsDelta:
    return ToolArgsDelta(n * _PACE, _RUN, 0, '"key": ', *(("call", "search") if n == 0 else ()))
