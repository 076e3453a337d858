"""A program of LangGraph's own client gets from this server what it gets from LangGraph's server."""

import json
from pathlib import Path
from typing import Any

from tests.protocols.langgraph.exercise import Exercise

REFERENCE = Path(__file__).with_name("reference.json")
"""Of langgraph-api 0.16.7; ``make reference`` writes it anew."""


def known_differences(seen: dict[str, Any]) -> dict[str, Any]:
    """What is another way here, as docs/protocols/langgraph.md explains it."""
    events = ["metadata", "updates", *seen["events"][1:]]  # the input is a change of the state, too
    run = {name: each for name, each in seen["run"].items() if name != "langsmith_session_name"}
    return {**seen, "events": events, "run": run}


async def test_the_shapes_and_statuses_are_those_of_the_reference_server(url: str) -> None:
    expected = known_differences(json.loads(REFERENCE.read_text("utf-8")))
    seen = json.loads(json.dumps(await Exercise(url).run()))
    assert seen == expected
