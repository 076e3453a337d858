"""Open questions of a session, and the check of answers to them."""

from dataclasses import dataclass
from typing import Any

import msgspec

from stellwerk.envelope.model import AskUser, Envelope, RunEnd, UserAnswer
from stellwerk.envelope.payloads import Answered, Asked, Json
from stellwerk.errors import InvalidField
from stellwerk.spec.approvals import check_decision, forms_of
from stellwerk.spec.json_schema import objection


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
        case AskUser(payload=asked):
            question = Question(
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
            return (*open_ones, question)
        case UserAnswer(payload=answered):
            return tuple(one for one in open_ones if one.ask_id != answered.ask_id)
        case RunEnd(payload=ended) if ended.status != "awaiting_user":
            return ()
        case _:
            return open_ones


BREAKPOINT = "The graph pauses here, as its breakpoint says. Go on?"
"""LangGraph gives a breakpoint neither an id nor a value, so this text identifies its question."""
YES, NO = "yes", "no"


@dataclass(frozen=True)
class GoOn:
    """The resume value at a breakpoint: the graph goes on, or not."""

    goes_on: bool


def resume_value(question: Asked, answer: Answered) -> Any:
    """Return the resume value for an answer, in the form that the asking code expects."""
    given = answer.text if answer.data is None else answer.data
    if _is_breakpoint(question):
        return GoOn(given == YES and not answer.refused)
    if question.kind == "approval":
        if answer.refused:
            return {"type": "reject", **({"message": answer.text} if answer.text else {})}
        return {"type": given} if isinstance(given, str) else given
    if question.kind == "elicitation" and answer.refused:
        return {"refused": True}
    return given


def check_answer(question: Asked, answer: Answered) -> None:
    """Check an answer against its question.

    Raises:
        InvalidField: the answer does not fit; the question stays open.
    """
    if answer.refused:
        return
    given, field = (answer.text, "text") if answer.data is None else (answer.data, "data")
    if given is None:
        raise InvalidField("an answer needs text or data", field="text")
    if _is_breakpoint(question) and given not in (YES, NO):
        raise InvalidField(f"choose one of: {YES}, {NO}", field=field)
    options = question.options if question.kind == "question" and field == "text" else None
    if options and given not in options:
        raise InvalidField(f"choose one of: {', '.join(map(str, options))}", field="text")
    if question.schema is None:
        return
    if question.kind == "approval" and forms_of(question.schema):
        decision = resume_value(question, answer)
        check_decision(decision, question.schema, question.tool_name, question.args)
        return
    wrong = objection(question.schema, resume_value(question, answer))
    if wrong is not None:
        path = ".".join(["data", *map(str, wrong.absolute_path)])
        message = f"the answer does not fit the question: {wrong.message[:300]}"
        raise InvalidField(message, field=path)


def _is_breakpoint(question: Asked) -> bool:
    return question.kind == "question" and question.question == BREAKPOINT and question.data is None
