"""What nodes returned, from recordings: changes of the state, answers to tool calls, messages without a model."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from stellwerk.recordings.shapes import (
    ACCEPTED,
    DOCUMENTS,
    STEP,
    Item,
    calls_of,
    failed,
    messages_in,
    payload_of,
    plain_id,
    rows,
    table,
    text_of,
)
from stellwerk.stream.facts import AnswerAccepted, Fact, MessageReturned, NodeUpdated, ToolAnswered


@dataclass
class Updates:
    """``agent`` is the name of the outermost agent."""

    agent: str
    spoken: set[str] = field(default_factory=set)
    """Messages that model calls ended with."""
    known: set[str] = field(default_factory=set)
    """Messages that were in the state of the outermost graph before; who gives them back says nothing new."""

    def of(self, ts: float, space: str, data: Item) -> Iterator[Fact]:
        """One update of a graph, by node."""
        repeated = bool(table(data.get("__metadata__")).get("cached"))
        nodes = {node: update for node, update in data.items() if not node.startswith("__")}
        for node, update in nodes.items():
            for change in update if isinstance(update, list) else [update]:
                yield from self.change(ts, space, node, change, repeated)
        for update in [] if space else nodes.values():
            for change in update if isinstance(update, list) else [update]:
                yield from self._returned(ts, change)

    def change(self, ts: float, space: str, node: str, change: Any, repeated: bool = False) -> Iterator[Fact]:
        messages = messages_in(change)
        for message in messages:
            if message.get("type") == "tool" and not repeated:
                answered = str(message.get("tool_call_id") or "")
                yield ToolAnswered(ts, space, answered, payload_of(message), failed(message))
        told = [message for message in messages if message.get("type") == "ai"]
        if told and table(change).get(ACCEPTED):
            yield AnswerAccepted(ts, plain_id(told[-1]), str(change[ACCEPTED]))
        delta = {k: v for k, v in change.items() if k != "messages"} if isinstance(change, dict) else change
        yield NodeUpdated(ts, node, space, delta, repeated)

    def _returned(self, ts: float, change: Any) -> Iterator[Fact]:
        for message in messages_in(change):
            if message.get("type") == "ai":
                message_id = plain_id(message)
                if message_id in self.spoken or message_id not in self.known:
                    author, asks = message.get("name") or self.agent, bool(calls_of(message.get("tool_calls")))
                    notes = table(message.get("response_metadata"))
                    yield MessageReturned(
                        *(ts, message_id, text_of(message), str(author), asks),
                        is_step=bool(notes.get(STEP)),
                        documents=tuple(map(str, rows(notes.get(DOCUMENTS)))),
                    )

    def know(self, values: Any) -> None:
        """What the state holds from now on."""
        self.known |= {plain_id(message) for message in messages_in(values) if message.get("id")}


def output_of(values: Any) -> Any:
    """What a graph without messages ended with; None if it has some."""
    return None if not isinstance(values, dict) or rows(values.get("messages")) else values
