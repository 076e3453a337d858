"""Answers: which message of a run is its answer, and when each of the others is recorded.

A message is recorded once, with its status, so one that may be the answer
waits. The answer of an agent of ours is the text after which nothing follows.
The answer of an operator's own graph is what its final state says.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from msgspec.structs import replace

from stellwerk.envelope.model import Message


@dataclass
class Answers:
    text: str = ""
    """Of the latest candidate."""
    by_state: bool = False
    """The final state decides: a model that speaks later does not make a step of what another has said."""
    recorded: set[str] = field(default_factory=set)
    """Ids of the messages that do not wait any more."""
    waiting: list[Message] = field(default_factory=list)
    _by_models: set[str] = field(default_factory=set)
    """Ids of what was streamed already, so that it may wait without being missed."""

    def model_begins(self) -> Iterator[Message]:
        waits = self.by_state and all(each.payload.message_id in self._by_models for each in self.waiting)
        return iter(()) if waits else self.release("step")

    def said(self, message: Message | None, *, step: bool, by_model: bool) -> Iterator[Message]:
        """A message, which is a step or may be the answer; None if it has no text."""
        is_step = step and message is not None
        if is_step or not (self.by_state and by_model):
            yield from self.release("step")
        if message is not None:
            self.wait(message, by_model=by_model, is_candidate=not step)
        if is_step:
            yield from self.release("step")

    def wait(self, message: Message, *, by_model: bool, is_candidate: bool = True) -> None:
        self.waiting.append(message)
        if by_model:
            self._by_models.add(message.payload.message_id)
        if is_candidate:
            self.text = message.payload.text

    def kept(self, message_id: str) -> Iterator[Message]:
        """A node has put a message into the state; what was said before it is no answer any more."""
        place = self._place(message_id, None)
        if self.by_state and place is not None:
            after, self.waiting = self.waiting[place:], self.waiting[:place]
            yield from self.release("step")
            self.waiting = after

    def decide(self, answer: Message) -> None:
        """This is the answer. If it waits already, under this id or with the same words, it is not repeated."""
        place, self.text = self._place(answer.payload.message_id, answer.payload.text), answer.payload.text
        self.waiting.append(answer if place is None else self.waiting.pop(place))

    def release(self, status: Literal["step", "last"]) -> Iterator[Message]:
        """All that wait: steps, but for the last one."""
        waiting, self.waiting = self.waiting, []
        self.recorded |= {each.payload.message_id for each in waiting}
        yield from waiting[:-1]
        for each in waiting[-1:]:
            yield replace(each, payload=replace(each.payload, status=status))

    def _place(self, message_id: str, text: str | None) -> int | None:
        said = [each.payload for each in self.waiting]
        same = [place for place, each in enumerate(said) if each.message_id == message_id]
        return next(iter(same or [place for place, each in enumerate(said) if each.text == text]), None)
