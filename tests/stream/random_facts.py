"""Programs for property tests: trees of calls that run side by side, fail, ask, are cut off, and end too early.

A shape is drawn, written as facts, and the facts of its branches are shuffled
into one another, each branch in its own order. Every word is spoken once only,
so that a word that is read twice was doubled on the way.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from hypothesis import strategies as st
from msgspec.structs import replace

from stellwerk.stream.facts import (
    AnswerAccepted,
    CallFailed,
    CallPaused,
    CheckpointSaved,
    CustomEvent,
    Fact,
    Interrupted,
    MessageReturned,
    ModelFinished,
    ModelStarted,
    ModelToken,
    NodeUpdated,
    StepEnded,
    StepStarted,
    ToolAnswered,
    ToolArgsDelta,
    ToolFinished,
    ToolOutputDelta,
    ToolStarted,
)

Shape = dict[str, Any]

_models = st.fixed_dictionaries(
    {
        "is": st.just("model"),
        "words": st.integers(0, 3),
        "thoughts": st.integers(0, 1),
        "writes": st.booleans(),
        "voice": st.sampled_from(["open", "open", "open", "silent", "held"]),
        "end": st.sampled_from(["done", "done", "wants", "failed", "lost"]),
    }
)


def _around(inner: st.SearchStrategy[Shape]) -> st.SearchStrategy[Shape]:
    inside = st.lists(inner, max_size=3)
    tools = st.fixed_dictionaries(
        {
            "is": st.just("tool"),
            "kind": st.sampled_from(["tool", "agent"]),
            "signal": st.sampled_from([None, "research_done"]),
            "end": st.sampled_from(["done", "done", "error", "raised", "answered", "paused", "lost"]),
            "hasty": st.booleans(),
            "inside": inside,
        }
    )
    ends = st.sampled_from(["done", "failed", "paused", "lost"])
    graphs = st.fixed_dictionaries({"is": st.just("graph"), "end": ends, "hasty": st.booleans(), "inside": inside})
    return st.one_of(tools, graphs)


shapes: st.SearchStrategy[list[Shape]] = st.lists(st.recursive(_models, _around, max_leaves=6), min_size=1, max_size=4)
choices = st.lists(st.integers(0, 7), max_size=60)


@dataclass
class _Branch:
    begin: list[Fact]
    end: list[Fact]
    inside: list["_Branch"] = field(default_factory=list)
    hasty: bool = False
    """It ends without waiting for what is inside it."""


@dataclass
class Writer:
    """Writes shapes as facts. ``run`` sets the ids of one run apart from those of another."""

    run: str = ""
    asks: list[tuple[str, str]] = field(default_factory=list)
    """Questions, and where they were asked."""
    _numbers: Iterator[int] = field(default_factory=count)

    def program(self, drawn: Sequence[Shape], order: Sequence[int]) -> list[Fact]:
        facts = list(_shuffled([self._branch(shape, None, "") for shape in drawn], order))
        facts += [Interrupted(0.0, ask_id, {"question": ask_id}, None, space) for ask_id, space in self.asks]
        return [_at(fact, float(number)) for number, fact in enumerate(facts)]

    def _branch(self, shape: Shape, parent: str | None, space: str) -> _Branch:
        match shape["is"]:
            case "model":
                return self._model(shape, parent)
            case "tool":
                return self._tool(shape, parent, space)
            case _:
                return self._graph(shape, parent, space)

    def _model(self, shape: Shape, parent: str | None) -> _Branch:
        n = next(self._numbers)
        run = f"{self.run}m{n}"
        words = [f"word-{self.run}{n}-{w} " for w in range(shape["words"])]
        begin: list[Fact] = [ModelStarted(0.0, run, parent, "gpt", f"agent{n % 3}", "model", voice=shape["voice"])]
        begin += [ModelToken(0.0, run, f"thought-{n}-{t} ", "reasoning") for t in range(shape["thoughts"])]
        begin += [ModelToken(0.0, run, word, block=1) for word in words]
        begin += [ToolArgsDelta(0.0, run, 0, piece, *named) for piece, *named in _call(n)] if shape["writes"] else []
        text, message_id = "".join(words), f"lc_run--{run}"
        wants = [("look", f"wanted-{n}", {"n": n})] if shape["end"] == "wants" else []
        done: list[Fact] = [ModelFinished(0.0, run, message_id, text, "stop", 1, 2, wants)]
        if parent is None:
            done += [AnswerAccepted(0.0, message_id, text)] if shape["voice"] == "held" else []
            done += [MessageReturned(0.0, message_id, text, "boss", bool(wants))]
        ends: dict[str, list[Fact]] = {"failed": [CallFailed(0.0, run, "ValueError", "boom")], "lost": []}
        return _Branch(begin, ends.get(shape["end"], done))

    def _tool(self, shape: Shape, parent: str | None, space: str) -> _Branch:
        n = next(self._numbers)
        run, own = f"{self.run}t{n}", f"{space}|tools:{n}" if space else f"tools:{n}"
        agent = shape["kind"] == "agent"
        begin: list[Fact] = [
            StepStarted(f"{run}-step", parent, "tools", own, "tools"),
            ToolStarted(
                *(0.0, run, f"{run}-step", f"tool{n}", "call_1", own, {"n": n}, "boss", "tools", shape["kind"]),
                title=f"agent{n}" if agent else None,
                signal=shape["signal"] if agent else None,
            ),
            ToolOutputDelta(0.0, run, f"step {n}"),
            CustomEvent(0.0, space, {"progress": n, "tool_call_id": "call_1"}, "call_1"),
            StepStarted(f"{run}-inner", run, None, own, f"agent{n}"),
        ]
        inside = [self._stepped(inner, f"{run}-inner", own) for inner in shape["inside"]]
        # Who asks the user has waited for those inside: they may be the ones who ask.
        hasty = shape["hasty"] and shape["end"] != "paused"
        return _Branch(begin, self._tool_end(shape, n, run, space), inside, hasty)

    def _tool_end(self, shape: Shape, n: int, run: str, space: str) -> list[Fact]:
        over: list[Fact] = [StepEnded(0.0, f"{run}-inner"), StepEnded(0.0, f"{run}-step")]
        match shape["end"]:
            case "done" | "error":
                return [ToolFinished(0.0, run, {"n": n}, shape["end"] == "error"), *over]
            case "raised":
                return [CallFailed(0.0, run, "ValueError", "boom"), *over]
            case "answered":
                return [ToolAnswered(0.0, space, "call_1", "timed out", True), *over]
            case "paused":
                self.asks.append((f"ask-{n}", space))
                return [CallPaused(f"{run}-inner", (f"ask-{n}",)), CallPaused(run, (f"ask-{n}",))]
            case _:
                return []

    def _graph(self, shape: Shape, parent: str | None, space: str) -> _Branch:
        n = next(self._numbers)
        run, own = f"{self.run}g{n}", f"{space}|node:{n}" if space else f"node:{n}"
        begin: list[Fact] = [
            StepStarted(f"{run}-node", parent, "node", own, "node"),
            StepStarted(run, f"{run}-node", None, own, "LangGraph", input={"n": n}),
        ]
        inside = [self._stepped(inner, run, own) for inner in shape["inside"]]
        change = NodeUpdated(0.0, "node", space, {"n": n, "todos": [n]})
        end: list[Fact] = [StepEnded(0.0, run), StepEnded(0.0, f"{run}-node"), change]
        match shape["end"]:
            case "failed":
                end = [StepEnded(0.0, run, "ValueError"), StepEnded(0.0, f"{run}-node", "ValueError")]
            case "paused":
                self.asks.append((f"ask-{n}", own))
                end = [CallPaused(run, (f"ask-{n}",)), CallPaused(f"{run}-node", (f"ask-{n}",))]
            case "lost":
                end = []
        begin.append(CheckpointSaved(0.0, f"saved-{n}", own, "digest"))
        return _Branch(begin, end, inside, shape["hasty"] and shape["end"] != "paused")

    def _stepped(self, shape: Shape, parent: str, space: str) -> _Branch:
        """A step of an inner graph; tools and graphs are steps by themselves."""
        if shape["is"] != "model":
            return self._branch(shape, parent, space)
        n = next(self._numbers)
        step, own = f"{self.run}s{n}", f"{space}|model:{n}"
        begin = StepStarted(step, parent, "model", own, "model")
        return _Branch([begin], [StepEnded(0.0, step)], [self._branch(shape, step, own)])


def _call(n: int) -> list[tuple[str, ...]]:
    """A tool call in the pieces in which a model writes it."""
    return [("", f"wanted-{n}", "look"), ('{"n": ',), (f"{n}}}",)]


def _shuffled(branches: Sequence[_Branch], order: Sequence[int]) -> Iterator[Fact]:
    """Every branch in its own order; which goes on is chosen anew each time."""
    running = [_Cursor(branch) for branch in branches]
    for turn in count():
        ready = [cursor for cursor in running if cursor.ready()]
        if not ready:
            return
        cursor = ready[(order[turn % len(order)] if order else 0) % len(ready)]
        fact, begun = cursor.next()
        yield fact
        running += begun


@dataclass
class _Cursor:
    branch: _Branch
    at: int = 0
    inner: list["_Cursor"] = field(default_factory=list)

    def ready(self) -> bool:
        begun = self.at < len(self.branch.begin)
        return begun or (not self.over() and (self.branch.hasty or all(cursor.over() for cursor in self.inner)))

    def over(self) -> bool:
        return self.at == len(self.branch.begin) + len(self.branch.end)

    def next(self) -> tuple[Fact, list["_Cursor"]]:
        fact = [*self.branch.begin, *self.branch.end][self.at]
        self.at += 1
        if self.at == len(self.branch.begin):
            self.inner = [_Cursor(branch) for branch in self.branch.inside]
            return fact, self.inner
        return fact, []


def _at(fact: Fact, ts: float) -> Fact:
    return fact if isinstance(fact, CallPaused) else replace(fact, ts=ts)
