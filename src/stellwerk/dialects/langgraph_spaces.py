"""Spaces: in which graph something happened, and how LangGraph's clients name that place.

Everything inside a tool call, agent or graph is in a namespace of its own, one
segment per level: ``tools:<tool_call_id>`` for what a model called, by which
clients find the sub-agent of a tool call; ``<node>:<id>`` for a graph in a node.
"""

import re
from dataclasses import dataclass, field
from typing import NamedTuple

from stellwerk.dialects.langgraph_words import TOOLS
from stellwerk.envelope.model import (
    AskUser,
    Document,
    Envelope,
    Message,
    SubgraphCheckpoint,
    ToolStart,
    Update,
)
from stellwerk.views.speech import Block, Json, Speech
from stellwerk.views.values import Values

_SEPARATORS = re.compile("[|\x00-\x20\x7f\x85\u2028\u2029]")
"""What would end a segment, or the line it stands in; ids and names come from strangers."""


@dataclass
class Space:
    """The inside of a call, or of the whole session."""

    start: ToolStart | None = None
    around: "Space | None" = None
    values: Values = field(default_factory=Values)
    entered: bool = False
    """Its clients were told that it exists."""

    def __post_init__(self) -> None:
        self.namespace: tuple[str, ...] = ()
        if self.start is not None and self.around is not None:
            self.namespace = (*self.around.namespace, _segment(self.start))
            self.values.spoken = self.around.values.spoken

    @property
    def node(self) -> str:
        """Where in the graph around it stands."""
        return (self.start.payload.node if self.start is not None else None) or TOOLS

    @property
    def graph(self) -> "Space":
        """The graph it is, or for the inside of a plain tool the graph that called it."""
        plain = self.start is not None and self.start.payload.kind == "tool"
        return self.around.graph if plain and self.around is not None else self


class Told(NamedTuple):
    """What an envelope means for the graph in which it happened."""

    space: Space
    change: Json | None
    """Of its state."""
    speech: Speech | None = None
    """Of the model call that it belongs to."""
    known: int = 0
    """How many blocks that speech had before."""
    block: Block | None = None
    """The one of them that goes on."""
    heard: bool = False
    """A message that a model spoke, perhaps in another graph, so that its words are known."""


@dataclass
class Spaces:
    root: Space = field(default_factory=Space)
    open: dict[str, Space] = field(default_factory=dict)
    """By call, in the order in which they began."""

    def feed(self, envelope: Envelope) -> Told:
        space = self._place(envelope)
        speech = space.values.speaking.get(envelope.call_id)
        known = 0 if speech is None else len(speech.blocks)
        owner = self.root if isinstance(envelope, AskUser | Message) else space
        heard = isinstance(envelope, Message) and envelope.payload.message_id in owner.values.spoken
        change = owner.values.feed(envelope)
        if isinstance(envelope, ToolStart):
            self.open[envelope.call_id] = _inside(envelope, space)
        return Told(space, change, speech, known, owner.values.touched, heard)

    def leave(self, call_id: str) -> Space | None:
        """The inside of a call that has ended."""
        return self.open.pop(call_id, None)

    def _place(self, envelope: Envelope) -> Space:
        if isinstance(envelope, Update | SubgraphCheckpoint):  # the call itself says it, or the run
            return self.open.get(envelope.call_id, self.root)
        space = self.open.get(envelope.parent_id or "", self.root)
        return space.graph if isinstance(envelope, AskUser | Document) else space


def _inside(start: ToolStart, around: Space) -> Space:
    space = Space(start, around)
    given = [start.payload.args.get(name) for name in ("description", "task")]
    task = next((text for text in given if isinstance(text, str)), None)
    if start.payload.kind == "agent" and task is not None:
        space.values.assign(f"{start.call_id}-task", task)
    return space


def _segment(start: ToolStart) -> str:
    called = start.payload
    kind = (called.node or called.tool_name) if called.kind == "graph" else TOOLS
    return _SEPARATORS.sub("_", f"{kind}:{called.tool_call_id}")
