"""Namespaces: the graph of an event, as LangGraph's clients name it.

Each tool call, agent or graph has a namespace of its own, one segment per
level: ``tools:<tool_call_id>`` for a call of a model, by which clients find the
sub-agent of a tool call; ``<node>:<id>`` for a graph in a node.
"""

import re
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec

from stellwerk.envelope import model as m
from stellwerk.views.values import TASK, Block, DraftMessage, Json, Values, delegated

MODEL, TOOLS, START = "model", "tools", "__start__"
"""Node names of LangChain's agents, for envelopes without a node."""
RECALLED = (
    *("run_start", "run_end", "message", "llm_start", "llm_end", "tool_start", "tool_end"),
    *("ask_user", "user_answer", "state", "update"),
)
"""The types that lead to the state at the start of a trace: all but the pieces of messages, which are most."""
_SEPARATORS = re.compile("[|\x00-\x20\x7f\x85\u2028\u2029]")
"""Characters that end a segment or a line of SSE; ids and names are not trusted."""


@dataclass
class Namespace:
    """A graph: the outermost one, or the inside of a call."""

    path: tuple[str, ...] = ()
    values: Values = field(default_factory=Values)

    @property
    def graph(self) -> "Namespace":
        return self


class Call(Namespace):
    def __init__(self, start: m.ToolStart, around: Namespace) -> None:
        called = start.payload
        kind = (called.node or called.tool_name) if called.kind == "graph" else TOOLS
        segment = _SEPARATORS.sub("_", f"{kind}:{called.tool_call_id}")
        above = around.values
        super().__init__((*around.path, segment), Values(above.model_messages, above.agents, above.recalls))
        self.called = called
        is_task = called.tool_name in above.agents
        self.name = TASK if is_task else called.tool_name
        self.args = delegated(called.tool_name, called.args) if is_task else called.args
        self.around = around
        self.node = called.node or TOOLS
        """Its node in the graph around."""
        self.entered = False
        """Its start was sent."""
        given = [called.args.get(name) for name in ("description", "task")]
        task = next((text for text in given if isinstance(text, str)), None)
        if called.kind == "agent" and task is not None:
            self.values.assign(f"{start.call_id}-task", task)

    @property
    def graph(self) -> Namespace:
        """Its own graph; for a plain tool, the graph that called it."""
        return self.around.graph if self.called.kind == "tool" else self


class Effect(NamedTuple):
    """The effect of an envelope on its graph."""

    envelope: m.Envelope
    namespace: Namespace
    call: Call | None
    """The open call that the envelope belongs to, or that it starts or ends."""
    change: Json | None
    """The change of the state."""
    draft: DraftMessage | None
    """The message of its model call."""
    known: int
    """Blocks of that message before the envelope."""
    block: Block | None
    """The block that grows."""
    streamed: bool
    """A message whose tokens were streamed already, perhaps in another graph."""

    @property
    def node(self) -> str:
        """The node that changed the state."""
        if self.draft is not None:
            return self.draft.node
        match self.envelope:
            case m.Message(payload=said):
                return START if said.role == "user" else said.author or MODEL
            case m.State(payload=changed) | m.Update(payload=changed):
                return changed.node or self.envelope.agent or TOOLS
            case _:
                return START if self.call is None else self.call.node

    def custom(self) -> tuple[str | None, Any] | None:
        """Return name and data for the custom stream; a value that a node wrote has no name."""
        match self.envelope:
            case m.Error(payload=problem) if problem.fatal:
                return None  # the end of the run has it
            case m.Log(payload=logged) if logged.data is not None:
                return None, logged.data
        data = msgspec.to_builtins(self.envelope.payload)
        if not isinstance(self.envelope, m.Log):
            return m.type_of(self.envelope), data
        return None, data["message"] if data.keys() == {"message"} else data


@dataclass
class Namespaces:
    root: Namespace = field(default_factory=Namespace)
    open: dict[str, Call] = field(default_factory=dict)
    """By call, in the order of their starts."""
    _unopened: dict[str, tuple[m.ToolStart, Namespace]] = field(default_factory=dict)
    """Recalled calls inside of which nothing has happened yet."""

    def recall(self, envelope: m.Envelope) -> None:
        """Feed an envelope from before the trace, of the types in ``RECALLED``; of most calls nothing is kept."""
        self.root.values.recalls = True
        if (waiting := self._unopened.pop(envelope.parent_id or "", None)) is not None:  # something happens inside
            self.open[envelope.parent_id or ""] = Call(*waiting)
        namespace = self._place(envelope)
        owner = self.root if isinstance(envelope, m.AskUser | m.Message) else namespace
        owner.values.feed(envelope)
        if isinstance(envelope, m.ToolStart):
            self._unopened[envelope.call_id] = envelope, namespace
        elif isinstance(envelope, m.ToolEnd):
            self._unopened.pop(envelope.call_id, None)
            self.open.pop(envelope.call_id, None)
        self.root.values.recalls = False

    def feed(self, envelope: m.Envelope) -> Effect:
        namespace = self._place(envelope)
        draft = namespace.values.drafts.get(envelope.call_id)
        known = 0 if draft is None else len(draft.blocks)
        owner = self.root if isinstance(envelope, m.AskUser | m.Message) else namespace
        streamed = isinstance(envelope, m.Message) and envelope.payload.message_id in owner.values.model_messages
        change = owner.values.feed(envelope)
        if isinstance(envelope, m.ToolStart):
            self.open[envelope.call_id] = Call(envelope, namespace)
        call = self.open.get(envelope.call_id)
        if isinstance(envelope, m.ToolEnd):
            self.open.pop(envelope.call_id, None)
        return Effect(envelope, namespace, call, change, draft, known, owner.values.touched, streamed)

    def _place(self, envelope: m.Envelope) -> Namespace:
        if isinstance(envelope, m.Update | m.SubgraphCheckpoint):  # of the call itself, or the run
            if (waiting := self._unopened.pop(envelope.call_id, None)) is not None:
                self.open[envelope.call_id] = Call(*waiting)
            return self.open.get(envelope.call_id, self.root)
        namespace = self.open.get(envelope.parent_id or "", self.root)
        return namespace.graph if isinstance(envelope, m.AskUser | m.Document) else namespace
