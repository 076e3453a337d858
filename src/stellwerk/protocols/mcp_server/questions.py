"""Questions as elicitations: a flat form for each question, and what the filled form means as its answer."""

from collections.abc import Iterable, Mapping
from typing import Any

import mcp_types as types
import msgspec

from stellwerk.envelope.payloads import Answered, Asked
from stellwerk.spec.approvals import forms_of

ANSWER, DECISION, DETAIL = "answer", "decision", "detail"
_FLAT = ("string", "number", "integer", "boolean")
_DETAIL = "with reject: why; with edit: the new arguments as JSON; with respond: what the tool would have said"


def elicitation(asked: Asked) -> types.ElicitRequestFormParams:
    return types.ElicitRequestFormParams(message=_message(asked), requested_schema=_form(asked))


def answer(asked: Asked, said: types.ElicitResult) -> Answered | None:
    """What was answered; None if the form was closed without a decision, so that the question stays open."""
    if said.action == "cancel":
        return None
    if said.action == "decline":
        return Answered(ask_id=asked.ask_id, refused=True)
    content = said.content or {}
    if asked.kind == "approval":
        detail = content.get(DETAIL) or ""
        return Answered(ask_id=asked.ask_id, text=f"{content.get(DECISION)} {detail}".strip())
    if _is_flat(asked.schema):
        return Answered(ask_id=asked.ask_id, data=dict(content))
    given = content.get(ANSWER)
    if asked.schema is None:
        return Answered(ask_id=asked.ask_id, text=None if given is None else str(given))
    return Answered(ask_id=asked.ask_id, data=_value(given))


def in_words(questions: Iterable[Asked]) -> str:
    """For clients without forms."""
    return "\n\n".join(map(_message, questions))


def described(asked: Asked) -> dict[str, Any]:
    """For programs that read the result."""
    known = {"ask_id": asked.ask_id, "question": asked.question, "kind": asked.kind, "options": _choices(asked) or None}
    return {name: value for name, value in known.items() if value is not None}


def _message(asked: Asked) -> str:
    lines = [asked.question]
    if asked.kind == "approval" and asked.tool_name:
        args = msgspec.json.format(msgspec.json.encode(asked.args)).decode()
        lines.append(f"{asked.tool_name}({args})")
    if choices := _choices(asked):
        lines.append(f"({' | '.join(choices)})")
    return "\n".join(lines)


def _choices(asked: Asked) -> list[str]:
    if asked.kind == "approval":
        return list(forms_of(asked.schema)) or [str(each) for each in asked.options or ("approve", "reject")]
    return [str(each) for each in asked.options or ()]


def _form(asked: Asked) -> dict[str, Any]:
    if asked.kind == "approval":
        decision = {"type": "string", "enum": _choices(asked)}
        detail = {"type": "string", "description": _DETAIL}
        return {"type": "object", "properties": {DECISION: decision, DETAIL: detail}, "required": [DECISION]}
    if _is_flat(asked.schema):
        return {name: asked.schema[name] for name in ("type", "properties", "required") if name in asked.schema}
    field: dict[str, Any] = {"type": "string"}
    if asked.schema is not None:
        field["description"] = f"as JSON, for this schema: {msgspec.json.encode(asked.schema).decode()}"
    elif asked.options:
        field["enum"] = _choices(asked)
    if isinstance(asked.default, str):
        field["default"] = asked.default
    return {"type": "object", "properties": {ANSWER: field}, "required": [ANSWER]}


def _is_flat(schema: Any) -> bool:
    """Whether it is a form: an object of plain values, as elicitations allow."""
    match schema:
        case {"type": "object", "properties": dict(fields)} if fields:
            return all(isinstance(field, Mapping) and field.get("type") in _FLAT for field in fields.values())
    return False


def _value(given: Any) -> Any:
    """The value of a JSON text; the text itself if it is none."""
    if not isinstance(given, str):
        return given
    try:
        return msgspec.json.decode(given)
    except msgspec.DecodeError:
        return given
