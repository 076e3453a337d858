"""Erasure of a message: which envelopes hold the message or its files, and what is left of them.

A tombstone keeps the position, the ids and the type of its envelope and is marked ``redacted``.
Erasure follows ids: the message, its tokens, its files, the tool call that asked a question, and
the stored prompts that may repeat it. Everything that agents said, wrote or handed to each other
about it stays.
"""

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from stellwerk.envelope import model as m
from stellwerk.envelope.payloads import Filed, FilePart, Said
from stellwerk.ids import digest_id

ERASED = "(removed)"
"""In the place of a text that must not be empty."""
Erasable = m.Message | m.AskUser | m.UserAnswer
TYPES = (
    *("message", "ask_user", "user_answer", "document", "run_end", "update"),
    *("llm_start", "llm_token", "llm_end", "tool_start", "tool_update", "tool_end"),
)
"""The types of envelopes that may hold a message or a copy of it."""


@dataclass
class SessionIndex:
    """What an erasure must know of a log; takes all envelopes of ``TYPES`` and ``run_start``."""

    message_ids: set[str] = field(default_factory=set)
    added: Counter[str] = field(default_factory=Counter)
    """How often each document was added."""
    asked: dict[str, m.AskUser] = field(default_factory=dict)
    rounds: dict[str | None, int] = field(default_factory=dict)
    """Where each trace begins."""

    def feed(self, position: int, envelope: m.Envelope) -> None:
        match envelope:
            case m.RunStart(trace_id=trace_id):
                self.rounds.setdefault(trace_id, position)
            case m.Message(payload=said):
                self.message_ids.add(said.message_id)
            case m.AskUser(payload=asked):
                self.asked.setdefault(asked.ask_id, envelope)
            case m.Document(payload=filed) if filed.action == "added":
                self.added[filed.document_id] += 1


@dataclass(frozen=True, slots=True)
class Erasure:
    """Of a message, a question or an answer; or, with ``document_id``, of one file of it."""

    target: Erasable
    index: SessionIndex
    gone: Collection[str] = ()
    """Documents that no other message has."""
    document_id: str | None = None

    @property
    def owner(self) -> str:
        """The id of the message in the log."""
        if isinstance(self.target, m.Message):
            return self.target.payload.message_id
        return self.target.payload.ask_id

    @property
    def question(self) -> m.AskUser | None:
        """The question, if its answer is erased."""
        if isinstance(self.target, m.UserAnswer):
            return self.index.asked.get(self.target.payload.ask_id)
        return None

    def facts(self, at: float) -> list[m.Envelope]:
        """The envelopes that record the erasure."""
        if self.document_id is not None:
            return [self._file_erased(self.document_id, at, everywhere=self.document_id in self.gone)]
        said = self._message_erased()
        call_id = digest_id("message removed", said.message_id)
        files = [self._file_erased(document_id, at, everywhere=True) for document_id in self.gone]
        return [*files, m.Message(ts=at, parent_id=None, call_id=call_id, seq=1, payload=said)]

    def _message_erased(self) -> Said:
        """A question or an answer has no message id; the id of its call takes the place."""
        said = Said(message_id=self.target.call_id, role="user", content=[], status="first", action="removed")
        match self.target:
            case m.Message(payload=was):
                return replace(said, message_id=was.message_id, role=was.role, status=was.status)
            case m.AskUser():
                return replace(said, role="assistant", status="step")
            case m.UserAnswer():
                return said

    def _file_erased(self, document_id: str, at: float, *, everywhere: bool) -> m.Document:
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
        return m.Document(ts=at, parent_id=None, call_id=call_id, seq=1, payload=filed)

    def tombstone(self, position: int, envelope: m.Envelope) -> m.Envelope | None:
        """What is left of an envelope; None if it stays as it is."""
        left = self._erased(position, envelope)
        return None if left == envelope else left

    def _erased(self, position: int, envelope: m.Envelope) -> m.Envelope | None:
        since = self.index.rounds.get(self.target.trace_id, 0)
        match envelope:
            case m.Document(payload=filed) if filed.action == "added":
                return _blank(envelope, name="", ext="", mime="", size=0) if self._is_gone(filed) else None
            case m.LlmStart(payload=called) if called.messages is not None and position >= since:
                return _blank(envelope, messages=None)
        if self.document_id is not None:
            return self._without_file(envelope, self.document_id)
        match self.target:
            case m.Message():
                return self._without_message(envelope, self.target)
            case m.AskUser():
                return self._without_question(envelope, self.target)
            case m.UserAnswer():
                return self._without_answer(envelope)

    def _is_gone(self, filed: Filed) -> bool:
        """If another message has the document, its name stays in at least one envelope."""
        own = filed.message_id == self.owner and self.document_id in (None, filed.document_id)
        return filed.document_id in self.gone or (own and self.index.added[filed.document_id] > 1)

    def _without_message(self, envelope: m.Envelope, message: m.Message) -> m.Envelope | None:
        match envelope:
            case m.Message(call_id=call_id, payload=said) if call_id == message.call_id and said.action == "added":
                given = dict.fromkeys(("input", "config", "context", "output"))
                return _blank(envelope, content=[], documents=None, **given)
            case m.LlmToken(call_id=call_id) if call_id == self.owner:
                return _blank(envelope, text="")
            case m.RunEnd(run_id=run_id, payload=ended) if run_id == message.run_id:
                return _blank(envelope, result=None) if ended.result == message.payload.text else None
            case m.Update(payload=updated) if updated.by and isinstance(updated.delta, dict):
                left = _without(updated.delta, self.owner)
                return None if left == updated.delta else _blank(envelope, delta=left)
            # A task's answer has the id of its call.
            case m.ToolEnd(payload=ended) if ended.tool_call_id == self.owner:
                error = None if ended.error is None else replace(ended.error, message=ERASED)
                return _blank(envelope, result=None, error=error)
        return None

    def _without_question(self, envelope: m.Envelope, question: m.AskUser) -> m.Envelope | None:
        match envelope:
            case m.AskUser(call_id=call_id) if call_id == question.call_id:
                empty: dict[str, Any] = dict.fromkeys(("schema", "options", "default", "args", "data"))
                return _blank(envelope, question="", **empty)
            case m.ToolStart(payload=called) if _is_call_of(question, envelope, called.tool_call_id):
                return _blank(envelope, args={}, input=None)
            case m.ToolUpdate(payload=update) if _is_call_of(question, envelope, update.tool_call_id):
                return _blank(envelope, text=None if update.text is None else "", data=None)
            case m.LlmEnd(payload=ended) if ended.tool_calls:
                calls = [
                    replace(call, args=None) if _is_call_of(question, envelope, call.tool_call_id) else call
                    for call in ended.tool_calls
                ]
                return None if calls == ended.tool_calls else _blank(envelope, tool_calls=calls)
        return None

    def _without_answer(self, envelope: m.Envelope) -> m.Envelope | None:
        match envelope:
            case m.UserAnswer(call_id=call_id) if call_id == self.target.call_id:
                return _blank(envelope, text=None, data=None)
            case m.ToolEnd(payload=ended) if self.question and _is_call_of(self.question, envelope, ended.tool_call_id):
                return _blank(envelope, result=None)
        return None

    def _without_file(self, envelope: m.Envelope, gone: str) -> m.Envelope | None:
        match envelope:
            case m.Message(call_id=call_id, payload=said) if call_id == self.target.call_id and said.action == "added":
                parts = [part for part in said.content if not (isinstance(part, FilePart) and part.document_id == gone)]
                documents = [each for each in said.documents or () if each != gone] or None
                return _blank(envelope, content=parts, documents=documents)
        return None


def _without(delta: dict[str, Any], message_id: str) -> dict[str, Any]:
    """A client's change of the state without the message, which it may have replaced by its id."""
    said = delta.get("messages")
    if not isinstance(said, list):
        return delta
    kept = [each for each in said if not (isinstance(each, dict) and each.get("id") == message_id)]
    return {**delta, "messages": kept}


def _is_call_of(question: m.AskUser, envelope: m.Envelope, tool_call_id: str | None) -> bool:
    """Providers give the same id again in another trace."""
    return tool_call_id == question.payload.tool_call_id is not None and envelope.trace_id == question.trace_id


def _blank(envelope: m.Envelope, **changes: Any) -> m.Envelope:
    payload: Struct = envelope.payload
    return replace(envelope, payload=replace(payload, redacted=True, **changes))
