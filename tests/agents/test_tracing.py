"""Tracing that nobody asked for costs nothing. What is told where it is asked for, the canary scan looks at."""

import threading
from typing import Any

import langsmith

from stellwerk.agents.runtime.tracing import traced_as, tracing
from stellwerk.log.log import Lease
from stellwerk.redaction.redactor import Redactors
from tests.cli.processes import stellwerk
from tests.collector import serving_collector
from tests.samples import run_start


async def test_without_the_variables_nothing_is_started_and_nothing_is_carried() -> None:
    before = threading.enumerate()
    async with tracing(Redactors()):
        with traced_as(Lease("acme", "s1", "r1", 1), run_start(), "one"):
            assert langsmith.run_helpers.get_tracing_context()["metadata"] is None
        assert threading.enumerate() == before


def test_what_is_traced_says_whose_run_it_is() -> None:
    with langsmith.tracing_context(enabled=True), traced_as(Lease("acme", "s1", "r1", 1), run_start(), "one"):
        told = langsmith.run_helpers.get_tracing_context()["metadata"]
    assert told == {"tenant": "acme", "session_id": "s1", "run_id": "r1", "agent_system": "demo", "agent": "one"}


async def test_the_command_run_traces_without_secrets_as_the_server_does() -> None:
    key = "sk-Canary-4711"
    async with serving_collector() as collector:
        told: dict[str, Any] = dict(each.split("=", 1) for each in collector.environment())
        done = await stellwerk("run", "demo", f"weather, by {key}", "-q", OPENAI_API_KEY=key, **told)
    assert done[0] == 0, done
    assert len(collector.received) == 2, "to LangSmith, and as spans"
    for place, traced in collector.received.items():
        assert b"weather, by [redacted]" in traced and key.encode() not in traced, place
