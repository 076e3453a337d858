"""Requests for review in interrupts of an operator's graph, and the answers that the graph expects.

Two forms are known: ``HITLRequest`` of LangChain's HumanInTheLoopMiddleware, and the list of
``HumanInterrupt`` that Agent Inbox shows. Each action in a request is an approval with the four
decisions of our own approvals: approve, edit, reject, respond.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from stellwerk.errors import InvalidField
from stellwerk.spec.model import DECISIONS

_CONFIG = {"approve": "allow_accept", "edit": "allow_edit", "reject": "allow_ignore", "respond": "allow_respond"}
"""The fields in which a HumanInterrupt allows our decisions."""
_INBOX_TYPES = {"approve": "accept", "edit": "edit", "reject": "ignore", "respond": "response"}
"""Our decisions as types of a HumanResponse."""
_OUR_TYPES = {theirs: ours for ours, theirs in _INBOX_TYPES.items()}
_WORDS = {
    **{"approve": "approve", "accept": "approve", "yes": "approve"},
    **{"reject": "reject", "ignore": "reject", "no": "reject"},
    **{"edit": "edit", "respond": "respond", "response": "respond"},
}
"""The first word of an answer, and the decision it means."""
_FIRST_WORD = re.compile(r"\s*(\w+)(?=[\s:,.;!]|$)[\s:,.;!–—-]*(.*)", re.DOTALL)
_UNEXPLAINED = "Tool execution requires approval"
"""LangChain's text for a call without a description."""


class ReviewedAction(NamedTuple):
    """One action of a request for review."""

    name: str
    args: Any
    question: str
    decisions: Sequence[str]
    """Those that are allowed."""
    request: Any
    """A request for this action alone, in the form of the graph."""


def requested_actions(value: Any) -> list[ReviewedAction]:
    """The actions that an interrupt's value asks to review; empty if it has neither form."""
    match value:
        case {"action_requests": list(requests), "review_configs": list(configs)}:
            found = [_hitl_action(request, configs) for request in requests]
        case list():
            found = [_inbox_action(request) for request in value]
        case {"action_request": _}:
            found = [_inbox_action(value)]
        case _:
            return []
    actions = [action for action in found if action is not None]
    return actions if len(actions) == len(found) else []


def _hitl_action(request: Any, configs: Sequence[Any]) -> ReviewedAction | None:
    match request:
        case {"name": str(name), "args": dict(args)}:
            config = next((each for each in configs if _is_config_of(each, name)), None)
        case _:
            return None
    if config is None:
        return None
    allowed = [decision for decision in DECISIONS if decision in config["allowed_decisions"]]
    alone = {"action_requests": [request], "review_configs": [config]}
    return ReviewedAction(name, args, _description(request), allowed, alone)


def _is_config_of(config: Any, name: str) -> bool:
    match config:
        case {"action_name": str(action), "allowed_decisions": list(allowed)}:
            return action == name and any(decision in DECISIONS for decision in allowed)
    return False


def _inbox_action(request: Any) -> ReviewedAction | None:
    match request:
        case {"action_request": {"action": str(name), "args": args}, "config": dict(config)}:
            allowed = [decision for decision in DECISIONS if config.get(_CONFIG[decision]) is True]
        case _:
            return None
    return ReviewedAction(name, args, _description(request), allowed, [request]) if allowed else None


def _description(request: Mapping[str, Any]) -> str:
    found = request.get("description")
    return found if isinstance(found, str) and found else _UNEXPLAINED


def decision_schema(action: ReviewedAction) -> dict[str, Any]:
    """The JSON Schema of a decision, as LangChain publishes it for one call."""
    properties = {"name": {"type": "string"}, "args": {"type": "object"}}
    edited = {"type": "object", "properties": properties, "required": ["name", "args"]}
    message = {"message": {"type": "string"}}
    forms: dict[str, tuple[dict[str, Any], list[str]]] = {
        "approve": ({}, []),
        "edit": ({"edited_action": edited}, ["edited_action"]),
        "reject": (message, []),
        "respond": (message, ["message"]),
    }
    defined: dict[str, Any] = {}
    for decision in action.decisions:
        fields, required = forms[decision]
        defined[decision] = {
            "type": "object",
            "properties": {"type": {"const": decision}, **fields},
            "required": ["type", *required],
        }
    paths = {decision: f"#/$defs/{decision}" for decision in action.decisions}
    return {
        "$defs": defined,
        "discriminator": {"mapping": paths, "propertyName": "type"},
        "oneOf": [{"$ref": path} for path in paths.values()],
    }


def decision_in_words(text: str, tool: str | None, options: Sequence[Any] | None) -> Any:
    """The decision that a text means; the text itself if it means none.

    The first word decides. A reason may follow a rejection, the arguments as JSON an edit, the
    answer in place of the tool a response. Nothing may follow an approval: it could be a condition.
    """
    found = _FIRST_WORD.fullmatch(text)
    word, rest = (found[1].lower(), found[2].strip()) if found else ("", "")
    decision = _WORDS.get(word)
    if list(options or ()) == ["respond"] and (decision != "respond" or not rest):
        return {"type": "respond", "message": text}
    match decision:
        case "approve" if not rest:
            return {"type": "approve"}
        case "reject" | "respond":
            return {"type": decision, **({"message": rest} if rest else {})}
        case "edit":
            args = _json(rest)
            return {"type": "edit", **({"edited_action": {"name": tool, "args": args}} if rest else {})}
    return text


def _json(text: str) -> Any:
    """The value of a JSON text; the text itself if it is none."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return text


def decisions_in(data: Any) -> list[Any] | None:
    """The decisions in an answer that is in the form of a graph; None if it is in none."""
    match data:
        case {"decisions": list(decisions)}:
            return decisions
        case list():
            return data
    return None


def our_decision(given: Any) -> Any:
    """A decision in the form of our approvals, from a HumanResponse of Agent Inbox or an edit in camel case."""
    match given:
        case {"type": "edit", "editedAction": dict(edited)}:
            return {"type": "edit", "edited_action": edited}
        case {"type": "accept" | "ignore" as kind}:
            return {"type": _OUR_TYPES[kind]}
        case {"type": "response", "args": text}:
            return {"type": "respond", "message": text}
        case {"type": "edit", "args": {"action": name, "args": args}}:
            return {"type": "edit", "edited_action": {"name": name, "args": args}}
    return given


def resume_with(requests: Sequence[Any], decisions: Sequence[Any]) -> Any:
    """The value that the graph expects for these decisions, one for each request of one action.

    Agent Inbox answers with a list, also where the interrupt's value was a single request.
    """
    if not isinstance(requests[0], list):
        return {"decisions": list(decisions)}
    return [
        {"type": _INBOX_TYPES[each["type"]], "args": _inbox_args(request, each)}
        for [request], each in zip(requests, decisions, strict=True)
    ]


def _inbox_args(request: Mapping[str, Any], decision: Mapping[str, Any]) -> Any:
    match decision:
        case {"type": "approve"} if request["config"].get(_CONFIG["edit"]) is True:
            return request["action_request"]  # as Agent Inbox does: the form was not edited
        case {"type": "edit", "edited_action": edited}:
            return {"action": edited["name"], "args": edited["args"]}
        case {"type": "respond", "message": message}:
            return message
    return None


def check_count(decisions: Sequence[Any], actions: Sequence[str]) -> None:
    """
    Raises:
        InvalidField: there is not one decision for each action.
    """
    if len(decisions) != len(actions):
        names = ", ".join(actions)
        problem = f"{len(decisions)} decisions for {len(actions)} actions; send one for each, in this order: {names}"
        raise InvalidField(problem, field="data")
