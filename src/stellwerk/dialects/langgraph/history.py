"""The history of a thread: its checkpoints with their values, next nodes and tasks, as LangGraph's clients read them.

Folded from the log alone, so it has the ids of messages that the streams have, and needs no graph.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Literal

from stellwerk.dialects.langgraph.namespaces import MODEL, RECALLED, START, TOOLS, Call, Effect, Namespace, Namespaces
from stellwerk.envelope import model as m
from stellwerk.envelope.payloads import RunEnded, RunStarted
from stellwerk.views.status import SAME_TRACE
from stellwerk.views.values import Json, Values

HISTORY_RECALLS = (*RECALLED, "subgraph_checkpoint")


@dataclass
class Checkpoint:
    """A checkpoint of the outermost graph."""

    checkpoint_id: str
    parent_id: str | None
    run_id: str | None
    ts: float
    step: int
    source: Literal["input", "loop", "update"]
    values: Json
    next: tuple[str, ...] = ()
    interrupts: list[tuple[str, Json]] = field(default_factory=list)
    """Open questions when its run ended, with the nodes that asked."""
    error: str | None = None
    """Why the run failed that ended here."""


@dataclass
class ThreadHistory:
    agents: frozenset[str] = frozenset()
    """Names of sub-agents that are called by their own names."""
    is_whole: bool = True
    """Nothing of the session is left out."""
    checkpoints: list[Checkpoint] = field(default_factory=list)
    """From the first envelope that was fed, oldest first."""
    _namespaces: Namespaces = field(init=False)
    _last_id: str | None = None
    _step: int = -2
    _round: list[str] = field(default_factory=list)
    """The checkpoints of the newest round."""
    _rounds: dict[str, list[str]] = field(default_factory=dict)
    """By run."""
    _runs: bool = False
    _input: str | None = None
    """The message of a run that has no checkpoint yet."""
    _node: str | None = None
    """The node that started last."""
    _asking: dict[str, str] = field(default_factory=dict)
    """The node that asked, by interrupt."""
    _streamed: set[str] = field(default_factory=set)
    """Messages of model calls since the last checkpoint."""

    def __post_init__(self) -> None:
        self._namespaces = Namespaces(Namespace(values=Values(agents=self.agents)))

    @property
    def values(self) -> Json:
        """The state now, also in the middle of a run."""
        return self._namespaces.root.values.snapshot()

    @property
    def latest(self) -> Checkpoint | None:
        """The newest checkpoint; in the middle of a run with the node that is under way."""
        if not self.checkpoints:
            return None
        last = self.checkpoints[-1]
        return replace(last, next=(self._node or MODEL,)) if self._runs and not last.next else last

    @property
    def interrupts(self) -> list[Json]:
        return self._namespaces.root.values.interrupts

    def recall(self, envelopes: Iterable[m.Envelope]) -> None:
        """Feed what was before the first checkpoint that is wanted, of the types in ``HISTORY_RECALLS``."""
        for envelope in envelopes:
            self._namespaces.recall(envelope)
            match envelope:
                case m.RunStart(payload=started):
                    self._starts(envelope, started)
                case m.SubgraphCheckpoint(parent_id=None, payload=saved):
                    self._take_id(saved.checkpoint_id)

    def feed(self, envelope: m.Envelope) -> None:
        effect = self._namespaces.feed(envelope)
        match envelope:
            case m.RunStart(payload=started):
                self._starts(envelope, started)
            case m.RunEnd(payload=ended):
                self._ends(ended)
            case m.SubgraphCheckpoint(parent_id=None):
                self._saved(envelope)
            case m.LlmStart(payload=called) if effect.namespace is self._namespaces.root:
                self._node = called.node or MODEL
            case m.ToolStart(payload=called) if effect.namespace is self._namespaces.root:
                self._node = called.node or TOOLS
            case m.LlmEnd(payload=ended_call):
                self._streamed.add(ended_call.message_id)
            case m.AskUser(payload=asked):
                self._asking[asked.interrupt_id or asked.ask_id] = self._asking_node(envelope)
            case m.Message(payload=said) if said.role != "user" and said.message_id not in self._streamed:
                self._take_values(effect)

    def _starts(self, envelope: m.RunStart, started: RunStarted) -> None:
        """A round that replaces another branches off where clients ask for it: see ``_branching``."""
        self._runs = True
        if started.trigger in SAME_TRACE:
            self._rounds[envelope.call_id] = self._round
            return
        if replaced := self._rounds.get(started.replaces or ""):
            self._last_id = _branching(replaced, started)
        self._round = self._rounds[envelope.call_id] = []
        self._input, self._node = started.message_id, None
        self._asking.clear()

    def _saved(self, envelope: m.SubgraphCheckpoint) -> None:
        """A checkpoint says which nodes ran since the one before it, which knew them as the next ones."""
        nodes = tuple(envelope.payload.node.split(","))
        values = self.values
        is_input = self._input is not None and nodes == (START,)
        if is_input:
            values["messages"] = [message for message in values["messages"] if message["id"] != self._input]
        elif self.checkpoints and envelope.run_id is not None:
            self.checkpoints[-1].next = nodes
        parent_id = self._take_id(envelope.payload.checkpoint_id)
        saved = Checkpoint(
            checkpoint_id=envelope.payload.checkpoint_id,
            parent_id=parent_id,
            run_id=envelope.run_id,
            ts=envelope.ts,
            step=self._step,
            source="input" if is_input else "update" if envelope.run_id is None else "loop",
            values=values,
        )
        if envelope.run_id is None and self.checkpoints:  # what was asked is still open
            before = self.checkpoints[-1]
            saved.next, saved.interrupts = before.next, list(before.interrupts)
        self.checkpoints.append(saved)
        self._input = None
        self._streamed.clear()

    def _take_id(self, checkpoint_id: str) -> str | None:
        """The parent of a checkpoint, which is the newest now."""
        parent_id, self._last_id = self._last_id, checkpoint_id
        self._round.append(checkpoint_id)
        self._step += 1
        return parent_id

    def _ends(self, ended: RunEnded) -> None:
        self._runs = False
        if not self.checkpoints or self._input is not None:
            return
        last = self.checkpoints[-1]
        last.values, last.next = self.values, ()
        match ended.status:
            case "awaiting_user":
                asked = [(self._asking.get(each["id"], TOOLS), each) for each in self.interrupts]
                last.interrupts, last.next = asked, tuple(dict.fromkeys(node for node, _ in asked))
            case "failed":
                last.error = ended.reason or ended.code or "the run failed"
                last.next = (self._node or MODEL,)

    def _take_values(self, effect: Effect) -> None:
        """A node's own message is recorded after the checkpoint that has it."""
        if effect.change is not None and self.checkpoints and self._input is None:
            self.checkpoints[-1].values = self.values

    def _asking_node(self, envelope: m.AskUser) -> str:
        call = self._namespaces.open.get(envelope.parent_id or "")
        while call is not None and isinstance(call.around, Call):
            call = call.around
        if call is not None:
            return call.node
        return TOOLS if envelope.payload.tool_call_id is not None else self._node or MODEL


def _branching(replaced: list[str], started: RunStarted) -> str:
    """The checkpoint of a replaced round at which the new one branches off.

    A client edits a message at the first one, which is before the message, and regenerates an answer at
    the one before the answer. It shows the newest branch below the checkpoint that it submitted.
    """
    return replaced[0] if started.trigger == "message" else replaced[-2:][0]
