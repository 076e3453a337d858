"""States: changes of a graph's state, checkpoints, interrupts, and custom events."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, get_args

import msgspec
from msgspec.structs import replace

from stellwerk.envelope.introspection import Blob
from stellwerk.envelope.model import AskUser, Envelope, Log, State, SubgraphCheckpoint, ToolStart, ToolUpdate, Update
from stellwerk.envelope.payloads import Asked, Checkpointed, Level, Logged, StateChanged, ToolUpdated, Updated
from stellwerk.envelope.to_json import PAYLOAD_DEPTH, canonical, clean_text
from stellwerk.ids import digest_id
from stellwerk.spec.approvals import forms_of
from stellwerk.spec.review_requests import ReviewedAction, decision_schema, requested_actions
from stellwerk.stream import facts as f
from stellwerk.stream.calls import CallTree, graph_of
from stellwerk.stream.tool_requests import ToolRequests

STATES = frozenset({"checklist", "plan", "todos", "files"})
"""State keys that have envelopes of their own."""
_LEVELS: tuple[Level, ...] = get_args(Level)
_WORDS = ("message", "text", "status")
_LARGEST = 2**53
"""Larger versions in a state are not versions of ours."""
APPROVAL = "tool_approval"
ELICITATION = "mcp_elicitation"
LONGEST = 2000
"""Characters of data that are shown as text."""
_QUESTION_WORDS = ("question", "message", "prompt", "description", "text")


@dataclass
class States:
    tree: CallTree
    requests: ToolRequests
    asks: dict[str, AskUser] = field(default_factory=dict)
    """Questions of this run that wait for an answer."""
    resumed: bool = False
    """The run goes on after an interrupt: the framework repeats updates of the interrupted step."""
    versions: dict[str, int] = field(default_factory=dict)
    changes: int = 0
    shows_nodes: bool = False
    """It is a graph of the operator: nodes that call nothing are shown as well."""
    callers: set[str] = field(default_factory=set)
    """Nodes of the outermost graph that have called a model, a tool or a graph."""
    _ran: dict[str, list[str]] = field(default_factory=dict)
    """Nodes that started since the last checkpoint of their graph, by its namespace."""
    _saved: set[str] = field(default_factory=set)
    """Graphs that made a step of their own in this run."""

    def step_started(self, fact: f.StepStarted) -> None:
        if fact.node is not None:
            ran = self._ran.setdefault(graph_of(fact.namespace), [])
            if fact.node not in ran:
                ran.append(fact.node)

    def called(self, fact: f.ModelStarted | f.ToolStarted | f.StepStarted) -> None:
        """A call starts inside a node of the outermost graph."""
        step = self.tree.steps.get(fact.parent or "")
        if step is not None:
            self.callers.add(step.namespace.partition("|")[0].partition(":")[0])

    def saved(self, fact: f.CheckpointSaved) -> Iterator[Envelope]:
        self._saved.add(fact.namespace)
        ran = ",".join(self._ran.pop(fact.namespace, ["__start__"]))
        payload = Checkpointed(checkpoint_id=fact.checkpoint_id, node=ran, state_digest=fact.state_digest)
        yield SubgraphCheckpoint(**self._of_graph(fact), payload=payload)

    def _of_graph(self, fact: f.CheckpointSaved) -> dict[str, Any]:
        """Only the outermost graph's checkpoints belong to the run, which resumes from the last."""
        if not fact.namespace:
            return self.tree.root(fact.ts)
        start = self.tree.tools.get(self.tree.call_of(fact.namespace) or "")
        if start is not None:
            return self.tree.in_call(fact.ts, start, start.payload.title)
        owner = self.tree.owner_of(fact.namespace)  # a graph in a node, before its first step
        call_id = digest_id(self.tree.trace_id, fact.namespace, "checkpoints")
        return self.tree.place(fact.ts, owner, call_id, self.tree.agent_of(owner))

    def updated(self, fact: f.NodeUpdated) -> Iterator[Envelope]:
        if fact.repeated and self.resumed and fact.namespace not in self._saved:
            return
        delta = self.tree.canonical(fact.delta)
        rest, named = _split(delta.value)
        is_outermost = not fact.namespace and not fact.node.startswith("__")
        no_calls = self.shows_nodes and is_outermost and fact.node not in self.callers
        if rest or no_calls:
            payload = Updated(
                node=clean_text(fact.node),
                namespace=fact.namespace.split("|") if fact.namespace else [],
                delta=rest,
                no_calls=no_calls,
                sanitized=list(delta.notes) or None,
            )
            start = self.tree.tools.get(self.tree.owner_of(fact.namespace))
            place = self.tree.root(fact.ts)
            if start is not None:
                place = self.tree.in_call(fact.ts, start, start.payload.title)
            yield Update(**place, payload=payload)
        for name, value in named.items():
            yield self._state(fact, name, value)

    def _state(self, fact: f.NodeUpdated, name: str, value: Any) -> Envelope:
        own = value.get("version") if isinstance(value, dict) else None
        version = own if type(own) is int and 0 <= own < _LARGEST else self.versions.get(name, 0) + 1
        self.versions[name] = version
        self.changes += 1
        owner = self.tree.owner_of(fact.namespace)
        call_id = digest_id("state", self.tree.run_id, str(self.changes))
        place = self.tree.place(fact.ts, owner, call_id, self.tree.agent_of(owner))
        changed = StateChanged(
            name=name, version=version, owner=place["agent"], node=clean_text(fact.node), **_change(name, value)
        )
        return State(**place, payload=changed)

    def interrupted(self, fact: f.Interrupted) -> Iterator[Envelope]:
        """Ask once: the innermost graph reports an interrupt first, those around repeat it."""
        ask_id = self.tree.question_id(fact.ask_id)
        known = {ask.payload.interrupt_id or id_ for id_, ask in self.asks.items()}
        if ask_id in known or ask_id in self.tree.given_up:
            return
        parent = self.tree.asked_by.get(ask_id, self.tree.owner_of(fact.namespace))
        paused = self.tree.paused.get(parent)
        agent = paused.payload.title or paused.agent if paused else self.tree.agent_of(parent)
        questions, blobs = questions_of(ask_id, fact)
        self.tree.blobs += blobs
        for question in self._with_calls(parent, questions):
            place = self.tree.place(fact.ts, parent, digest_id("ask", question.ask_id), agent)
            self.asks[question.ask_id] = ask = AskUser(**place, payload=question)
            yield ask

    def _with_calls(self, owner: str, questions: Iterable[Asked]) -> Iterator[Asked]:
        """Name the tool calls that approvals are about: a request for review only has their arguments."""
        named: list[str] = []
        for question in questions:
            if question.kind == "approval" and question.tool_call_id is None:
                found = self.requests.find(owner, question.tool_name or "", question.args)
                fresh = [call_id for call_id in found if call_id not in named]
                named += fresh[:1]
                question = replace(question, tool_call_id=fresh[0] if fresh else None)
            yield question

    def tool_output(self, fact: f.ToolOutputDelta) -> Iterator[Envelope]:
        start = self.tree.calls.get(fact.run)
        if isinstance(start, ToolStart):
            yield self._tool_update(start, fact.ts, fact.data)

    def custom_event(self, fact: f.CustomEvent) -> Iterator[Envelope]:
        if (line := log_line(fact.data)) is not None:
            yield Log(**self.tree.root(fact.ts), payload=line)
            return
        start = self._writer(fact)
        if start is not None:  # a text is a line here; pieces of output come as ToolOutputDelta
            data = f"{fact.data}\n" if isinstance(fact.data, str) else fact.data
            yield self._tool_update(start, fact.ts, data)
            return
        data = self.tree.canonical(fact.data).value
        more = None if isinstance(data, str) else data
        logged = Logged(message=words_of(data, _WORDS)[:LONGEST], data=more, progress=_progress(more))
        yield Log(**self.tree.root(fact.ts), payload=logged)

    def _tool_update(self, start: ToolStart, ts: float, given: Any) -> Envelope:
        data = self.tree.canonical(given).value
        text = data if isinstance(data, str) else None
        update = ToolUpdated(phase="output", text=text, data=None if text is not None else data)
        return ToolUpdate(**self.tree.in_call(ts, start), payload=update)

    def _writer(self, fact: f.CustomEvent) -> ToolStart | None:
        """Find the call that wrote: the named, else the only open one in its graph, else around."""
        if fact.run is not None:
            return self.tree.tools.get(self.tree.owner(fact.run))
        tree = self.tree
        here = [tree.tools[id_] for id_, space in tree.where.items() if graph_of(space) == fact.namespace]
        if fact.tool_call_id is not None:
            here = [call for call in here if call.payload.tool_call_id == fact.tool_call_id]
        return here[0] if len(here) == 1 else tree.tools.get(tree.owner_of(fact.namespace))


def client_change(
    fact: f.NodeUpdated, saved: f.CheckpointSaved, *, trace_id: str | None, version: int
) -> Iterator[Envelope]:
    """A change of the state that a client made while no run was active, and its checkpoint.

    The values have been through the canonicaliser. ``version`` is that of the named states.
    """
    rest, named = _split(fact.delta)
    call_id = digest_id("state change", saved.checkpoint_id)

    def place(seq: int) -> dict[str, Any]:
        return {"ts": fact.ts, "trace_id": trace_id, "parent_id": None, "call_id": call_id, "seq": seq}

    yield Update(**place(1), payload=Updated(node=fact.node, delta=rest, by="user"))
    for seq, (name, value) in enumerate(named.items(), 2):
        changed = StateChanged(name=name, version=version, node=fact.node, **_change(name, value))
        yield State(**place(seq), payload=changed)
    payload = Checkpointed(checkpoint_id=saved.checkpoint_id, node=fact.node, state_digest=saved.state_digest)
    yield SubgraphCheckpoint(**place(len(named) + 2), payload=payload)


def _split(delta: Any) -> tuple[Any, dict[str, Any]]:
    """Separate the named states, which have envelopes of their own, from the rest of a change."""
    if not isinstance(delta, dict):
        return delta, {}
    named = {name: delta[name] for name in sorted(STATES & delta.keys())}
    return {name: value for name, value in delta.items() if name not in named}, named


def _change(name: str, value: Any) -> dict[str, Any]:
    """Deep agents return only the files that they changed; other states come whole."""
    if name != "files" or not isinstance(value, dict) or not all(map(_is_file, value.values())):
        return {"snapshot": value}
    patch: list[dict[str, Any]] = []
    for filename, file in value.items():
        path = "/" + filename.replace("~", "~0").replace("/", "~1")
        if file is None:
            patch.append({"op": "remove", "path": path})
        else:
            patch.append({"op": "add", "path": path, "value": file})
    return {"patch": patch}


def _is_file(value: Any) -> bool:
    """None removes a file."""
    return value is None or (isinstance(value, dict) and "content" in value)


def log_line(data: Any) -> Logged | None:
    """Read a log line: ``{"stellwerk": "log", "message": …, "level": …, "progress": …}``."""
    if not isinstance(data, dict) or data.get("stellwerk") != "log":
        return None
    if not isinstance(data.get("message"), str):
        return None
    level: Level = next((level for level in _LEVELS if level == data.get("level")), "info")
    return Logged(message=clean_text(data["message"])[:LONGEST], level=level, progress=_progress(data))


def _progress(data: Any) -> int | None:
    found = data.get("progress") if isinstance(data, dict) else None
    return found if type(found) is int and 0 <= found <= 100 else None  # True is an int, too


def questions_of(ask_id: str, fact: f.Interrupted) -> tuple[list[Asked], tuple[Blob, ...]]:
    """Return the questions of an interrupt: one, or one for each action that it asks to review."""
    safe = canonical(fact.value, depth=PAYLOAD_DEPTH)
    actions = requested_actions(safe.value)
    if not actions:
        question, blobs = question_of(ask_id, fact)
        return [question], blobs
    notes = list(safe.notes) or None
    if len(actions) == 1:
        return [_approval(ask_id, actions[0], notes)], safe.blobs
    questions = [_approval(f"{ask_id}-{number}", action, notes) for number, action in enumerate(actions, 1)]
    return [replace(question, interrupt_id=ask_id) for question in questions], safe.blobs


def _approval(ask_id: str, action: ReviewedAction, notes: list[str] | None) -> Asked:
    return Asked(
        ask_id=ask_id,
        question=action.question,
        kind="approval",
        schema=decision_schema(action),
        options=list(action.decisions),
        tool_name=action.name,
        args=action.args,
        data=action.request,
        sanitized=notes,
    )


def question_of(ask_id: str, fact: f.Interrupted) -> tuple[Asked, tuple[Blob, ...]]:
    """Return the question, in one form for all of them, and its blobs."""
    safe = canonical(fact.value, depth=PAYLOAD_DEPTH)
    form = canonical(fact.schema, depth=PAYLOAD_DEPTH)
    value = safe.value
    known = value if isinstance(value, dict) else {}
    schema = known.get("schema") or form.value
    question = Asked(
        ask_id=ask_id,
        question=words_of(value, _QUESTION_WORDS),
        kind=_kind(known),
        schema=schema if isinstance(schema, dict) else None,
        options=_options(known, schema),
        default=known.get("default"),
        tool_call_id=_text(known, "tool_call_id"),
        tool_name=_text(known, "name"),
        args=known.get("args"),
        data=None if "question" in known else value,
        sanitized=list(safe.notes) or None,
    )
    return question, safe.blobs + form.blobs


def words_of(value: Any, names: Iterable[str]) -> str:
    """Return the text of a value: itself, else the first of these fields, else its JSON."""
    if isinstance(value, str):
        return value
    known = value if isinstance(value, dict) else {}
    found = next(filter(None, (_text(known, name) for name in names)), None)
    return found or msgspec.json.encode(value).decode()[:LONGEST]


def _text(known: dict[str, Any], name: str) -> str | None:
    found = known.get(name)
    return found if isinstance(found, str) else None


def _options(known: dict[str, Any], schema: Any) -> list[Any] | None:
    """Return the options; for an approval the decisions that are allowed."""
    if isinstance(known.get("options"), list):
        return list(known["options"])
    return list(forms_of(schema)) or None if _kind(known) == "approval" else None


def _kind(value: dict[str, Any]) -> Any:
    return {APPROVAL: "approval", ELICITATION: "elicitation"}.get(str(value.get("type")), "question")
