"""What a graph says beside its calls: changes of its state, questions to the user, words on its stream."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, get_args

from stellwerk.envelope.canonical import PAYLOAD_DEPTH, canonical, clean_text
from stellwerk.envelope.model import (
    AskUser,
    Envelope,
    Log,
    State,
    SubgraphCheckpoint,
    ToolStart,
    ToolUpdate,
    Update,
)
from stellwerk.envelope.payloads import Checkpointed, Level, Logged, StateChanged, ToolUpdated, Updated
from stellwerk.ids import digest_id
from stellwerk.stream.facts import CheckpointSaved, Emitted, Interrupted, Linked, NodeUpdated, ToolSpoke
from stellwerk.stream.questions import LONGEST, asked, words_of
from stellwerk.stream.tool_calls import ToolCalls
from stellwerk.stream.tree import Tree, graph_of

STATES = frozenset({"checklist", "plan", "todos", "files"})
"""Keys of a state that readers know by name."""
_LEVELS: tuple[Level, ...] = get_args(Level)
_WORDS = ("message", "text", "status")
_LARGEST = 2**53
"""Versions from here on are none of ours."""


@dataclass
class States:
    tree: Tree
    tools: ToolCalls
    asks: dict[str, AskUser] = field(default_factory=dict)
    """Questions of this run that wait for an answer."""
    resumed: bool = False
    """The run goes on where an earlier one asked; what was told then is told again by the framework."""
    _versions: dict[str, int] = field(default_factory=dict)
    _changes: int = 0
    _ran: dict[str, list[str]] = field(default_factory=dict)
    """Nodes that began since the last checkpoint of their graph, by its namespace."""
    _saved: set[str] = field(default_factory=set)
    """Graphs that made a step of their own in this run."""

    def take_up(self, told: State | AskUser) -> None:
        """What an earlier run told, or this one before it was cut off."""
        match told:
            case State(payload=changed):
                self._versions[changed.name] = changed.version
                self._changes += told.run_id == self.tree.run_id
            case AskUser(payload=asked):
                if asked.tool_name and asked.tool_call_id:
                    self.tools.want(told.parent_id, [(asked.tool_name, asked.tool_call_id, asked.args)])
                if told.run_id == self.tree.run_id:  # those of an earlier run are answered
                    self.asks[asked.ask_id] = told

    def step_began(self, fact: Linked) -> None:
        if fact.node is not None:
            ran = self._ran.setdefault(graph_of(fact.namespace), [])
            if fact.node not in ran:
                ran.append(fact.node)

    def saved(self, fact: CheckpointSaved) -> Iterator[Envelope]:
        self._saved.add(fact.namespace)
        ran = ",".join(self._ran.pop(fact.namespace, ["__start__"]))
        payload = Checkpointed(checkpoint_id=fact.checkpoint_id, node=ran, state_digest=fact.state_digest)
        yield SubgraphCheckpoint(**self._of_graph(fact), payload=payload)

    def _of_graph(self, fact: CheckpointSaved) -> dict[str, Any]:
        """Only the outermost graph's checkpoints are the run's own: who goes on from there relies on it."""
        if not fact.namespace:
            return self.tree.root(fact.ts)
        start = self.tree.tools.get(self.tree.call_of(fact.namespace) or "")
        if start is not None:
            return self.tree.place(fact.ts, start.parent_id, start.call_id, start.payload.title or start.agent)
        owner = self.tree.owner_of(fact.namespace)  # a graph in a node, in which nothing has happened yet
        call_id = digest_id(self.tree.trace_id, fact.namespace, "checkpoints")
        return self.tree.place(fact.ts, owner, call_id, self.tree.agent_of(owner))

    def updated(self, fact: NodeUpdated) -> Iterator[Envelope]:
        if fact.repeated and self.resumed and fact.namespace not in self._saved:
            return
        delta = canonical(fact.delta, depth=PAYLOAD_DEPTH)
        self.tree.blobs += delta.blobs
        rest, named = _parted(delta.value)
        if rest:
            payload = Updated(
                node=clean_text(fact.node),
                namespace=fact.namespace.split("|") if fact.namespace else [],
                delta=rest,
                sanitized=list(delta.notes) or None,
            )
            yield Update(**self._inside(fact.ts, fact.namespace), payload=payload)
        for name, value in named.items():
            yield self._state(fact, name, value)

    def _inside(self, ts: float, namespace: str) -> dict[str, Any]:
        """In the call that a graph belongs to; that of the outermost one is the run."""
        start = self.tree.tools.get(self.tree.owner_of(namespace))
        if start is None:
            return self.tree.root(ts)
        return self.tree.place(ts, start.parent_id, start.call_id, start.payload.title or start.agent)

    def _state(self, fact: NodeUpdated, name: str, value: Any) -> Envelope:
        own = value.get("version") if isinstance(value, dict) else None
        version = own if type(own) is int and 0 <= own < _LARGEST else self._versions.get(name, 0) + 1
        self._versions[name] = version
        self._changes += 1
        owner = self.tree.owner_of(fact.namespace)
        call_id = digest_id("state", self.tree.run_id, str(self._changes))
        place = self.tree.place(fact.ts, owner, call_id, self.tree.agent_of(owner))
        who = {"owner": place["agent"], "node": clean_text(fact.node)}
        changed = StateChanged(name=name, version=version, **who, **_change(name, value))
        return State(**place, payload=changed)

    def interrupted(self, fact: Interrupted) -> Iterator[Envelope]:
        """The innermost graph says it first; those around it repeat it."""
        # A breakpoint has no id: there is one at a time, whatever graph it is in.
        ask_id = fact.ask_id or digest_id(self.tree.run_id, "breakpoint")
        if ask_id in self.asks or ask_id in self.tools.given_up:
            return
        parent = self.tools.asked_by.get(ask_id, self.tree.owner_of(fact.namespace))
        paused = self.tools.paused.get(parent)
        agent = paused.payload.title or paused.agent if paused else self.tree.agent_of(parent)
        payload, blobs = asked(ask_id, fact)
        self.tree.blobs += blobs
        ask = AskUser(**self.tree.place(fact.ts, parent, digest_id("ask", ask_id), agent), payload=payload)
        self.asks[ask_id] = ask
        yield ask

    def tool_spoke(self, fact: ToolSpoke) -> Iterator[Envelope]:
        start = self.tree.calls.get(fact.run)
        if isinstance(start, ToolStart):
            yield self._tool_update(start, fact.ts, fact.data)

    def emitted(self, fact: Emitted) -> Iterator[Envelope]:
        if (line := line_in(fact.data)) is not None:
            yield Log(**self.tree.root(fact.ts), payload=line)
            return
        start = self._writer(fact)
        if start is not None:  # a text is a line; pieces of output come by another way
            yield self._tool_update(start, fact.ts, f"{fact.data}\n" if isinstance(fact.data, str) else fact.data)
            return
        data = canonical(fact.data, depth=PAYLOAD_DEPTH)
        self.tree.blobs += data.blobs
        more = None if isinstance(data.value, str) else data.value
        told = Logged(message=words_of(data.value, _WORDS)[:LONGEST], data=more, progress=_progress(more))
        yield Log(**self.tree.root(fact.ts), payload=told)

    def _tool_update(self, start: ToolStart, ts: float, given: Any) -> Envelope:
        data = canonical(given, depth=PAYLOAD_DEPTH)
        self.tree.blobs += data.blobs
        text = data.value if isinstance(data.value, str) else None
        update = ToolUpdated(phase="output", text=text, data=None if text is not None else data.value)
        return ToolUpdate(**self.tree.place(ts, start.parent_id, start.call_id, start.agent), payload=update)

    def _writer(self, fact: Emitted) -> ToolStart | None:
        """The call that wrote: the one that is named, or the only one that is open there; else the one around."""
        if fact.run is not None:
            return self.tree.tools.get(self.tree.owner(fact.run))
        here = [self.tree.tools[id_] for id_, space in self.tree.where.items() if graph_of(space) == fact.namespace]
        if fact.tool_call_id is not None:
            here = [call for call in here if call.payload.tool_call_id == fact.tool_call_id]
        return here[0] if len(here) == 1 else self.tree.tools.get(self.tree.owner_of(fact.namespace))


def _parted(delta: Any) -> tuple[Any, dict[str, Any]]:
    """What of a change is told as an update, and the states that have envelopes of their own."""
    if not isinstance(delta, dict):
        return delta, {}
    named = {name: delta[name] for name in sorted(STATES & delta.keys())}
    return {name: value for name, value in delta.items() if name not in named}, named


def _change(name: str, value: Any) -> dict[str, Any]:
    """Deep agents give those files that they changed, and of all other states the whole."""
    deep = name == "files" and isinstance(value, dict)
    if not deep or not all(file is None or (isinstance(file, dict) and "content" in file) for file in value.values()):
        return {"snapshot": value}
    paths = {file: "/" + file.replace("~", "~0").replace("/", "~1") for file in value}
    return {
        "patch": [
            {"op": "remove", "path": path} if value[file] is None else {"op": "add", "path": path, "value": value[file]}
            for file, path in paths.items()
        ]
    }


def line_in(data: Any) -> Logged | None:
    """A line of the log, if a graph wrote one: ``{"stellwerk": "log", "message": …, "level": …, "progress": …}``."""
    if not isinstance(data, dict) or data.get("stellwerk") != "log" or not isinstance(data.get("message"), str):
        return None
    level: Level = next((level for level in _LEVELS if level == data.get("level")), "info")
    return Logged(message=clean_text(data["message"])[:LONGEST], level=level, progress=_progress(data))


def _progress(data: Any) -> int | None:
    found = data.get("progress") if isinstance(data, dict) else None
    return found if type(found) is int and 0 <= found <= 100 else None  # True is an int, too, and not stored as one
