"""Removal: which envelopes told what somebody wants to be gone, and what is left of them.

A stub has the place, the ids and the type of what it stands for, and says
``redacted``. What others made of it, such as an answer that quotes a question,
is something else and stays.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from stellwerk.envelope.model import (
    AskUser,
    Document,
    Envelope,
    LlmEnd,
    LlmStart,
    LlmToken,
    Message,
    RunEnd,
    ToolEnd,
    ToolStart,
    ToolUpdate,
    UserAnswer,
)
from stellwerk.envelope.payloads import Filed, FilePart, Said, TextPart
from stellwerk.envelope.results import FileRef
from stellwerk.ids import digest_id

Spoken = Message | AskUser | UserAnswer
TYPES = (
    *("message", "ask_user", "user_answer", "document", "run_end"),
    *("llm_start", "llm_token", "llm_end", "tool_start", "tool_update", "tool_end"),
)
"""The types in which something that was said is told."""


@dataclass(frozen=True, slots=True)
class Removal:
    """Of something that was said; or, with a document, of that file alone."""

    spoken: Spoken
    asked: AskUser | None = None
    """The question, if it is an answer that goes."""
    document_id: str | None = None
    is_last: bool = False
    """No other message has the file."""

    @property
    def owner(self) -> str:
        """How the log calls it."""
        payload = self.spoken.payload
        return payload.message_id if isinstance(self.spoken, Message) else payload.ask_id  # type: ignore[union-attr]

    @property
    def text(self) -> str:
        return _text(self.spoken) if isinstance(self.spoken, Message) else ""

    def facts(self, last: Iterable[str], *, at: float) -> list[Envelope]:
        """What the log says about it from now on. ``last`` are documents that no other message has."""
        if self.document_id is not None:
            return [self._file_gone(self.document_id, at, everywhere=self.is_last)]
        gone = self._gone()
        call_id = digest_id("message removed", gone.message_id)
        files = [self._file_gone(document_id, at, everywhere=True) for document_id in last]
        return [*files, Message(ts=at, parent_id=None, call_id=call_id, seq=1, payload=gone)]

    def _gone(self) -> Said:
        """A question or an answer has no id of a message; its call stands for it."""
        spoken = self.spoken
        said = Said(message_id=spoken.call_id, role="user", content=[], status="first", action="removed")
        match spoken:
            case Message(payload=was):
                return replace(said, message_id=was.message_id, role=was.role, status=was.status)
            case AskUser():
                return replace(said, role="assistant", status="step")
            case UserAnswer():
                return said

    def _file_gone(self, document_id: str, at: float, *, everywhere: bool) -> Document:
        filed = Filed(
            document_id=document_id,
            name="",
            mime="",
            size=0,
            digest=document_id,
            action="removed",
            message_id=None if everywhere else self.owner,
        )
        call_id = digest_id("document removed", self.owner, document_id)
        return Document(ts=at, parent_id=None, call_id=call_id, seq=1, payload=filed)

    def stub(self, envelope: Envelope) -> Envelope | None:
        """What is left of an envelope; None if it stays as it is."""
        match envelope:  # what a model or a graph was given may hold any of it
            case LlmStart(payload=called) if called.messages is not None:
                return _blank(envelope, messages=None)
            case ToolStart(payload=begun) if begun.kind == "graph" and begun.input is not None:
                return _blank(envelope, input=None)
        if self.document_id is not None:
            return self._without_file(envelope, self.document_id)
        match envelope:
            case Document(payload=filed) if filed.action == "added" and filed.message_id == self.owner:
                return _blank(envelope, name="", ext="", mime="", size=0)
        match self.spoken:
            case Message():
                return self._without_message(envelope, self.spoken)
            case AskUser():
                return self._without_question(envelope, self.spoken)
            case UserAnswer():
                return self._without_answer(envelope)

    def _without_message(self, envelope: Envelope, gone: Message) -> Envelope | None:
        match envelope:
            case Message(call_id=call_id, payload=said) if call_id == gone.call_id and said.action == "added":
                return _blank(envelope, content=[], documents=None)
            case LlmToken(call_id=call_id) if call_id == gone.payload.message_id:
                return _blank(envelope, text="")
            case RunEnd(run_id=run_id, payload=ended) if run_id == gone.run_id and ended.result == _text(gone):
                return _blank(envelope, result=None)
        return None

    def _without_question(self, envelope: Envelope, gone: AskUser) -> Envelope | None:
        match envelope:
            case AskUser(call_id=call_id) if call_id == gone.call_id:
                empty: dict[str, Any] = dict.fromkeys(("schema", "options", "default", "args", "data"))
                return _blank(envelope, question="", **empty)
            case ToolStart(payload=called) if self._is_of(envelope, called.tool_call_id, gone):
                return _blank(envelope, args={}, input=None)
            case ToolUpdate(payload=update) if self._is_of(envelope, update.tool_call_id, gone):
                return _blank(envelope, text=None, data=None)
            case LlmEnd(payload=ended) if any(
                self._is_of(envelope, call.tool_call_id, gone) for call in ended.tool_calls or ()
            ):
                asked = gone.payload.tool_call_id
                calls = [replace(c, args=None) if c.tool_call_id == asked else c for c in ended.tool_calls or ()]
                return _blank(envelope, tool_calls=calls)
        return None

    def _without_answer(self, envelope: Envelope) -> Envelope | None:
        match envelope:
            case UserAnswer(call_id=call_id) if call_id == self.spoken.call_id:
                return _blank(envelope, text=None, data=None)
            case ToolEnd(payload=ended) if self.asked and self._is_of(envelope, ended.tool_call_id, self.asked):
                return _blank(envelope, result=None)
        return None

    def _is_of(self, envelope: Envelope, tool_call_id: str | None, asked: AskUser) -> bool:
        """Providers give the same id again in another trace."""
        return tool_call_id == asked.payload.tool_call_id is not None and envelope.trace_id == asked.trace_id

    def _without_file(self, envelope: Envelope, gone: str) -> Envelope | None:
        match envelope:
            case Document(payload=filed) if (
                filed.document_id == gone
                and filed.action == "added"
                and (self.is_last or filed.message_id == self.owner)
            ):
                return _blank(envelope, name="", ext="", mime="", size=0)
            case Message(call_id=call_id, payload=said) if call_id == self.spoken.call_id and said.action == "added":
                parts = [part for part in said.content if not (isinstance(part, FilePart) and part.document_id == gone)]
                documents = [each for each in said.documents or () if each != gone] or None
                return _blank(envelope, content=parts, documents=documents)
            case ToolEnd(payload=ended) if self.is_last and _is_file(ended.result, gone):
                return _blank(envelope, result=None)
        return None


def _is_file(result: object, document_id: str) -> bool:
    return isinstance(result, FileRef) and result.document_id == document_id


def _blank(envelope: Envelope, **changes: Any) -> Envelope:
    payload: Struct = envelope.payload
    return replace(envelope, payload=replace(payload, redacted=True, **changes))


def _text(message: Message) -> str:
    return "\n".join(part.text for part in message.payload.content if isinstance(part, TextPart))
