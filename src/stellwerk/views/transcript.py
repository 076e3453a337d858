"""The transcript: the conversation as messages, questions and answers.

A message is in the log once, when it is finished, so each entry follows from one
envelope. A second fold, ``Hidden``, knows the messages that were removed, and the
rounds that another run replaced.
"""

from functools import partial
from typing import Literal

import msgspec
from msgspec.structs import replace

from stellwerk.envelope.model import AskUser, Envelope, Message, RunStart, UserAnswer, decode
from stellwerk.envelope.payloads import FilePart, Json, TextPart
from stellwerk.views.rounds import Rounds, run_starts

TYPES = ("message", "ask_user", "user_answer")
"""The types that a page of the transcript is made of."""
_TITLE = 80


class Hidden(msgspec.Struct, frozen=True, kw_only=True):
    removed: tuple[str, ...] = ()
    """Messages, also those of rounds that were replaced."""
    replaced: dict[str, str | None] = {}
    """Runs of replaced rounds, and the message that is answered instead: the same one, if it is answered again."""
    rounds: Rounds = ()


class TranscriptEntry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    position: int
    """Its position in the log; also the cursor of the next page."""
    kind: Literal["message", "question", "answer"]
    role: str
    text: str
    content: list[TextPart | FilePart] | None = None
    message_id: str | None = None
    status: str | None = None
    """For a message: ``first``, ``step`` or ``last`` of its round."""
    ask_id: str | None = None
    options: list[Json] | None = None
    data: Json = None
    """The data of an answer that is not text, the input of a message to a graph, or its structured output."""
    refused: bool = False
    documents: list[str] | None = None
    agent: str | None = None
    author: str | None = None
    run_id: str | None = None
    ts: float


def fold(hidden: Hidden, envelope: Envelope) -> Hidden:
    match envelope:
        case Message(payload=said) if said.action == "removed":
            return replace(hidden, removed=(*hidden.removed, said.message_id))
        case RunStart(payload=started):
            rounds, gone = run_starts(hidden.rounds, envelope)
            if not gone.runs:
                return replace(hidden, rounds=rounds)
            replaced = hidden.replaced | dict.fromkeys(sorted(gone.runs), started.message_id)
            return Hidden(removed=(*hidden.removed, *sorted(gone.messages)), replaced=replaced, rounds=rounds)
        case _:
            return hidden


def entry(hidden: Hidden, position: int, envelope: Envelope) -> TranscriptEntry | None:
    """Return the entry of an envelope; None if it has none."""
    is_replaced = envelope.run_id in hidden.replaced or envelope.trace_id in hidden.replaced
    made = partial(TranscriptEntry, position=position, run_id=envelope.run_id, ts=envelope.ts)
    match envelope:
        case Message(payload=said) if said.action == "added" and is_visible(hidden, envelope):
            return made(
                kind="message",
                role=said.role,
                text=said.text,
                content=said.content,
                message_id=said.message_id,
                status=said.status,
                documents=said.documents,
                data=said.input if said.output is None else said.output,
                agent=envelope.agent,
                author=said.author,
            )
        case AskUser(payload=asked) if not (is_replaced or asked.redacted):
            return made(
                kind="question",
                role="assistant",
                text=asked.question,
                ask_id=asked.ask_id,
                options=asked.options,
                agent=envelope.agent,
            )
        case UserAnswer(payload=given) if not (is_replaced or given.redacted):
            return made(
                kind="answer",
                role="user",
                text=given.text or "",
                ask_id=given.ask_id,
                data=given.data,
                refused=given.refused,
            )
        case _:
            return None


def is_visible(hidden: Hidden, envelope: Message) -> bool:
    message_id, run_id = envelope.payload.message_id, envelope.run_id
    if message_id in hidden.removed:
        return False
    return run_id not in hidden.replaced or hidden.replaced[run_id] == message_id


def title(body: bytes) -> str | None:
    """Return the beginning of a message in one line; without text, the names of its files, or its input."""
    try:
        message = decode(body)
    except msgspec.DecodeError:  # one damaged log must not break the list of all others
        return None
    assert isinstance(message, Message)
    said = message.payload
    files = ", ".join(part.filename for part in said.content if isinstance(part, FilePart))
    line = " ".join(said.text[: 5 * _TITLE].split()) or files
    if not line and said.input is not None:
        line = msgspec.json.encode(said.input).decode()
    if len(line) > _TITLE:
        line = f"{line[: _TITLE - 1].rstrip()}…"
    return line or None
