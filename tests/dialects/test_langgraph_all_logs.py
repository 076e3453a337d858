"""What holds for every log: cut off anywhere and recovered, in any interleaving, a client is never left hanging."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stellwerk.dialects.base import translate
from stellwerk.dialects.langgraph import runs, threads
from stellwerk.envelope.model import RunEnd, decode
from tests.dialects.langgraph_clients import check, received, thread_events
from tests.dialects.random_logs import Machine, recovered
from tests.dialects.sample_logs import STORIES, positions

RECORDED = Path(__file__).parents[1] / "golden/runs"
"""Runs of real agents, as they were stored."""
LOGS = {name: make().checked() for name, make in STORIES.items()} | {
    path.stem: [decode(line) for line in path.read_bytes().splitlines()] for path in sorted(RECORDED.glob("*.jsonl"))
}


@pytest.mark.parametrize("name", LOGS)
def test_every_prefix_that_is_recovered_can_be_digested(name: str) -> None:
    for length in range(1, len(LOGS[name]) + 1):
        check(recovered(LOGS[name][:length]))


@pytest.mark.parametrize("name", LOGS)
def test_after_a_crash_the_run_is_failed_and_the_partial_message_is_gone(name: str) -> None:
    for length in range(1, len(LOGS[name])):
        log = recovered(LOGS[name][:length])
        end = log[-1]
        if isinstance(end, RunEnd) and end.payload.code == "crashed":
            assert received(runs.DIALECT, log)[-1].data["error"] == "crashed"
            last = thread_events(threads.DIALECT, log)[-1]["params"]["data"]
            assert last["event"] == "failed"
            assert "its server ended" in last["error"]


@pytest.mark.requirement("trust.I6", "002.replay.deterministic")
@pytest.mark.parametrize("dialect", [runs.DIALECT, threads.DIALECT], ids=lambda dialect: dialect.name)
@pytest.mark.parametrize("name", LOGS)
def test_the_same_log_gives_the_same_bytes(dialect: Any, name: str) -> None:
    def told() -> list[bytes]:
        return [dialect.frame(*each) for each in translate(dialect.translator("s1"), positions(LOGS[name]))]

    assert told() == told()


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_any_interleaving_of_calls_cut_off_anywhere_can_be_digested(data: st.DataObject) -> None:
    machine = Machine(data.draw)
    for _ in range(data.draw(st.integers(1, 30))):
        machine.step()
    check(recovered(machine.story.checked()))
