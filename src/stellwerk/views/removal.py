"""Removal: which envelopes told what somebody wants to be gone, and what is left of them.

A stub has the place, the ids and the type of what it stands for, and says
``redacted``. What others made of it, such as an answer that quotes a question,
is a message of its own and stays; what is no message goes along.
"""

from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from stellwerk.envelope.model import (
    AskUser,
    Document,
    Envelope,
    LlmEnd,
    LlmToken,
    Message,
    RunEnd,
    ToolEnd,
    ToolStart,
    ToolUpdate,
    UserAnswer,
)
from stellwerk.envelope.payloads import Filed, FilePart, Said, ToolEnded
from stellwerk.ids import digest_id
from stellwerk.views.removal_papers import Papers, blank, without_output, without_result

Spoken = Message | AskUser | UserAnswer
TYPES = (
    *("message", "ask_user", "user_answer", "document", "run_end", "state", "update", "log", "warning", "error"),
    *("llm_start", "llm_token", "llm_end", "tool_start", "tool_update", "tool_end"),
)
"""The types in which something that was said is told."""


@dataclass(frozen=True, slots=True)
class Removal:
    """Of something that was said; or, with a document, of that file alone."""

    spoken: Spoken
    papers: Papers
    asked: AskUser | None = None
    """The question, if it is an answer that goes."""
    document_id: str | None = None

    @property
    def owner(self) -> str:
        """How the log calls it."""
        return self.spoken.payload.message_id if isinstance(self.spoken, Message) else self.spoken.payload.ask_id

    @property
    def text(self) -> str:
        return _text(self.spoken) if isinstance(self.spoken, Message) else ""

    @property
    def is_last(self) -> bool:
        """No other message has the file."""
        return self.document_id in self.papers.gone

    def facts(self, at: float) -> list[Envelope]:
        """What the log says about it from now on."""
        if self.document_id is not None:
            return [self._file_gone(self.document_id, at, everywhere=self.is_last)]
        gone = self._gone()
        call_id = digest_id("message removed", gone.message_id)
        files = [self._file_gone(document_id, at, everywhere=True) for document_id in self.papers.gone]
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

    def stub(self, position: int, envelope: Envelope) -> Envelope | None:
        """What is left of an envelope; None if it stays as it is."""
        left = self.papers.without(position, envelope)
        left = self._without_it(left) or left
        return None if left == envelope else left

    def _without_it(self, envelope: Envelope) -> Envelope | None:
        match envelope:
            case Document(payload=filed) if filed.action == "added":
                return blank(envelope, name="", ext="", mime="", size=0) if self._is_gone(filed) else None
        if self.document_id is not None:
            return self._without_file(envelope, self.document_id)
        match self.spoken:
            case Message():
                return self._without_message(envelope, self.spoken)
            case AskUser():
                return self._without_question(envelope, self.spoken)
            case UserAnswer():
                return self._without_answer(envelope)

    def _is_gone(self, filed: Filed) -> bool:
        """Of a document that stays with another message, only what is not all that the log says about it."""
        own = filed.message_id == self.owner and self.document_id in (None, filed.document_id)
        return filed.document_id in self.papers.gone or (own and self.papers.told[filed.document_id] > 1)

    def _without_message(self, envelope: Envelope, gone: Message) -> Envelope | None:
        match envelope:
            case Message(call_id=call_id, payload=said) if call_id == gone.call_id and said.action == "added":
                return blank(envelope, content=[], documents=None)
            case LlmToken(call_id=call_id) if call_id == gone.payload.message_id:
                return blank(envelope, text="")
            case RunEnd(run_id=run_id, payload=ended) if run_id == gone.run_id and ended.result == _text(gone):
                return blank(envelope, result=None)
            case ToolEnd(payload=done) if self._told_it(envelope, done):
                return without_result(envelope)
        return None

    def _told_it(self, envelope: ToolEnd, ended: ToolEnded) -> bool:
        """The answer of an agent, which a message repeats."""
        is_same = ended.result is not None and ended.result.as_text() == self.text != ""
        return ended.tool_call_id == self.owner or (is_same and envelope.call_id in self.papers.handed)

    def _without_question(self, envelope: Envelope, gone: AskUser) -> Envelope | None:
        match envelope:
            case AskUser(call_id=call_id) if call_id == gone.call_id:
                empty: dict[str, Any] = dict.fromkeys(("schema", "options", "default", "args", "data"))
                return blank(envelope, question="", **empty)
            case ToolStart(payload=called) if self._is_of(envelope, called.tool_call_id, gone):
                return blank(envelope, args={}, input=None)
            case ToolUpdate(payload=update) if self._is_of(envelope, update.tool_call_id, gone):
                return without_output(envelope)
            case LlmEnd(payload=ended) if any(
                self._is_of(envelope, call.tool_call_id, gone) for call in ended.tool_calls or ()
            ):
                asked = gone.payload.tool_call_id
                calls = [replace(c, args=None) if c.tool_call_id == asked else c for c in ended.tool_calls or ()]
                return blank(envelope, tool_calls=calls)
        return None

    def _without_answer(self, envelope: Envelope) -> Envelope | None:
        match envelope:
            case UserAnswer(call_id=call_id) if call_id == self.spoken.call_id:
                return blank(envelope, text=None, data=None)
            case ToolEnd(payload=ended) if self.asked and self._is_of(envelope, ended.tool_call_id, self.asked):
                return blank(envelope, result=None)
        return None

    def _is_of(self, envelope: Envelope, tool_call_id: str | None, asked: AskUser) -> bool:
        """Providers give the same id again in another trace."""
        return tool_call_id == asked.payload.tool_call_id is not None and envelope.trace_id == asked.trace_id

    def _without_file(self, envelope: Envelope, gone: str) -> Envelope | None:
        match envelope:
            case Message(call_id=call_id, payload=said) if call_id == self.spoken.call_id and said.action == "added":
                parts = [part for part in said.content if not (isinstance(part, FilePart) and part.document_id == gone)]
                documents = [each for each in said.documents or () if each != gone] or None
                return blank(envelope, content=parts, documents=documents)
        return None


def _text(message: Message) -> str:
    return message.payload.text
