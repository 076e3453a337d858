"""Outcomes: what an inner agent or graph returns, and which message of a run is its answer."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec
from msgspec.structs import replace

from stellwerk.envelope.model import Message
from stellwerk.envelope.payloads import Outcome, Usage
from stellwerk.envelope.to_json import clean_text

_MESSAGES = 20
_TEXT = 4000
"""The last messages, and characters of each: events are limited, the log has the whole text."""
_MOST = 2**53 - 1
"""The largest integer that every reader of JSON understands."""


@dataclass
class OutcomeBuilder:
    """Collects the messages, files and usage of an inner agent or graph, in one shape."""

    messages: list[dict[str, str]] = field(default_factory=list)
    files: dict[str, Any] = field(default_factory=dict)
    usage: dict[str, Usage] = field(default_factory=dict)
    signal: str | None = None
    """The name of the agent's completion signal."""

    def say(self, message_id: str, text: str) -> None:
        if text:
            said = {"message_id": clean_text(message_id), "role": "assistant", "text": clean_text(text)[:_TEXT]}
            self.messages = [*self.messages, said][-_MESSAGES:]

    def take_over(self, inner: "OutcomeBuilder") -> None:
        """Add the usage and files of an agent inside this one."""
        for used in inner.usage.values():
            add_usage(self.usage, used)
        self.files.update(inner.files)

    def file(self, filename: str, document_id: str, mime: str, size: int) -> None:
        self.files[filename] = {"document_id": document_id, "mime": mime, "size": size}

    def outcome(self) -> Outcome:
        return Outcome(messages=list(self.messages), files=dict(self.files), usage=list(self.usage.values()))

    def plain(self) -> dict[str, Any]:
        usage = [msgspec.to_builtins(used) for used in self.usage.values()]
        return {"messages": list(self.messages), "files": dict(self.files), "usage": usage}


def used_by(model: str, input_tokens: int, output_tokens: int) -> Usage:
    """Build the usage that a provider reports; numbers that JSON readers cannot take are cut."""
    return Usage(
        model=model,
        input_tokens=min(max(input_tokens, 0), _MOST),
        output_tokens=min(max(output_tokens, 0), _MOST),
    )


def add_usage(usage: dict[str, Usage], used: Usage) -> None:
    before = usage.get(used.model)
    if before is not None:
        read = before.input_tokens + used.input_tokens
        used = used_by(used.model, read, before.output_tokens + used.output_tokens)
    usage[used.model] = used


@dataclass
class AnswerCandidates:
    """Messages of the outermost agent that wait until the answer of the run is known."""

    text: str = ""
    """Of the latest candidate."""
    by_state: bool = False
    """The state decides: the text of a model call is a draft until a node puts it there."""
    drafts: dict[str, str] = field(default_factory=dict)
    """Texts of model calls that are not in the state, by message id."""
    recorded: set[str] = field(default_factory=set)
    """Ids of the messages that no longer wait."""
    waiting: list[Message] = field(default_factory=list)
    _by_models: set[str] = field(default_factory=set)
    """Ids of messages whose tokens were streamed, so readers miss nothing while they wait."""

    def model_starts(self) -> Iterator[Message]:
        waits = self.by_state and all(each.payload.message_id in self._by_models for each in self.waiting)
        return iter(()) if waits else self.release("step")

    def said(self, message: Message | None, *, step: bool, by_model: bool) -> Iterator[Message]:
        """Add a message, which is a step or may be the answer; None if it has no text."""
        yield from self.release("step")
        if message is not None:
            self.wait(message, by_model=by_model, is_candidate=not step)
            if step:
                yield from self.release("step")

    def wait(self, message: Message, *, by_model: bool, is_candidate: bool = True) -> None:
        self.waiting.append(message)
        if by_model:
            self._by_models.add(message.payload.message_id)
        if is_candidate:
            self.text = message.payload.text

    def take_draft(self, message_id: str, text: str) -> str | None:
        """Return the id of the draft that is in the state now, perhaps under another id."""
        same = [id_ for id_, draft in self.drafts.items() if draft.strip() == text.strip()]
        found = message_id if message_id in self.drafts else same[-1] if same else None
        if found is not None:
            del self.drafts[found]
        return found

    def take_back(self, message_id: str) -> None:
        """The graph removed a message before it was recorded: it stays a text of its model call."""
        self.waiting = [each for each in self.waiting if each.payload.message_id != message_id]

    def waits(self, message_id: str, text: str | None) -> bool:
        return self._place(message_id, text) is not None

    def decide(self, answer: Message) -> None:
        """Choose the answer; one that waits already, by id or text, is not repeated."""
        place = self._place(answer.payload.message_id, answer.payload.text)
        self.text = answer.payload.text
        found = answer if place is None else self.waiting.pop(place)
        self.waiting.append(replace(found, payload=replace(found.payload, output=answer.payload.output)))

    def release(self, status: Literal["step", "last"]) -> Iterator[Message]:
        """Record all waiting messages; ``status`` is that of the last one, the others are steps."""
        waiting = self.waiting
        self.waiting = []
        self.recorded |= {each.payload.message_id for each in waiting}
        yield from waiting[:-1]
        for each in waiting[-1:]:
            yield replace(each, payload=replace(each.payload, status=status))

    def _place(self, message_id: str, text: str | None) -> int | None:
        said = [each.payload for each in self.waiting]
        same = [place for place, each in enumerate(said) if each.message_id == message_id]
        return next(iter(same or [place for place, each in enumerate(said) if each.text == text]), None)
