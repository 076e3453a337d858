"""The tree of calls of one run: which call is open, to which another belongs, where in the graphs it stands."""

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
    calls: dict[str, CallStart] = field(default_factory=dict)
    """Open calls, by the framework's id."""
    spaces: dict[str, str] = field(default_factory=dict)
    """The call that every nested graph belongs to, by the graph's namespace."""
    blobs: list[Blob] = field(default_factory=list)
    """What was too large for an envelope, or bytes; to be stored before the envelopes are."""

    def __post_init__(self) -> None:
        self.runs.add(self.run_id)

    def owner(self, run: str | None) -> str:
        """The nearest call around: a tool, agent or graph that is open, else the run itself."""
        while run is not None:
            call = self.calls.get(run)
            if isinstance(call, ToolStart):
                return call.call_id
            step = self.steps.get(run)
            run = step.parent if step else None
        return self.run_id

    def owner_of(self, namespace: str) -> str:
        """The call that a graph belongs to, by its namespace."""
        while namespace:
            if namespace in self.spaces:
                return self.spaces[namespace]
            namespace, _, _ = namespace.rpartition("|")
        return self.run_id

    def started(self, call_id: str) -> ToolStart | None:
        return next((c for c in self.calls.values() if c.call_id == call_id and isinstance(c, ToolStart)), None)

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


def cleaned(text: str | None) -> str | None:
    return None if text is None else clean_text(text)
