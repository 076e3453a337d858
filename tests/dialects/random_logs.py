"""Logs that nobody wrote by hand: any interleaving of calls, and what recovery makes of a log that was cut off."""

from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

from stellwerk.envelope.model import Envelope, RunEnd
from stellwerk.stream.endings import interrupted_ending
from stellwerk.testing.order import order_problems
from tests.dialects.sample_logs import Story


def recovered(log: Sequence[Envelope]) -> list[Envelope]:
    """The log after its server ended there and another one took over."""
    last = log[-1]
    if isinstance(last, RunEnd):
        return list(log)
    whole = [*log, *interrupted_ending(log, run_id=last.run_id or "", ts=last.ts)]
    assert order_problems(whole) == []
    return whole


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
        renamed = self.draw(st.booleans())
        named = {"message_id": f"msg_{call}"} if renamed else {}
        self.story.thought(call, *(("t", id_, {"n": 1}) for id_ in ids), parent=parent, status=status, **named)

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
