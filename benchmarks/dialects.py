"""Dialects: what a token costs in the stream of another protocol, beyond what it costs in the native one.

Stored bodies in, bytes out: decoded once for all readers, translated and encoded. The native path frames the
stored body as it is. The smallest of several turns; what is not tokens is a small part of such a log.
"""

import gc
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.figures import Figure, at_most
from stellwerk.api.streams.shared_translation import SharedTranslation, StreamKey
from stellwerk.dialects.registry import DIALECTS
from stellwerk.envelope import frames
from stellwerk.envelope import model as m
from stellwerk.envelope import payloads as p
from stellwerk.envelope.frames import Stored

TOKENS, ROUNDS, TURNS = 20_000, 4, 5
BUDGETS = {
    "ag-ui": 6.0,
    "ai-sdk": 5.0,
    "langgraph": 9.0,
    "langgraph-threads": 9.0,
    "openai-completions": 4.0,
    "openai-responses": 4.0,
}
"""Microseconds per token."""
_WORD, _BATCH = "a few words ", 50


async def measure(_: Path) -> list[Figure]:
    log = [Stored(position, m.encode(envelope)) for position, envelope in enumerate(_log(), start=1)]
    native = _least(lambda: _native(log))
    note = f"{TOKENS:,} tokens, without the {native:.2f} µs of the native stream"
    costs = {name: _least(partial(_translated, name, log)) - native for name in BUDGETS}
    return [at_most(f"{name}, CPU per token", costs[name], "µs", budget, note) for name, budget in BUDGETS.items()]


def _least(read: Callable[[], int]) -> float:
    """Microseconds of CPU per token."""
    costs = []
    for _ in range(TURNS):
        gc.collect()
        gc.disable()  # the server collects rarely as well
        start = time.process_time()
        assert read() > TOKENS * len(_WORD)
        costs.append(time.process_time() - start)
        gc.enable()
    return min(costs) / TOKENS * 1e6


def _native(log: list[Stored]) -> int:
    return sum(len(frames.sse("session", stored, "live")) for stored in log)


def _translated(name: str, log: list[Stored]) -> int:
    """As the shared end of a session is translated for its readers: in batches, of which the frames are kept."""
    translation = SharedTranslation(StreamKey("session", DIALECTS[name], "user"), 0)
    size = 0
    for start in range(0, len(log), _BATCH):
        size += sum(len(frame) for *_, frame in translation.translate(log[start : start + _BATCH]) or ())
    return size


def _log() -> list[m.Envelope]:
    """Rounds in which a model speaks, token by token."""
    log: list[m.Envelope] = []
    for number in range(1, ROUNDS + 1):
        run, call, count = f"r{number}", f"c{number}", TOKENS // ROUNDS
        about: dict[str, Any] = {"ts": 1.0, "trace_id": run, "run_id": run, "agent": "root"}
        of_run = {**about, "parent_id": None, "call_id": run}
        of_call = {**about, "parent_id": run, "call_id": call}
        started = p.RunStarted(
            round=number, trigger="message", system="demo", system_version=1, message_id=f"m{number}"
        )
        asked = p.Said(message_id=f"m{number}", role="user", content=[p.TextPart(text="go on")], status="first")
        answer = p.Said(message_id=call, role="assistant", content=[p.TextPart(text=_WORD * count)], status="last")
        log += [
            m.RunStart(**of_run, seq=1, payload=started),
            m.Message(**{**of_call, "call_id": f"u{number}"}, seq=1, payload=asked),
            m.LlmStart(**of_call, seq=1, payload=p.ModelCalled(model="scripted", message_id=call, node="model")),
            *(m.LlmToken(**of_call, seq=n + 2, payload=p.Token(text=_WORD)) for n in range(count)),
            m.LlmEnd(**of_call, seq=count + 2, payload=p.ModelEnded(message_id=call, status="ok")),
            m.Message(**{**of_call, "call_id": f"a{number}"}, seq=1, payload=answer),
            m.RunEnd(**of_run, seq=2, payload=p.RunEnded(status="completed", result=_WORD * count, usage=[])),
        ]
    return log
