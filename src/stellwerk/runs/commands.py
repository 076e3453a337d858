"""Commands: what somebody asks of a session, as frozen data, and the envelopes it begins with."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from stellwerk.envelope.model import Envelope, Message, RunStart
from stellwerk.envelope.payloads import RunStarted, Said, TextPart
from stellwerk.ids import digest_id
from stellwerk.spec.chat import ChatMessage


@dataclass(frozen=True, slots=True)
class Send:
    """A user's message; ids and time were given when it came in."""

    tenant: str
    session_id: str
    text: str
    system: str
    system_version: int
    run_id: str
    trace_id: str
    message_id: str
    at: float
    key: str | None = None
    """The Idempotency-Key of the request."""
    earlier: Sequence[ChatMessage] = ()
    """What was said elsewhere before the session began."""

    def digest(self) -> str:
        return hashlib.sha256(self.text.encode()).hexdigest()


class Accepted(msgspec.Struct, frozen=True, kw_only=True):
    """The input is in the log; the run it starts will end visibly."""

    round: int
    run_id: str
    message_id: str
    position: int
    """Of the message."""
    after: int
    """The cursor that shows the run whole."""
    status: str = "accepted"


def first_envelopes(send: Send, *, round: int) -> list[Envelope]:
    """How every run begins: its start, then the message that started it; before them what belongs to no run."""
    earlier = [_earlier(send, f"{send.message_id}-{n}", said) for n, said in enumerate(send.earlier)]
    start = RunStart(
        ts=send.at,
        trace_id=send.trace_id,
        run_id=send.run_id,
        parent_id=None,
        call_id=send.run_id,
        seq=1,
        payload=RunStarted(
            round=round,
            trigger="message",
            system=send.system,
            system_version=send.system_version,
            message_id=send.message_id,
        ),
    )
    message = Message(
        ts=send.at,
        trace_id=send.trace_id,
        run_id=send.run_id,
        parent_id=send.run_id,
        call_id=digest_id("message", send.message_id),
        seq=1,
        payload=Said(message_id=send.message_id, role="user", content=[TextPart(text=send.text)], status="first"),
    )
    return [*earlier, start, message]


def _earlier(send: Send, message_id: str, said: ChatMessage) -> Envelope:
    payload = Said(message_id=message_id, role=said.role, content=[TextPart(text=said.content)], status="step")
    return Message(ts=send.at, parent_id=None, call_id=digest_id("message", message_id), seq=1, payload=payload)
