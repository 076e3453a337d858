"""Endings: the last envelopes of a run that completes, fails, is stopped or crashes.

The runner, the library and crash recovery all end a run by these, so every log
ends in the same way.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from msgspec.structs import replace

from stellwerk.envelope.model import Envelope, Error, LlmEnd, Message, RunEnd, StopRequest
from stellwerk.envelope.payloads import Problem, RunEnded, Usage
from stellwerk.stream.adapter import StreamAdapter
from stellwerk.stream.calls import CallTree, OpenCalls
from stellwerk.stream.outcomes import add_usage


def ending(
    adapter: StreamAdapter, calls: OpenCalls, *, ts: float, failure: Problem | None = None
) -> Iterator[Envelope]:
    """Yield the answer, the ends of open calls and the end of the run; stamp each as it comes."""
    tree = adapter.tree
    yield from adapter.finish()
    awaiting = bool(adapter.asks) and failure is None
    yield from calls.closing(ts=ts, run_id=tree.run_id, but=adapter.paused if awaiting else ())
    ended = RunEnded(status="completed", usage=list(adapter.usage.values()))
    if failure is not None:
        yield Error(**_root(tree, ts), payload=failure)
        ended = replace(ended, status="failed", reason=failure.message, code=failure.code)
    elif adapter.declined:
        ended = replace(ended, status="stopped", reason="the answer at the breakpoint was no", code="stopped")
    elif awaiting:
        ended = replace(ended, status="awaiting_user")
    else:
        ended = replace(ended, result=adapter.answer or None)
    yield RunEnd(**_root(tree, ts), payload=ended)


def interrupted_ending(
    log: Sequence[Envelope], *, run_id: str, ts: float, waiting: Sequence[Message] = ()
) -> list[Envelope]:
    """End a run without a driver: as stopped if it has a stop request, else as crashed.

    ``log`` is that of its trace; ``waiting`` are the messages that only its state has.
    """
    calls = OpenCalls()
    usage: dict[str, Usage] = {}
    trace_id = ""
    for envelope in log:
        calls.feed(envelope)
        trace_id = envelope.trace_id or trace_id
        if isinstance(envelope, LlmEnd) and envelope.run_id == run_id and envelope.payload.usage:
            add_usage(usage, envelope.payload.usage)
    stops = [e.payload for e in log if isinstance(e, StopRequest) and e.run_id == run_id]
    if stops:
        ended = RunEnded(status="stopped", reason=stops[0].reason, code="stopped")
    else:
        reason = "the run was cut off: its server ended while it was under way"
        ended = RunEnded(status="failed", reason=reason, code="crashed")
    adapter = StreamAdapter(trace_id=trace_id, run_id=run_id, agent="")
    adapter.seed(log, waiting, goes_on=False)
    end = RunEnd(**_root(adapter.tree, ts), payload=replace(ended, usage=list(usage.values())))
    return [calls.stamp(each) for each in (*adapter.interrupt(), *calls.closing(ts=ts, run_id=run_id), end)]


def _root(tree: CallTree, ts: float) -> dict[str, Any]:
    return {**tree.root(ts), "agent": None}
