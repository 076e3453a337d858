"""Questions: what a session has asked its user and got no answer to."""

import msgspec

from stellwerk.envelope.model import AskUser, Envelope, RunEnd, UserAnswer
from stellwerk.envelope.payloads import Json


class Question(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    ask_id: str
    question: str
    kind: str
    agent: str | None = None
    schema: Json = None
    options: list[Json] | None = None
    default: Json = None
    tool_name: str | None = None
    args: Json = None
    asked_at: float


def fold(open_ones: tuple[Question, ...], envelope: Envelope) -> tuple[Question, ...]:
    match envelope:
        case AskUser():
            return (*open_ones, _question(envelope))
        case UserAnswer(payload=answered):
            return tuple(one for one in open_ones if one.ask_id != answered.ask_id)
        case RunEnd(payload=ended) if ended.status != "awaiting_user":
            return ()
        case _:
            return open_ones


def _question(envelope: AskUser) -> Question:
    asked = envelope.payload
    return Question(
        ask_id=asked.ask_id,
        question=asked.question,
        kind=asked.kind,
        agent=envelope.agent,
        schema=asked.schema,
        options=asked.options,
        default=asked.default,
        tool_name=asked.tool_name,
        args=asked.args,
        asked_at=envelope.ts,
    )
