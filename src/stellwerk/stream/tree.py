"""The tree of calls of one run: which call is open, to which another belongs, where in the graphs it stands."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from stellwerk.envelope.canonical import clean_text
from stellwerk.envelope.model import CallStart, ToolStart
from stellwerk.envelope.shapes import Blob
from stellwerk.stream.facts import Linked


@dataclass
class Tree:
    trace_id: str
    run_id: str
    agent: str
    """The name of the outermost agent."""
    runs: set[str] = field(default_factory=set)
    """The runs of the trace, this one and those before it."""
    steps: dict[str, Linked] = field(default_factory=dict)
    """Steps of graphs that are under way, by the framework's id."""
    calls: dict[str, CallStart] = field(default_factory=dict)
    """Open calls, by the framework's id, those around before those inside."""
    tools: dict[str, ToolStart] = field(default_factory=dict)
    """Open tools, agents and graphs, by call_id."""
    where: dict[str, str] = field(default_factory=dict)
    """In which task each of them runs."""
    blobs: list[Blob] = field(default_factory=list)
    """What was too large for an envelope, or bytes; to be stored before the envelopes are."""
    _run_of: dict[str, str] = field(default_factory=dict)
    _owners: dict[str, str] = field(default_factory=dict)
    """The call that each nested graph belongs to, by the graph's namespace."""
    _graphs: dict[str, list[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.runs.add(self.run_id)

    def open(self, run: str, start: CallStart, namespace: str = "") -> None:
        self.calls[run] = start
        if isinstance(start, ToolStart):
            self.tools[start.call_id], self.where[start.call_id] = start, namespace
            self._run_of[start.call_id] = run

    def close(self, run: str) -> CallStart | None:
        call = self.calls.pop(run, None)
        if isinstance(call, ToolStart):
            self.tools.pop(call.call_id, None)
            self.where.pop(call.call_id, None)
            self._run_of.pop(call.call_id, None)
            for namespace in self._graphs.pop(call.call_id, ()):
                self._owners.pop(namespace, None)
        return call

    def close_tool(self, call_id: str) -> ToolStart | None:
        run = self._run_of.get(call_id)
        call = None if run is None else self.close(run)
        return call if isinstance(call, ToolStart) else None

    def inside(self, call_id: str, paused: Iterable[ToolStart]) -> list[tuple[str | None, CallStart]]:
        """What is open or paused inside a call, with the framework's id of those that run, innermost first."""
        left: list[tuple[str | None, CallStart]] = [*self.calls.items(), *((None, call) for call in paused)]
        around, found = {call_id}, []
        while inner := [(run, call) for run, call in left if call.parent_id in around]:
            around = {call.call_id for _, call in inner}
            found += inner
        return found[::-1]

    def claim(self, graph: str, owner: str) -> None:
        """A nested graph belongs to the call around it."""
        if graph and graph not in self._owners and owner in self.tools:
            self._owners[graph] = owner
            self._graphs.setdefault(owner, []).append(graph)

    def owner(self, run: str | None) -> str:
        """The nearest call around: a tool, agent or graph that is open, else the run itself."""
        for _ in range(len(self.steps) + 1):  # a recording may have steps that stand in a circle
            if run is None:
                break
            call = self.calls.get(run)
            if isinstance(call, ToolStart):
                return call.call_id
            step = self.steps.get(run)
            run = step.parent if step else None
        return self.run_id

    def owner_of(self, namespace: str) -> str:
        """The call that a graph belongs to, by its namespace."""
        while namespace:
            if namespace in self._owners:
                return self._owners[namespace]
            namespace = graph_of(namespace)
        return self.run_id

    def call_of(self, graph: str) -> str | None:
        """The call that runs a nested graph, also before anything happened in it; None if it has no call yet."""
        if graph in self._owners:
            return self._owners[graph]
        return next((call_id for call_id, task in self.where.items() if task == graph), None)

    def agent_of(self, owner: str | None) -> str | None:
        """The name of the agent that a call stands for; None for a run and for tools that are none."""
        start = self.tools.get(owner or "")
        return start.payload.title if start else None

    def place(self, ts: float, parent: str | None, call_id: str, agent: str | None) -> dict[str, Any]:
        return {
            "ts": ts,
            "trace_id": self.trace_id,
            "run_id": self.run_id,
            "parent_id": parent,
            "call_id": call_id,
            "seq": 0,
            "agent": clean_text(agent or self.agent),
        }

    def root(self, ts: float) -> dict[str, Any]:
        return self.place(ts, None, self.run_id, None)


def graph_of(namespace: str) -> str:
    """The namespace of the graph in which a task stands."""
    above, _, _ = namespace.rpartition("|")
    return above


def cleaned(text: object) -> str | None:
    return None if text is None else clean_text(text if isinstance(text, str) else str(text))
