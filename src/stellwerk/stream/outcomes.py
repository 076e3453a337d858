"""Outcomes: what an agent or a graph inside another one leaves behind, in one shape for all of them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from stellwerk.envelope.canonical import clean_text
from stellwerk.envelope.payloads import Outcome, Usage
from stellwerk.envelope.results import FileRef

_MESSAGES, _TEXT = 20, 4000
"""The last so many messages, so many characters of each: an event has a limit, and the whole text is in the log."""

_MOST = 2**53 - 1
"""The largest integer that every reader of JSON understands."""


@dataclass
class Inside:
    messages: list[dict[str, str]] = field(default_factory=list)
    files: dict[str, Any] = field(default_factory=dict)
    usage: dict[str, Usage] = field(default_factory=dict)
    signal: str | None = None
    """The name of the call by which an agent says that it is done."""

    def say(self, message_id: str, text: str) -> None:
        if text:
            said = {"message_id": clean_text(message_id), "role": "assistant", "text": clean_text(text)[:_TEXT]}
            self.messages = [*self.messages, said][-_MESSAGES:]

    def use(self, *used: Usage) -> None:
        for one in used:
            self.usage[one.model] = sum_of(self.usage.get(one.model), one)

    def take_over(self, inner: "Inside") -> None:
        """What an inner agent used and made, the one around it has used and made too."""
        self.use(*inner.usage.values())
        self.files.update(inner.files)

    def file(self, file: FileRef) -> None:
        self.files[file.filename] = {"document_id": file.document_id, "mime": file.mime, "size": file.size}

    def outcome(self) -> Outcome:
        return Outcome(messages=list(self.messages), files=dict(self.files), usage=list(self.usage.values()))

    def plain(self) -> Mapping[str, Any]:
        usage = [msgspec.to_builtins(used) for used in self.usage.values()]
        return {"messages": list(self.messages), "files": dict(self.files), "usage": usage}


def used_by(model: str, input_tokens: int, output_tokens: int) -> Usage:
    """What a provider says was used; a number that no reader could take is cut."""
    read, written = (min(max(tokens, 0), _MOST) for tokens in (input_tokens, output_tokens))
    return Usage(model=model, input_tokens=read, output_tokens=written)


def sum_of(before: Usage | None, used: Usage) -> Usage:
    if before is None:
        return used
    return used_by(used.model, before.input_tokens + used.input_tokens, before.output_tokens + used.output_tokens)
