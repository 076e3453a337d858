"""Answering: what the answer to a question must look like, and what the graph that asked gets for it."""

from typing import Any

from stellwerk.envelope.payloads import Answered, Asked
from stellwerk.errors import InvalidField
from stellwerk.spec.decisions import Approval, forms_of
from stellwerk.spec.foreign import objection

BREAKPOINT = "The graph pauses here, as its breakpoint says. Go on?"
"""LangGraph gives a breakpoint neither an id nor a value. By these words of ours its question is known."""
YES, NO = "yes", "no"


class GoOn:
    """What a graph gets at a breakpoint: nothing, but that it goes on, or not."""

    def __init__(self, goes_on: bool) -> None:
        self.goes_on = goes_on


def resume_value(question: Asked, answer: Answered) -> Any:
    """What the graph gets for an answer, in the form that the one who asked understands."""
    given = answer.data if answer.data is not None else answer.text
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
    """
    Raises:
        InvalidField: the answer does not fit what was asked; the question stays open.
    """
    if answer.refused:
        return
    if answer.text is None and answer.data is None:
        raise InvalidField("an answer needs text or data", field="text")
    if _is_breakpoint(question) and (answer.text if answer.data is None else answer.data) not in (YES, NO):
        raise InvalidField(f"choose one of: {YES}, {NO}", field="text" if answer.data is None else "data")
    if question.kind == "question" and question.options and answer.data is None and answer.text not in question.options:
        raise InvalidField(f"choose one of: {', '.join(map(str, question.options))}", field="text")
    if question.schema is None:
        return
    if question.kind == "approval" and forms_of(question.schema):
        Approval(question.schema, question.tool_name, question.args).check(resume_value(question, answer))
        return
    wrong = objection(question.schema, resume_value(question, answer))
    if wrong is not None:
        place = ".".join(["data", *map(str, wrong.absolute_path)])
        raise InvalidField(f"the answer does not fit the question: {wrong.message[:300]}", field=place)


def _is_breakpoint(question: Asked) -> bool:
    return question.kind == "question" and question.question == BREAKPOINT and question.data is None
