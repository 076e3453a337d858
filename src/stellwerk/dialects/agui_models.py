"""Model calls in AG-UI: their text is a message, their reasoning is one of its own."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from stellwerk.dialects.agui_events import event
from stellwerk.dialects.base import Chunk
from stellwerk.envelope.model import Envelope, LlmEnd, LlmStart, LlmToken


@dataclass
class _Model:
    message_id: str
    owner: str | None
    spoke: bool = False
    """A text message was begun, and is open."""
    reasoning: str | None = None
    """The reasoning message that is open."""


@dataclass
class Models:
    _open: dict[str, _Model] = field(default_factory=dict)
    _told: set[str] = field(default_factory=set)
    """Messages whose text was sent; a graph that went on after a question gives those from before it, too."""

    def started(self, start: LlmStart, owner: str | None) -> None:
        self._open[start.call_id] = _Model(start.payload.message_id, owner)

    def spoke(self, token: LlmToken) -> Iterator[Chunk]:
        model, said = self._open.get(token.call_id), token.payload
        if model is None or not said.text:
            return
        if said.kind == "reasoning":
            yield from self._reasoned(model, token)
            return
        yield from _end_reasoning(model, token)
        if not model.spoke:
            model.spoke = True
            self._told.add(model.message_id)
            yield event("TEXT_MESSAGE_START", token, model.owner, messageId=model.message_id, role="assistant")
        yield event("TEXT_MESSAGE_CONTENT", token, model.owner, messageId=model.message_id, delta=said.text)

    def ended(self, end: LlmEnd) -> Iterator[Chunk]:
        model = self._open.pop(end.call_id, None)
        if model is None:
            return
        yield from _end_reasoning(model, end)
        if model.spoke:
            yield event("TEXT_MESSAGE_END", end, model.owner, messageId=model.message_id)
            self._told.add(end.payload.message_id)  # which may be another than the one it was begun with

    def is_told(self, message_id: str) -> bool:
        return message_id in self._told

    def message_of(self, call_id: str) -> str | None:
        """The message that an open call makes."""
        return model.message_id if (model := self._open.get(call_id)) is not None else None

    def _reasoned(self, model: _Model, token: LlmToken) -> Iterator[Chunk]:
        # A message of its own for each block; one that goes on after some text is begun again, which appends to it.
        message_id = f"{model.message_id}.reasoning.{token.payload.block}"
        if model.reasoning != message_id:
            yield from _end_reasoning(model, token)
            model.reasoning = message_id
            yield event("REASONING_START", token, model.owner, messageId=message_id)
            yield event("REASONING_MESSAGE_START", token, model.owner, messageId=message_id, role="reasoning")
        yield event("REASONING_MESSAGE_CONTENT", token, model.owner, messageId=message_id, delta=token.payload.text)


def _end_reasoning(model: _Model, cause: Envelope) -> Iterator[Chunk]:
    if model.reasoning is not None:
        yield event("REASONING_MESSAGE_END", cause, model.owner, messageId=model.reasoning)
        yield event("REASONING_END", cause, model.owner, messageId=model.reasoning)
        model.reasoning = None
