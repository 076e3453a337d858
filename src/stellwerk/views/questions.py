"""Open questions of a session, and the check of answers to them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from msgspec.structs import replace

from stellwerk.envelope.model import AskUser, Envelope, RunEnd, UserAnswer
from stellwerk.envelope.payloads import Answered, Asked, Json
from stellwerk.errors import InvalidField
from stellwerk.spec.approvals import check_decision, forms_of
from stellwerk.spec.review_requests import (
    check_count,
    decision_in_words,
    decisions_in,
    our_decision,
    requested_actions,
    resume_with,
)


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
    interrupt_id: str | None = None
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
                interrupt_id=asked.interrupt_id,
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


def resume_values(questions: Iterable[Asked], answers: Mapping[str, Answered]) -> dict[str, Any]:
    """Return the resume value for each interrupt, in the form that the asking code expects."""
    values: dict[str, Any] = {}
    reviews: dict[str, list[tuple[Asked, Answered]]] = {}
    for question in questions:
        answer = answers[question.ask_id]
        if _is_review(question):
            reviews.setdefault(question.interrupt_id or question.ask_id, []).append((question, answer))
        else:
            values[question.ask_id] = resume_value(question, answer)
    for interrupt_id, answered in reviews.items():
        decisions = [_decision(question, answer) for question, answer in answered]
        values[interrupt_id] = resume_with([question.data for question, _ in answered], decisions)
    return values


def resume_value(question: Asked, answer: Answered) -> Any:
    """Return what an answer means to the question: for an approval, the decision."""
    given = answer.text if answer.data is None else answer.data
    if _is_breakpoint(question):
        return GoOn(given == YES and not answer.refused)
    if question.kind == "approval":
        return _decision(question, answer)
    if question.kind == "elicitation" and answer.refused:
        return {"refused": True}
    return given


def _is_review(question: Asked) -> bool:
    return question.kind == "approval" and bool(requested_actions(question.data))


def _decision(question: Asked, answer: Answered) -> Any:
    if answer.refused:
        return {"type": "reject", **({"message": answer.text} if answer.text else {})}
    given = answer.text if answer.data is None else answer.data
    decisions = decisions_in(given)
    if decisions is not None and len(decisions) == 1:
        given = decisions[0]
    given = our_decision(given)
    if isinstance(given, str):
        given = decision_in_words(given, question.tool_name, question.options)
    return {"type": given} if isinstance(given, str) else given


def decided(question: Asked, answer: Answered) -> Answered:
    """Return an answer that fits in the form in which it is recorded: an approval as the decision."""
    decision = _decision(question, answer) if question.kind == "approval" else None
    if not isinstance(decision, dict) or answer.refused or answer.data == decision:
        return answer
    kind = decision.get("type")
    if answer.data is None and answer.text == kind:
        return answer
    if kind == "reject":
        return Answered(ask_id=answer.ask_id, refused=True, text=decision.get("message"))
    return Answered(ask_id=answer.ask_id, data=decision)


def answers_to(questions: Sequence[Asked], answer: Answered) -> list[Answered]:
    """Return one answer for each action, if it answers an interrupt with several of them as a whole.

    Raises:
        InvalidField: there is not one decision for each action.
    """
    ids = {question.interrupt_id for question in questions}
    wanted = answer.ask_id or (ids.pop() if len(ids) == 1 else None)
    asked = [question for question in questions if question.interrupt_id and question.interrupt_id == wanted]
    decisions = decisions_in(answer.data)
    if not asked or decisions is None:
        return [answer]
    check_count(decisions, [question.tool_name or "" for question in asked])
    pairs = zip(asked, decisions, strict=True)
    return [replace(answer, ask_id=question.ask_id, data=decision) for question, decision in pairs]


def check_answer(question: Asked, answer: Answered) -> None:
    """Check an answer against its question.

    Raises:
        InvalidField: the answer does not fit; the question stays open.
    """
    if answer.refused and question.kind != "approval":
        return
    given, field = (answer.text, "text") if answer.data is None else (answer.data, "data")
    if given is None and not answer.refused:
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
    from stellwerk.spec.json_schema import objection  # not in the environments of isolated graphs

    wrong = objection(question.schema, resume_value(question, answer))
    if wrong is not None:
        path = ".".join(["data", *map(str, wrong.absolute_path)])
        message = f"the answer does not fit the question: {wrong.message[:300]}"
        raise InvalidField(message, field=path)


def _is_breakpoint(question: Asked) -> bool:
    return question.kind == "question" and question.question == BREAKPOINT and question.data is None
