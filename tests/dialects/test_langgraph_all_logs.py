"""What holds for every log: cut off anywhere and recovered, in any interleaving, a client is never left hanging."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stellwerk.dialects import langgraph_runs as runs
from stellwerk.dialects import langgraph_threads as threads
from stellwerk.dialects.base import translate
from stellwerk.envelope.model import Envelope, RunEnd, decode
from stellwerk.envelope.order import legal
from stellwerk.stream.endings import crash_ending
from tests.dialects.langgraph_clients import Hook, chunks_of, faults, received, thread_events
from tests.dialects.stories import STORIES, Story, positions

RECORDED = Path(__file__).parents[1] / "golden/runs"
"""Runs of real agents, as they were stored."""
LOGS = {name: make().checked() for name, make in STORIES.items()} | {
    path.stem: [decode(line) for line in path.read_bytes().splitlines()] for path in sorted(RECORDED.glob("*.jsonl"))
}


def recovered(log: Sequence[Envelope]) -> list[Envelope]:
    """The log after its server ended there and another one took over."""
    last = log[-1]
    if isinstance(last, RunEnd):
        return list(log)
    whole = [*log, *crash_ending(log, run_id=last.run_id or "", ts=last.ts)]
    assert legal(whole) == []
    return whole


def check(log: Sequence[Envelope]) -> None:
    """Both streams are whole, and what the one shows as it comes is what its values say."""
    parts = received(runs.DIALECT, log)
    spaces = {part.event.partition("|")[2] for part in parts}
    for space in spaces:
        hook = Hook().read(parts, space)
        if not hook.values:
            continue
        assert list(hook.messages) == [message["id"] for message in hook.values["messages"]]
        for spoken, held in chunks_of(hook):
            assert (spoken.text, spoken.tool_calls) == (held.text, held.tool_calls)
    events = thread_events(threads.DIALECT, log)
    assert faults(events) == []
    assert (events[-1]["method"], events[-1]["params"]["namespace"]) == ("lifecycle", [])


@pytest.mark.parametrize("name", LOGS)
def test_every_prefix_that_is_recovered_can_be_digested(name: str) -> None:
    for length in range(1, len(LOGS[name]) + 1):
        check(recovered(LOGS[name][:length]))


@pytest.mark.parametrize("name", LOGS)
def test_after_a_crash_the_run_is_told_as_failed_and_half_a_message_is_gone(name: str) -> None:
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


class Machine:
    """Draws a legal run: models that speak, tools, agents and graphs, inside each other and side by side."""

    def __init__(self, draw: Any) -> None:
        self.draw, self.story, self.count = draw, Story().begin(), 0
        self.models: dict[str, str | None] = {}
        self.tools: dict[str, tuple[str, str | None]] = {}
        self.wanted: list[tuple[str, str | None]] = []
        self.writing: dict[str, list[str]] = {}
        """Tool calls that models have begun to write."""

    def fresh(self) -> str:
        self.count += 1
        return f"x{self.count}"

    def step(self) -> None:
        moves = [self.think]
        moves += [self.token, self.write, self.thought] if self.models else []
        moves += [self.use] if self.wanted else []
        moves += [self.used] if self.idle() else []
        self.draw(st.sampled_from(moves))()

    def idle(self) -> list[str]:
        busy = {*self.models.values(), *(parent for _, parent in self.tools.values())}
        return [call for call in self.tools if f"#{call}" not in busy]

    def think(self) -> None:
        parent = self.draw(st.sampled_from([None, *(f"#{call}" for call in self.tools)]))
        call = self.fresh()
        self.models[call] = parent
        self.story.think(call, parent=parent, node=self.draw(st.sampled_from(["model", "other"])))

    def token(self) -> None:
        call = self.draw(st.sampled_from(list(self.models)))
        kind = self.draw(st.sampled_from(["text", "text", "reasoning"]))
        self.story.token(call, f"{call} ", kind, self.draw(st.integers(0, 1)), self.models[call])

    def write(self) -> None:
        call, tool_call_id = self.draw(st.sampled_from(list(self.models))), self.fresh()
        self.writing.setdefault(call, []).append(tool_call_id)
        self.story.write(call, "t", tool_call_id, '{"n": ', self.models[call])

    def thought(self) -> None:
        call = self.draw(st.sampled_from(list(self.models)))
        parent, status = self.models.pop(call), self.draw(st.sampled_from(["ok", "ok", "ok", "abandoned", "error"]))
        written = self.writing.pop(call, []) if status == "ok" else []
        for tool_call_id in written:
            self.story.write(call, "t", tool_call_id, "1}", parent)
        ids = written + [self.fresh() for _ in range(self.draw(st.integers(0, 2)))] if status == "ok" else []
        self.wanted += [(id_, parent) for id_ in ids if parent is None or parent[1:] in self.tools]
        known, renamed = self.draw(st.booleans()), self.draw(st.booleans())
        named = {"message_id": f"msg_{call}"} if renamed else {}
        self.story.thought(
            call, *(("t", id_, {"n": 1}) for id_ in ids), parent=parent, status=status, known=known, **named
        )

    def use(self) -> None:
        call, parent = self.wanted.pop(self.draw(st.integers(0, len(self.wanted) - 1)))
        if parent is not None and parent[1:] not in self.tools:
            return
        kind = self.draw(st.sampled_from(["tool", "agent", "graph"]))
        self.tools[call] = (kind, parent)
        self.story.use("t", call, {"n": 1}, parent, kind=kind)

    def used(self) -> None:
        call = self.draw(st.sampled_from(self.idle()))
        _, parent = self.tools.pop(call)
        self.story.used("t", call, "done", parent, status=self.draw(st.sampled_from(["ok", "error"])))


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_any_interleaving_of_calls_cut_off_anywhere_can_be_digested(data: st.DataObject) -> None:
    machine = Machine(data.draw)
    for _ in range(data.draw(st.integers(1, 30))):
        machine.step()
    check(recovered(machine.story.checked()))
