"""Calls of a run: the call tree of a running adapter, and the open calls of a log.

``CallTree`` has the open, paused and held calls of one run, their parents, and their
namespaces in the graphs. ``OpenCalls`` is a fold that counts ``seq`` per call and closes
the calls that are left open: the runner, a stop and crash recovery all close by it.
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

from msgspec.structs import replace

from stellwerk.envelope.introspection import Blob
from stellwerk.envelope.model import CallStart, Envelope, LlmEnd, LlmStart, RunEnd, ToolEnd, ToolStart
from stellwerk.envelope.payloads import ModelEnded, Payload, ToolEnded
from stellwerk.envelope.to_json import PAYLOAD_DEPTH, Canonical, canonical, clean_text
from stellwerk.ids import digest_id
from stellwerk.stream.facts import StepStarted, Voice

T = TypeVar("T")


@dataclass
class CallTree:
    trace_id: str
    run_id: str
    agent: str
    """The name of the outermost agent."""
    runs: set[str] = field(default_factory=set)
    """The runs of the trace: this one and the earlier ones."""
    steps: dict[str, StepStarted] = field(default_factory=dict)
    """Running steps of graphs, by the framework's id."""
    calls: dict[str, CallStart] = field(default_factory=dict)
    """Open calls, by the framework's id, outer calls before inner ones."""
    tools: dict[str, ToolStart] = field(default_factory=dict)
    """Open tools, agents and graphs, by call_id."""
    where: dict[str, str] = field(default_factory=dict)
    """The task that runs each of them."""
    paused: dict[str, ToolStart] = field(default_factory=dict)
    """Calls on the path to a question of this run."""
    asked_by: dict[str, str] = field(default_factory=dict)
    """The innermost call that asked each question."""
    given_up: set[str] = field(default_factory=set)
    """Questions whose caller went on without the answer."""
    voices: dict[str, Voice] = field(default_factory=dict)
    """Model calls that are not streamed, by the framework's id."""
    held: dict[str, tuple[LlmStart, LlmEnd]] = field(default_factory=dict)
    """Finished model calls whose answer is not accepted yet, by message id."""
    blobs: list[Blob] = field(default_factory=list)
    """Bytes and values too large for an envelope; stored before the envelopes are."""
    _run_of: dict[str, str] = field(default_factory=dict)
    _owners: dict[str, str] = field(default_factory=dict)
    """The call that each nested graph belongs to, by the graph's namespace."""
    _graphs: dict[str, list[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.runs.add(self.run_id)

    def question_id(self, given: str) -> str:
        """Breakpoints and NodeInterrupts have no id; a run asks one of them at a time."""
        return given or digest_id(self.run_id, "breakpoint")

    def open(self, run: str, start: CallStart, namespace: str = "") -> None:
        self.calls[run] = start
        if isinstance(start, ToolStart):
            self.tools[start.call_id] = start
            self.where[start.call_id] = namespace
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

    def close_tool(self, call_id: str) -> None:
        self.close(self._run_of.get(call_id, ""))

    def inside(self, call_id: str, waiting: Iterable[ToolStart]) -> list[tuple[str | None, CallStart]]:
        """List open (with run), paused and ``waiting`` calls inside a call, innermost first."""
        left: list[tuple[str | None, CallStart]] = [*self.calls.items()]
        left += [(None, call) for call in (*self.paused.values(), *waiting)]
        around = {call_id}
        found: list[tuple[str | None, CallStart]] = []
        while inner := [(run, call) for run, call in left if call.parent_id in around]:
            around = {call.call_id for _, call in inner}
            found += inner
        return found[::-1]

    def waiting_for_user(self) -> set[str]:
        """Return the calls that asked and all calls around them, reported or not."""
        found = set(self.paused)
        around = [start.parent_id or "" for start in self.paused.values()]
        while around:
            if (call := self.tools.get(around.pop())) is not None:
                found.add(call.call_id)
                around.append(call.parent_id or "")
        return found

    def abandon_held(self, ts: float, owner: str | None = None) -> Iterator[Envelope]:
        """Record held model calls, of one owner or all, as abandoned: they cost tokens."""
        for message_id, (start, end) in list(self.held.items()):
            if owner is None or start.parent_id == owner:
                del self.held[message_id]
                yield replace(start, ts=ts)
                yield replace(end, ts=ts, payload=replace(end.payload, status="abandoned"))

    def claim(self, graph: str, owner: str) -> None:
        """Assign a nested graph to the call around it."""
        if graph and graph not in self._owners and owner in self.tools:
            self._owners[graph] = owner
            self._graphs.setdefault(owner, []).append(graph)

    def owner(self, run: str | None) -> str:
        """Return the nearest open tool, agent or graph around a step, else the run itself."""
        for _ in range(len(self.steps) + 1):  # the parents in a recording may form a circle
            if run is None:
                break
            call = self.calls.get(run)
            if isinstance(call, ToolStart):
                return call.call_id
            step = self.steps.get(run)
            run = step.parent if step else None
        return self.run_id

    def owner_of(self, namespace: str) -> str:
        """Return the call that a graph belongs to, by its namespace."""
        while namespace:
            if namespace in self._owners:
                return self._owners[namespace]
            namespace = graph_of(namespace)
        return self.run_id

    def call_of(self, graph: str) -> str | None:
        """Return the call that runs a nested graph, even before its first step, if there is one."""
        if graph in self._owners:
            return self._owners[graph]
        return next((call_id for call_id, task in self.where.items() if task == graph), None)

    def agent_of(self, owner: str | None) -> str | None:
        """Return the name of the agent that a call runs; None for a run and for plain tools."""
        start = self.tools.get(owner or "")
        return start.payload.title if start else None

    def canonical(self, value: object) -> Canonical:
        """Convert a value to JSON for a payload, and keep its blobs."""
        safe = canonical(value, depth=PAYLOAD_DEPTH)
        self.blobs += safe.blobs
        return safe

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

    def in_call(self, ts: float, start: CallStart, agent: str | None = None) -> dict[str, Any]:
        return self.place(ts, start.parent_id, start.call_id, agent or start.agent)

    def root(self, ts: float) -> dict[str, Any]:
        return self.place(ts, None, self.run_id, None)


def graph_of(namespace: str) -> str:
    """Return the namespace of the graph that runs a task."""
    above, _, _ = namespace.rpartition("|")
    return above


def is_below(namespace: str, task: str) -> bool:
    """Whether a namespace is inside a task; a graph that keeps its state between runs omits ids of tasks."""
    lasting = "|".join(segment.partition(":")[0] for segment in task.split("|"))
    return namespace.startswith((f"{task}|", f"{lasting}|"))


def cleaned(text: object) -> str | None:
    return None if text is None else clean_text(text if isinstance(text, str) else str(text))


@dataclass
class OpenCalls:
    _seqs: dict[str, int] = field(default_factory=dict)
    _open: dict[str, CallStart] = field(default_factory=dict)

    def feed(self, envelope: Envelope) -> None:
        """Follow an envelope that is in the log, or is about to be."""
        match envelope:
            case LlmStart() | ToolStart():
                self._open[envelope.call_id] = envelope
            case LlmEnd() | ToolEnd():
                self._open.pop(envelope.call_id, None)
                self._seqs.pop(envelope.call_id, None)
                return
            case RunEnd():
                self._seqs.pop(envelope.call_id, None)
                return
        self._seqs[envelope.call_id] = envelope.seq

    def stamp(self, envelope: Envelope) -> Envelope:
        """Give the envelope its ``seq`` within its call."""
        stamped = replace(envelope, seq=self._seqs.get(envelope.call_id, 0) + 1)
        self.feed(stamped)
        return stamped

    def unstamp(self, envelope: Envelope) -> None:
        """Take back the latest ``seq`` of a call: its envelope will not be stored."""
        self._seqs[envelope.call_id] = envelope.seq - 1

    def open_tools(self) -> list[ToolStart]:
        """Return the tools, agents and graphs that have started and not ended."""
        return [start for start in self._open.values() if isinstance(start, ToolStart)]

    def closing(self, *, ts: float, run_id: str, but: Collection[str] = ()) -> Iterator[Envelope]:
        """Yield ends for all open calls, innermost first, as abandoned; stamp them like others.

        Calls named in ``but`` stay open: they wait for the user, or resume in a later run.
        """
        for start in reversed(list(self._open.values())):
            if start.call_id not in but:
                yield abandoned(start, ts, run_id)


def abandoned(start: CallStart, ts: float, run_id: str) -> Envelope:
    """Build the end of an interrupted call; it never claims success."""
    if isinstance(start, LlmStart):
        message_id = start.payload.message_id
        model_ended = ModelEnded(message_id=message_id, status="abandoned", synthesized=True)
        return replace(during(start, ts, LlmEnd, model_ended), run_id=run_id)
    called = start.payload
    tool_ended = ToolEnded(
        tool_name=called.tool_name, tool_call_id=called.tool_call_id, status="abandoned", synthesized=True
    )
    return replace(during(start, ts, ToolEnd, tool_ended), run_id=run_id)


def during(start: CallStart, ts: float, kind: Callable[..., T], payload: Payload) -> T:
    """Build an envelope by keyword, once per token: a dictionary takes three times as long."""
    return kind(
        ts=ts,
        trace_id=start.trace_id,
        run_id=start.run_id,
        parent_id=start.parent_id,
        call_id=start.call_id,
        seq=0,
        agent=start.agent,
        payload=payload,
    )
