"""What a graph says beside its calls: changes of its state, questions to the user, words on its stream."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec

from stellwerk.envelope.canonical import PAYLOAD_DEPTH, canonical, clean_text
from stellwerk.envelope.model import AskUser, Envelope, Log, State, SubgraphCheckpoint, ToolStart, ToolUpdate, Update
from stellwerk.envelope.payloads import Checkpointed, Logged, StateChanged, ToolUpdated, Updated
from stellwerk.ids import digest_id
from stellwerk.stream.facts import CheckpointSaved, Emitted, Interrupted, Linked, NodeUpdated
from stellwerk.stream.questions import asked
from stellwerk.stream.tool_calls import ToolCalls
from stellwerk.stream.tree import Tree, graph_of

STATES = frozenset({"checklist", "plan", "todos", "files"})
"""Keys of a state that readers know by name."""
_LINE = 2000
"""Characters of data on the stream that are shown as text."""


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

    def step_began(self, fact: Linked) -> None:
        if fact.node is not None:
            ran = self._ran.setdefault(graph_of(fact.namespace), [])
            if fact.node not in ran:
                ran.append(fact.node)

    def saved(self, fact: CheckpointSaved) -> Iterator[Envelope]:
        self._saved.add(fact.namespace)
        ran = ",".join(self._ran.pop(fact.namespace, ["__start__"]))
        payload = Checkpointed(checkpoint_id=fact.checkpoint_id, node=ran, state_digest=fact.state_digest)
        yield SubgraphCheckpoint(**self.tree.root(fact.ts), payload=payload)

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
            yield Update(**self.tree.root(fact.ts), payload=payload)
        for name, value in named.items():
            yield self._state(fact, name, value)

    def _state(self, fact: NodeUpdated, name: str, value: Any) -> Envelope:
        own = value.get("version") if isinstance(value, dict) else None
        version = own if isinstance(own, int) else self._versions.get(name, 0) + 1
        self._versions[name] = version
        self._changes += 1
        owner = self.tree.owner_of(fact.namespace)
        started = self.tree.started(owner)
        agent = (started.payload.title or started.agent) if started else None
        place = self.tree.place(fact.ts, owner, digest_id("state", self.tree.run_id, str(self._changes)), agent)
        changed = StateChanged(name=name, version=version, owner=place["agent"], **_change(name, value))
        return State(**place, payload=changed)

    def interrupted(self, fact: Interrupted) -> Iterator[Envelope]:
        """The innermost graph says it first; those around it repeat it."""
        if fact.ask_id in self.asks:
            return
        parent = self.tools.asked_by.get(fact.ask_id, self.tree.owner_of(fact.namespace))
        call_id = digest_id("ask", fact.ask_id)
        ask = AskUser(**self.tree.place(fact.ts, parent, call_id, None), payload=asked(fact))
        self.asks[fact.ask_id] = ask
        yield ask

    def emitted(self, fact: Emitted) -> Iterator[Envelope]:
        data = canonical(fact.data, depth=PAYLOAD_DEPTH)
        self.tree.blobs += data.blobs
        text = data.value if isinstance(data.value, str) else None
        start = self._writer(fact)
        if start is not None:
            update = ToolUpdated(phase="output", text=text, data=None if text is not None else data.value)
            yield ToolUpdate(**self.tree.place(fact.ts, start.parent_id, start.call_id, start.agent), payload=update)
            return
        line = text if text is not None else msgspec.json.encode(data.value).decode()
        more = None if text is not None else data.value
        told = Logged(message=line[:_LINE], data=more, progress=_progress(more))
        yield Log(**self.tree.root(fact.ts), payload=told)

    def _writer(self, fact: Emitted) -> ToolStart | None:
        """The call that wrote: the one that is named, the only one that is open there, or the one around."""
        open_here = [
            call
            for space, call_id in self.tree.spaces.items()
            if graph_of(space) == fact.namespace and (call := self.tree.started(call_id)) is not None
        ]
        named = [call for call in open_here if call.payload.tool_call_id == fact.tool_call_id]
        found = named or open_here
        return found[0] if len(found) == 1 else self.tree.started(self.tree.owner_of(fact.namespace))


def _parted(delta: Any) -> tuple[Any, dict[str, Any]]:
    """What of a change is told as an update, and the states that have envelopes of their own."""
    if not isinstance(delta, dict):
        return delta, {}
    named = {name: delta[name] for name in sorted(STATES & delta.keys())}
    return {name: value for name, value in delta.items() if name not in named}, named


def _change(name: str, value: Any) -> dict[str, Any]:
    """A node gives those files that it changed, and of all other states the whole."""
    if name != "files" or not isinstance(value, dict):
        return {"snapshot": value}
    paths = {file: "/" + file.replace("~", "~0").replace("/", "~1") for file in value}
    return {
        "patch": [
            {"op": "remove", "path": path} if value[file] is None else {"op": "add", "path": path, "value": value[file]}
            for file, path in paths.items()
        ]
    }


def _progress(data: Any) -> int | None:
    found = data.get("progress") if isinstance(data, dict) else None
    return found if isinstance(found, int) and 0 <= found <= 100 else None
