"""Tracing that nobody asked for costs nothing. What is told where it is asked for, the canary scan looks at."""

import threading

import langsmith

from stellwerk.agents.tracing import traced_as, tracing
from stellwerk.envelope.redaction import Redactors
from stellwerk.log.log import Lease
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
