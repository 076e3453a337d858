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
from stellwerk.envelope.payloads import Logged
from stellwerk.views.values import Block, DraftMessage, Json, Values

MODEL, TOOLS, START = "model", "tools", "__start__"
"""Node names of LangChain's agents, for envelopes without a node."""


def node_of(envelope: m.State | m.Update) -> str:
    """Return the node that changed the state."""
    return envelope.payload.node or envelope.agent or TOOLS


def custom(envelope: m.Document | m.Log | m.Warning | m.Error) -> tuple[str | None, Any] | None:
    """Return name and data for the custom stream; a value that a node wrote has no name."""
    match envelope:
        case m.Log(payload=logged):
            return None, _logged(logged)
        case m.Error(payload=problem) if problem.fatal:
            return None  # the end of the run has it
        case m.Document(payload=filed):
            return "document", msgspec.to_builtins(filed)
        case m.Warning(payload=problem):
            return "warning", msgspec.to_builtins(problem)
        case m.Error(payload=problem):
            return "error", msgspec.to_builtins(problem)


def _logged(logged: Logged) -> Any:
    if logged.data is not None:
        return logged.data
    more = msgspec.to_builtins(logged)
    return logged.message if more.keys() == {"message"} else more


_SEPARATORS = re.compile("[|\x00-\x20\x7f\x85\u2028\u2029]")
"""Characters that end a segment or a line of SSE; ids and names are not trusted."""


@dataclass
class Namespace:
    """The inside of a call, or of the whole session."""

    start: m.ToolStart | None = None
    around: "Namespace | None" = None
    values: Values = field(default_factory=Values)
    entered: bool = False
    """Its start was sent."""

    def __post_init__(self) -> None:
        self.path: tuple[str, ...] = ()
        if self.start is not None and self.around is not None:
            self.path = (*self.around.path, _segment(self.start))
            self.values.model_messages = self.around.values.model_messages

    @property
    def node(self) -> str:
        """Its node in the graph around."""
        return (self.start.payload.node if self.start is not None else None) or TOOLS

    @property
    def graph(self) -> "Namespace":
        """Its own graph; for a plain tool, the graph that called it."""
        plain = self.start is not None and self.start.payload.kind == "tool"
        return self.around.graph if plain and self.around is not None else self


class Effect(NamedTuple):
    """The effect of an envelope on its graph."""

    namespace: Namespace
    change: Json | None
    """The change of its state."""
    draft: DraftMessage | None = None
    """The message of its model call."""
    known: int = 0
    """Blocks of that message before the envelope."""
    block: Block | None = None
    """The block that grows."""
    streamed: bool = False
    """A message whose tokens were streamed already, perhaps in another graph."""


@dataclass
class Namespaces:
    root: Namespace = field(default_factory=Namespace)
    open: dict[str, Namespace] = field(default_factory=dict)
    """By call, in the order of their starts."""

    def feed(self, envelope: m.Envelope) -> Effect:
        namespace = self._place(envelope)
        draft = namespace.values.drafts.get(envelope.call_id)
        known = 0 if draft is None else len(draft.blocks)
        owner = self.root if isinstance(envelope, m.AskUser | m.Message) else namespace
        streamed = isinstance(envelope, m.Message) and envelope.payload.message_id in owner.values.model_messages
        change = owner.values.feed(envelope)
        if isinstance(envelope, m.ToolStart):
            self.open[envelope.call_id] = _inside(envelope, namespace)
        return Effect(namespace, change, draft, known, owner.values.touched, streamed)

    def leave(self, call_id: str) -> Namespace | None:
        """Close the namespace of a call that has ended."""
        return self.open.pop(call_id, None)

    def _place(self, envelope: m.Envelope) -> Namespace:
        if isinstance(envelope, m.Update | m.SubgraphCheckpoint):  # of the call itself, or the run
            return self.open.get(envelope.call_id, self.root)
        namespace = self.open.get(envelope.parent_id or "", self.root)
        return namespace.graph if isinstance(envelope, m.AskUser | m.Document) else namespace


def _inside(start: m.ToolStart, around: Namespace) -> Namespace:
    namespace = Namespace(start, around)
    given = [start.payload.args.get(name) for name in ("description", "task")]
    task = next((text for text in given if isinstance(text, str)), None)
    if start.payload.kind == "agent" and task is not None:
        namespace.values.assign(f"{start.call_id}-task", task)
    return namespace


def _segment(start: m.ToolStart) -> str:
    called = start.payload
    kind = (called.node or called.tool_name) if called.kind == "graph" else TOOLS
    return _SEPARATORS.sub("_", f"{kind}:{called.tool_call_id}")
