"""A program of LangGraph's own client gets from this server what it gets from LangGraph's server."""

import json
from pathlib import Path
from typing import Any

from tests.protocols.langgraph.exercise import Exercise

REFERENCE = Path(__file__).with_name("reference.json")
"""Of langgraph-api 0.16.7; ``make reference`` writes it anew."""


FORKS = {"state at a checkpoint", "edited", "regenerated", "copied"}
"""Results of submits at an earlier checkpoint, which answer 501 here."""


def known_differences(seen: dict[str, Any]) -> dict[str, Any]:
    """What is another way here, as docs/protocols/langgraph.md explains it."""
    events = ["metadata", "updates", *seen["events"][1:]]  # the input is a change of the state, too
    run = {name: each for name, each in seen["run"].items() if name != "langsmith_session_name"}
    statuses = seen["statuses"][2:]  # without the two runs of forks
    known = {name: each for name, each in seen.items() if name not in FORKS}
    return {**known, "events": events, "run": run, "statuses": statuses}


async def test_the_shapes_and_statuses_are_those_of_the_reference_server(url: str) -> None:
    expected = known_differences(json.loads(REFERENCE.read_text("utf-8")))
    seen = json.loads(json.dumps(await Exercise(url, forks=False).run()))
    assert seen == expected
