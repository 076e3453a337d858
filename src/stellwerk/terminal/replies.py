"""Replies: what the user typed becomes the answer to a question. Pure; whether it fits is checked by ``stream``."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from stellwerk.envelope.payloads import Answered, Asked
from stellwerk.errors import InvalidField
from stellwerk.terminal.short import value

_TRUE = ("yes", "y", "true")
_FALSE = ("no", "n", "false")
_PLAIN = ("string", "number", "integer", "boolean")


def answered(asked: Asked, given: Any) -> Answered:
    """A text is a text; anything else is data."""
    if isinstance(given, str):
        return Answered(ask_id=asked.ask_id, text=given)
    return Answered(ask_id=asked.ask_id, data=given)


def chosen(options: Sequence[Any], typed: str) -> Any:
    """The option of which the number, the name or the beginning was typed.

    Raises:
        InvalidField: it is none of them, or could be several.
    """
    text = typed.strip().lower()
    if text.isdecimal() and 1 <= int(text) <= len(options):
        return options[int(text) - 1]
    exact = [option for option in options if value(option).lower() == text]
    near = exact or [option for option in options if text and value(option).lower().startswith(text)]
    if len(near) != 1:
        raise InvalidField(f"type a number from 1 to {len(options)}, or what it stands for", field="text")
    return near[0]


def typed_as(schema: Mapping[str, Any], typed: str) -> Any:
    """The value that a schema wants, as far as the typed text can be one; else the text, which will not fit."""
    kind, text = schema.get("type"), typed.strip()
    if kind == "boolean" and text.lower() in _TRUE + _FALSE:
        return text.lower() in _TRUE
    if kind == "string":
        return typed
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return typed


def fields(schema: Any) -> dict[str, Mapping[str, Any]] | None:
    """The fields of a form, if the schema is one: an object of plain values, which can be asked one by one."""
    if not isinstance(schema, dict) or schema.get("type") != "object":
        return None
    found = schema.get("properties")
    if not isinstance(found, dict) or not found:
        return None
    plain = all(isinstance(one, dict) and (one.get("type") in _PLAIN or "enum" in one) for one in found.values())
    return found if plain else None


def hint(schema: Mapping[str, Any]) -> str:
    """What a value must be, in a few words."""
    if isinstance(schema.get("enum"), list):
        return " | ".join(value(option) for option in schema["enum"])
    kind = schema.get("type")
    word = {"boolean": "yes or no", "integer": "a whole number", "number": "a number", "string": ""}.get(str(kind))
    least, most = schema.get("minimum"), schema.get("maximum")
    span = "" if least is None and most is None else f"{'' if least is None else least}…{'' if most is None else most}"
    return " ".join(part for part in (f"JSON: {value(schema)}" if word is None else word, span) if part)
