"""Commands to a session (send, reply, regenerate, stop) as data, and the envelopes they become."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypedDict

import msgspec

from stellwerk.agents.runtime.conversation import NO_PARAMETERS, RunParameters
from stellwerk.documents.store import Document as StoredDocument
from stellwerk.envelope.model import Document, Envelope, Message, StopRequest, UserAnswer
from stellwerk.envelope.payloads import Answered, Filed, FilePart, Said, StopAsked, TextPart
from stellwerk.errors import Conflict, InvalidField
from stellwerk.ids import digest_id
from stellwerk.spec.model import ChatMessage
from stellwerk.tenants.quotas import NO_LIMITS, Limits

IfBusy = Literal["reject", "enqueue", "interrupt"]
_LONGEST_ID = 200
_BY_MESSAGE = "message\n"
"""Before the id of a message in a key; no Idempotency-Key has a line feed."""


class Withdrawn(msgspec.Struct, frozen=True, kw_only=True):
    """An enqueued message that a stop took back: it starts nothing, and may be sent again."""

    message_id: str
    text: str
    documents: list[FilePart]
    """The files that went with it."""
    input: Any = msgspec.UNSET
    config: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET
    context: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET


class JobOptions(NamedTuple):
    """When a run starts, and who is informed of its end."""

    start_at: float | None = None
    """At the earliest; None: as soon as a slot is free."""
    webhook: str | None = None
    """The address that its end is reported to."""


NO_OPTIONS = JobOptions()


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """Ids and time were assigned when the request came in."""

    tenant: str
    session_id: str
    run_id: str
    """Of the run that it starts, if it starts one."""
    at: float
    system: str
    system_version: int | None = None
    """None for a run that continues a trace: it has the version of that."""
    documents: Sequence[StoredDocument] = ()
    """Files that go with the message or the answer."""
    key: str | None = None
    """The Idempotency-Key of the request."""
    request: str = ""
    """A digest of the request, to tell whether the same key comes with another one."""
    claim: bool = True
    """A slot is free in this process: claim the run at once."""
    queue_limit: int = sys.maxsize
    """How many runs of a tenant, and how many messages in one session, may wait."""
    limits: Limits = NO_LIMITS
    """Of the tenant."""
    options: JobOptions = NO_OPTIONS


@dataclass(frozen=True, slots=True, kw_only=True)
class Send(Command):
    """A user's message."""

    text: str
    message_id: str
    is_clients_id: bool = False
    """The client chose the message's id, so the log may have it already."""
    if_busy: IfBusy = "reject"
    parameters: RunParameters = NO_PARAMETERS
    """Input, config and context of its run."""
    earlier: Sequence[ChatMessage] = ()
    """Messages from before the session, for a session that has only begun."""
    withdrawn: Sequence[Withdrawn] = ()
    """The enqueued messages that were taken back when this one interrupted a round."""
    replaces: str | None = None
    """A run of the round whose message this one replaces."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply(Command):
    """The answer to a question."""

    answer: Answered
    others: Sequence[Answered] = ()
    """To the other actions of the same interrupt, if it was answered as a whole."""
    seqs: Mapping[str, int] = field(default_factory=dict)
    """How often each question has been asked: a node that asks again repeats the id."""
    is_checked: bool
    """The question was open when the answer came in, and the answer fits it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Regenerate(Command):
    """Answer a message once more."""

    replaces: str | None = None
    """A run of its round; None: the last one."""
    withdrawn: Sequence[Withdrawn] = ()
    """As in ``Send``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop(Command):
    asked: StopAsked = field(default_factory=lambda: StopAsked(by="user"))


RunCommand = Send | Reply | Regenerate
"""The commands that start a run, at once or later."""


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
    """Enqueued: starts a round after the one under way. Noted: other questions are still open."""
    start_at: float | msgspec.UnsetType = msgspec.UNSET
    """When the run starts, at the earliest, if it was delayed."""
    queued_run_id: str | msgspec.UnsetType = msgspec.UNSET
    """The run that an enqueued message will start; ``run_id`` is the one under way."""
    open_asks: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET
    withdrawn: list[Withdrawn] | msgspec.UnsetType = msgspec.UNSET
    """Enqueued messages taken back because this one interrupted a round, as in a stop's answer."""


class DelayedRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run that was accepted, and starts later."""

    run_id: str
    session_id: str
    agent_system_id: str
    start_at: float
    accepted_at: float


class Stopped(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a session in which nothing is under way any more."""

    status: str
    round: int
    run_id: str | None
    position: int
    withdrawn: list[Withdrawn] | msgspec.UnsetType = msgspec.UNSET
    """The enqueued messages that were taken back, in the order in which they were sent."""


class SendOptions(TypedDict, total=False):
    """Of a message: its files, what happens while another round is active, and its idempotency key.

    ``run`` says when its run starts, and who is informed of its end. ``message_id`` is the client's own
    id of the message; without a key, the same id with the same content is the same request. ``replaces``
    is a run: the message takes the place of that run's message, and all later rounds go.
    """

    documents: Sequence[str]
    if_busy: IfBusy
    key: str | None
    run: JobOptions
    message_id: str | None
    replaces: str | None


class InputRequest(NamedTuple):
    """A command before the database was asked about it."""

    tenant: str
    session_id: str
    key: str | None
    digest: str
    documents: Sequence[str] = ()
    options: JobOptions = NO_OPTIONS
    message_id: str | None = None
    """The client's own id of the message."""
    replaces: str | None = None
    """A run of the round that is replaced."""
    keeps_message: bool = False
    """Its message is answered once more."""


def check_message_id(message_id: str) -> None:
    """
    Raises:
        InvalidField: a client must not give this id to a message.
    """
    if not (0 < len(message_id) <= _LONGEST_ID and message_id.isprintable()):
        problem = f"message_id: this must have 1 to {_LONGEST_ID} printable characters"
        raise InvalidField(problem, field="message_id")


def key_of_message(message_id: str) -> str:
    """The idempotency key of a message that has only the client's own id."""
    return f"{_BY_MESSAGE}{message_id}"


def send_request(
    tenant: str, session_id: str, text: str, parameters: RunParameters, options: SendOptions
) -> InputRequest:
    """
    Raises:
        InvalidField: the id of the message is invalid, or the options do not go together.
    """
    documents, run = options.get("documents", ()), options.get("run", NO_OPTIONS)
    key, message_id, replaces = options.get("key"), options.get("message_id"), options.get("replaces")
    given = [] if parameters.is_empty else [msgspec.json.encode(parameters, order="sorted").decode()]
    if run != NO_OPTIONS:
        given += [run.webhook or "", "delayed" if run.start_at is not None else ""]
    if message_id is not None:
        check_message_id(message_id)
        given += ["message id", message_id]
        key = key or key_of_message(message_id)
    if replaces is not None:
        given += ["replaces", replaces]
        if options.get("if_busy") == "enqueue":
            problem = "if_busy: a message that replaces a round cannot wait behind another"
            raise InvalidField(f"{problem}; send interrupt, or reject", field="if_busy")
    digest = digest_id(text, *documents, *given)
    return InputRequest(tenant, session_id, key, digest, documents, run, message_id, replaces)


def key_reused(key: str) -> Conflict:
    """The error for a key that comes with another request than before."""
    if key.startswith(_BY_MESSAGE):
        return message_id_used(key.removeprefix(_BY_MESSAGE))
    return Conflict("this Idempotency-Key was used with another request; take a new key", code="key_reused")


def message_id_used(message_id: str) -> Conflict:
    return Conflict(
        f"this session has or had another message with the id {message_id!r}; take a new id", code="message_id_used"
    )


def input_envelopes(command: Send | Reply, *, trace_id: str | None, run_id: str | None) -> list[Envelope]:
    """The files of a message or an answer, and then itself.

    An enqueued message belongs to no run yet, nor does an answer while other questions are open.
    """
    place = _place(command, trace_id, run_id)
    if isinstance(command, Send):
        owner = command.message_id
        said: list[Envelope] = [Message(**place, call_id=digest_id("message", owner), payload=_said(command))]
    else:
        owner = command.answer.ask_id
        said = [_answered(command, answer, place) for answer in (command.answer, *command.others)]
    found: list[Envelope] = []
    for file in command.documents:
        filed = Filed.of(file.document_id, file.filename, file.mime, file.size, message_id=owner)
        call_id = digest_id("document", owner, file.document_id)
        found.append(Document(**place, call_id=call_id, payload=filed))
    return [*found, *said]


def _answered(reply: Reply, answer: Answered, place: dict[str, Any]) -> UserAnswer:
    seq = reply.seqs.get(answer.ask_id, 1)
    return UserAnswer(**{**place, "seq": seq}, call_id=digest_id("answer", answer.ask_id), payload=answer)


def _said(send: Send) -> Said:
    text = [TextPart(text=send.text)] if send.text else []
    files = [FilePart(document_id=d.document_id, filename=d.filename, mime=d.mime) for d in send.documents]
    return Said(
        message_id=send.message_id,
        role="user",
        content=[*text, *files],
        status="first",
        documents=[file.document_id for file in files] or None,
        input=send.parameters.input,
        config=send.parameters.config,
        context=send.parameters.context,
    )


def stop_envelope(stop: Stop, *, trace_id: str | None, run_id: str) -> StopRequest:
    call_id = digest_id("stop", run_id, str(stop.at))
    return StopRequest(**_place(stop, trace_id, run_id), call_id=call_id, payload=stop.asked)


def withdrawn_from(message: Message) -> Withdrawn:
    said = message.payload
    files = [part for part in said.content if isinstance(part, FilePart)]
    given = {name: getattr(said, name) for name in ("input", "config", "context")}
    sent = {name: value for name, value in given.items() if value is not None}
    return Withdrawn(message_id=said.message_id, text=said.text, documents=files, **sent)


def withdrawal(message_id: str, *, at: float) -> Message:
    """Marks an enqueued message as removed: it will start nothing."""
    said = Said(message_id=message_id, role="user", content=[], status="first", action="removed")
    call_id = digest_id("message removed", message_id)
    return Message(ts=at, parent_id=None, call_id=call_id, seq=1, payload=said)


def earlier_messages(send: Send) -> list[Envelope]:
    """Messages from before the session. They belong to no run."""
    found: list[Envelope] = []
    for number, said in enumerate(send.earlier):
        message_id = f"{send.message_id}-{number}"
        text = TextPart(text=said.content)
        payload = Said(message_id=message_id, role=said.role, content=[text], status="step")
        call_id = digest_id("message", message_id)
        found.append(Message(ts=send.at, parent_id=None, call_id=call_id, seq=1, payload=payload))
    return found


def _place(command: Command, trace_id: str | None, run_id: str | None) -> dict[str, Any]:
    return {"ts": command.at, "trace_id": trace_id, "run_id": run_id, "parent_id": run_id, "seq": 1}
