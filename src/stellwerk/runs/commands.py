"""Commands: what somebody asks of a session, as frozen data, and the envelopes it begins with."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec

from stellwerk.documents.store import Document as Stored
from stellwerk.envelope.model import Document, Envelope, Message, RunStart, StopRequest, UserAnswer
from stellwerk.envelope.payloads import Answered, Filed, FilePart, RunStarted, Said, StopAsked, TextPart
from stellwerk.ids import digest_id
from stellwerk.spec.chat import ChatMessage

IfBusy = Literal["reject", "enqueue", "interrupt"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Input:
    """What a user gives to a session."""

    text: str
    documents: Sequence[str] = ()
    """Ids of files that were uploaded before."""
    if_busy: IfBusy = "reject"
    earlier: Sequence[ChatMessage] = ()
    """For a session that has only begun: what was said before, elsewhere."""


class Withdrawn(msgspec.Struct, frozen=True, kw_only=True):
    """An enqueued message that a stop took back: it starts nothing, and may be sent again."""

    message_id: str
    text: str
    documents: list[FilePart]
    """The files that went with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """Ids and time were given when it came in."""

    tenant: str
    session_id: str
    run_id: str
    """Of the run that it starts, if it starts one."""
    at: float
    key: str | None = None
    """The Idempotency-Key of the request."""

    request: str = ""
    """A digest of what is asked: the same key stands for the same request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Send(Command):
    """A user's message."""

    text: str
    system: str
    system_version: int
    message_id: str
    documents: Sequence[Stored] = ()
    """Files that go with it."""
    if_busy: IfBusy = "reject"
    earlier: Sequence[ChatMessage] = ()
    """What was said elsewhere before the session began."""
    withdrawn: Sequence[Withdrawn] = ()
    """The enqueued messages that were taken back when this one interrupted a round."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply(Command):
    """The answer to a question."""

    system: str
    answer: Answered
    documents: Sequence[Stored] = ()
    is_checked: bool
    """The question was open when it came, and it fits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Regenerate(Command):
    """Answer the last message once more."""

    system: str
    system_version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop(Command):
    system: str
    asked: StopAsked = field(default_factory=lambda: StopAsked(by="user"))


class Accepted(msgspec.Struct, frozen=True, kw_only=True):
    """The input is in the log; the run it starts will end visibly."""

    round: int
    run_id: str
    message_id: str | msgspec.UnsetType = msgspec.UNSET
    ask_id: str | msgspec.UnsetType = msgspec.UNSET
    position: int
    """Of the message, or of the answer."""
    after: int
    """The cursor that shows the run whole."""
    status: Literal["accepted", "enqueued", "noted"] = "accepted"
    """Enqueued: it starts a round of its own when the one under way is over. Noted: other questions are still open."""
    open_asks: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET
    withdrawn: list[Withdrawn] | msgspec.UnsetType = msgspec.UNSET
    """The enqueued messages that were taken back because this one interrupted a round, as in the answer of a stop."""


class Stopped(msgspec.Struct, frozen=True, kw_only=True):
    """Where the session stands, now that nothing of it is under way."""

    status: str
    round: int
    run_id: str | None
    position: int
    withdrawn: list[Withdrawn] | msgspec.UnsetType = msgspec.UNSET
    """The enqueued messages that were taken back, if there were any, in the order in which they were sent."""


def start_of(command: Command, started: RunStarted, *, trace_id: str) -> RunStart:
    return RunStart(
        **_place(command, trace_id, command.run_id), parent_id=None, call_id=command.run_id, payload=started
    )


def message_of(send: Send, *, run_id: str | None) -> Message:
    """The user's message; one that is enqueued belongs to no run yet."""
    files = [FilePart(document_id=each.document_id, filename=each.filename, mime=each.mime) for each in send.documents]
    said = Said(
        message_id=send.message_id,
        role="user",
        content=[*([TextPart(text=send.text)] if send.text else []), *files],
        status="first",
        documents=[file.document_id for file in files] or None,
    )
    call_id = digest_id("message", send.message_id)
    return Message(**_place(send, run_id, run_id), parent_id=run_id, call_id=call_id, payload=said)


def documents_of(command: Send | Reply, *, trace_id: str | None, run_id: str | None) -> list[Envelope]:
    """What tells of the files, in front of the message or answer that they go with."""
    owner = command.message_id if isinstance(command, Send) else command.answer.ask_id
    place = _place(command, trace_id, run_id)
    return [
        Document(
            **place,
            parent_id=run_id,
            call_id=digest_id("document", owner, file.document_id),
            payload=Filed.of(file.document_id, file.filename, file.mime, file.size, message_id=owner),
        )
        for file in command.documents
    ]


def answer_of(reply: Reply, *, trace_id: str | None, run_id: str | None) -> UserAnswer:
    """An answer; as long as other questions are open, no run goes on with it."""
    call_id = digest_id("answer", reply.answer.ask_id)
    return UserAnswer(**_place(reply, trace_id, run_id), parent_id=run_id, call_id=call_id, payload=reply.answer)


def stop_of(stop: Stop, *, trace_id: str | None, run_id: str) -> StopRequest:
    call_id = digest_id("stop", run_id, str(stop.at))
    return StopRequest(**_place(stop, trace_id, run_id), parent_id=run_id, call_id=call_id, payload=stop.asked)


def withdrawn_from(message: Message) -> Withdrawn:
    said = message.payload
    files = [part for part in said.content if isinstance(part, FilePart)]
    return Withdrawn(message_id=said.message_id, text=said.text, documents=files)


def withdrawn(message_id: str, *, at: float) -> Message:
    """An enqueued message that will start nothing any more."""
    said = Said(message_id=message_id, role="user", content=[], status="first", action="removed")
    return Message(ts=at, parent_id=None, call_id=digest_id("message removed", message_id), seq=1, payload=said)


def earlier_messages(send: Send) -> list[Envelope]:
    """What belongs to no run: it was said before there was one."""
    return [_earlier(send, f"{send.message_id}-{n}", said) for n, said in enumerate(send.earlier)]


def _earlier(send: Send, message_id: str, said: ChatMessage) -> Envelope:
    payload = Said(message_id=message_id, role=said.role, content=[TextPart(text=said.content)], status="step")
    return Message(ts=send.at, parent_id=None, call_id=digest_id("message", message_id), seq=1, payload=payload)


def _place(command: Command, trace_id: str | None, run_id: str | None) -> dict[str, Any]:
    return {"ts": command.at, "trace_id": trace_id, "run_id": run_id, "seq": 1}
