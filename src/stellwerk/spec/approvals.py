"""Approvals: the decisions that a waiting call allows, and the check of an answer."""

from collections.abc import Mapping
from typing import Any

import msgspec

from stellwerk.errors import InvalidField

_EXAMPLE_LIMIT = 400
"""Characters of arguments that an example repeats."""

_WORDS = {
    "approve": "approve",
    "edit": "edit {new arguments as JSON}",
    "reject": "reject: why",
    "respond": "respond: what to answer in its place",
}


def check_decision(given: Any, schema: Mapping[str, Any], tool: str | None, args: Any) -> None:
    """
    Raises:
        InvalidField: it is none of the open decisions; shows these as they are sent.
    """
    from stellwerk.spec.json_schema import objection  # not in the environments of isolated graphs

    if objection(dict(schema), given) is None:
        return
    forms = forms_of(schema)
    chosen = given.get("type") if isinstance(given, dict) else None
    if not isinstance(chosen, str) or chosen not in forms:
        examples = " or ".join(_example(decision, tool, args) for decision in forms)
        words = "; ".join(_WORDS[decision] for decision in forms if decision in _WORDS)
        problem = f"this is not one of the decisions that are open; answer {examples}; or in words: {words}"
        raise InvalidField(problem, field="data")
    # Against the chosen form only: against all of them, the error could only be that none fits.
    wrong = objection({"$defs": schema.get("$defs", {}), **forms[chosen]}, given)
    why, path = "", ["data"]
    if wrong is not None:
        why = f": {wrong.message[:300]}"
        path += map(str, wrong.absolute_path)
    problem = f"the answer does not fit the question{why}; for example {_example(chosen, tool, args)}"
    raise InvalidField(problem, field=".".join(path))


def forms_of(schema: Any) -> Mapping[str, Mapping[str, Any]]:
    """The decisions that a schema names, each with its form; empty if it is of no approval."""
    match schema:
        case {"discriminator": {"mapping": dict(forms)}}:
            return {decision: {"$ref": form} for decision, form in forms.items()}
        case {"properties": {"type": {"const": str(decision)}}}:
            return {decision: schema}  # a single decision has no name for its form
    return {}


def _example(decision: str, tool: str | None, args: Any) -> str:
    more: dict[str, Any] = {}
    if decision == "respond":
        more = {"message": "what the tool would have said"}
    elif decision == "edit":
        is_short = len(msgspec.json.encode(args)) <= _EXAMPLE_LIMIT
        more = {"edited_action": {"name": tool, "args": args if is_short else {}}}
    return msgspec.json.encode({"data": {"type": decision, **more}}).decode()
