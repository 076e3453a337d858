"""What one run of a graph tells, as the log would hold it."""

from typing import Any

from stellwerk.agents.runnable import RunnableAgent
from stellwerk.agents.turn import Turn
from stellwerk.envelope.model import Envelope, LlmToken, type_of
from stellwerk.stream.adapter import StreamAdapter
from stellwerk.stream.calls import OpenCalls
from stellwerk.stream.facts import Fact
from tests.samples import SteadyClock, run_end, run_start


async def story(graph: Any) -> list[Envelope]:
    """What the log would hold of one run of the graph."""
    adapter, calls = StreamAdapter(trace_id="trace", run_id="run", agent="boss"), OpenCalls()
    told: list[Envelope] = [calls.stamp(run_start())]

    def tell(fact: Fact) -> None:
        told.extend(calls.stamp(envelope) for envelope in adapter.feed(fact))

    await RunnableAgent("boss", graph).drive(Turn("thread", 1, "m1", "hello"), tell, SteadyClock())
    told += [calls.stamp(envelope) for envelope in adapter.finish()]
    return [*told, calls.stamp(run_end())]


def types(envelopes: list[Envelope]) -> list[str]:
    return [type_of(envelope) for envelope in envelopes]


def text(envelopes: list[Envelope]) -> str:
    return "".join(e.payload.text for e in envelopes if isinstance(e, LlmToken))
