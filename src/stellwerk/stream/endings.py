"""Endings: the last envelopes of a run that completes, fails, is stopped or crashes.

The runner, the library and crash recovery all end a run by these, so every log
ends in the same way.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from msgspec.structs import replace

from stellwerk.envelope.model import Envelope, Error, LlmEnd, Message, RunEnd
from stellwerk.envelope.payloads import Problem, RunEnded, StopAsked, Usage
from stellwerk.stream.adapter import StreamAdapter
from stellwerk.stream.calls import OpenCalls
from stellwerk.stream.outcomes import sum_of


def ending(
    adapter: StreamAdapter,
    calls: OpenCalls,
    *,
    trace_id: str,
    run_id: str,
    ts: float,
    failure: Problem | None = None,
) -> Iterator[Envelope]:
    """Yield the answer, the ends of open calls and the end of the run; stamp each as it comes."""
    yield from adapter.finish()
    awaiting = bool(adapter.asks) and failure is None
    yield from calls.closing(ts=ts, run_id=run_id, but=adapter.paused if awaiting else ())
    if failure is not None:
        yield Error(**_root(trace_id, run_id, ts), payload=failure)
    ended = RunEnded(status="awaiting_user" if awaiting else "completed", usage=list(adapter.usage.values()))
    if failure is not None:
        ended = replace(ended, status="failed", reason=failure.message, code=failure.code)
    elif adapter.declined:
        ended = replace(ended, status="stopped", reason="the answer at the breakpoint was no", code="stopped")
    elif not awaiting:
        ended = replace(ended, result=adapter.answer or None)
    yield RunEnd(**_root(trace_id, run_id, ts), payload=ended)


def crash_ending(
    log: Iterable[Envelope],
    *,
    run_id: str,
    ts: float,
    waiting: Sequence[Message] = (),
) -> list[Envelope]:
    """End a crashed run, from its trace's log and ``waiting`` messages that only its state has."""
    reason = "the run was cut off: its server ended while it was under way"
    return _interrupted(log, run_id, ts, RunEnded(status="failed", reason=reason, code="crashed"), waiting)


def stop_ending(
    log: Iterable[Envelope], stop: StopAsked, *, run_id: str, ts: float, waiting: Sequence[Message] = ()
) -> list[Envelope]:
    """End a stopped run."""
    return _interrupted(log, run_id, ts, RunEnded(status="stopped", reason=stop.reason, code="stopped"), waiting)


def _interrupted(
    log: Iterable[Envelope], run_id: str, ts: float, ended: RunEnded, waiting: Sequence[Message]
) -> list[Envelope]:
    calls = OpenCalls()
    usage: dict[str, Usage] = {}
    trace_id = ""
    history = list(log)
    for envelope in history:
        calls.feed(envelope)
        trace_id = envelope.trace_id or trace_id
        if isinstance(envelope, LlmEnd) and envelope.run_id == run_id and (used := envelope.payload.usage):
            usage[used.model] = sum_of(usage.get(used.model), used)
    end = RunEnd(**_root(trace_id, run_id, ts), payload=replace(ended, usage=list(usage.values())))
    adapter = StreamAdapter(trace_id=trace_id, run_id=run_id, agent="")
    adapter.seed(history, waiting, goes_on=False)
    return [calls.stamp(each) for each in (*adapter.interrupt(), *calls.closing(ts=ts, run_id=run_id), end)]


def _root(trace_id: str, run_id: str, ts: float) -> dict[str, Any]:
    return {"ts": ts, "trace_id": trace_id, "run_id": run_id, "parent_id": None, "call_id": run_id, "seq": 0}
