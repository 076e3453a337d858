"""Error messages: validation errors of pydantic in words, and suggestions for unknown names."""

import re
from collections.abc import Collection, Iterator
from difflib import get_close_matches
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from stellwerk.spec.yaml import excerpt, join_path

LETTER_PAIRS = 200_000
LISTED = 30
OPERATOR_ONLY = frozenset({"command", "args", "env", "cwd", "url", "base_url", "import", "module", "function"})
_REGISTERED = "only the operator's file (--config) says what is run, imported or reached; name what is registered there"
PATTERNS = {
    r"^[A-Za-z0-9][A-Za-z0-9_-]*$": "a name has letters, digits, _ and -, and begins with a letter or digit",
    r"^[^\s${}]+$": "the name of a model has no spaces, dollars or braces",
    r"^[^:\s]+:[A-Za-z_]\w*$": "write package.module:name, or path/to/file.py:name",
    r"^[^:\s]+:\S+$": "write provider:model, or path/to/file.py:function",
    r"^([1-9][0-9]{0,4}[mhd]|never)$": "write a time such as 90d, 12h or 30m, or never",
    r"^[1-9][0-9]{0,5}[mg]$": "write a size such as 512m or 2g",
    r"^https?://\S+$": "an address begins with http:// or https://",
    r"^([a-z0-9]{1,10}|\*)$": "an extension has small letters and digits, and no dot; * is any",
}
"""Each pattern of the models, in words."""
_TYPES = {
    "model_type": "a mapping (key: value)",
    "dict_type": "a mapping (key: value)",
    "list_type": "a list",
    "string_type": "a text",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
}
_SHOULD = re.compile(r"^[A-Z]\w* should")
_IMPORT_PATH = re.compile(r"[\w/.-]+:\w+|\w+(?:\.\w+)+(?:\(.*\))?|.*\.py\b.*")


class Suggestions:
    """The nearest known name.

    Comparing names letter by letter has one budget per document: fifty near
    misses among two hundred long names would take seconds.
    """

    def __init__(self) -> None:
        self._pairs_left = LETTER_PAIRS

    def did_you_mean(self, found: str, known: Collection[str], *, otherwise: str | None = None) -> str:
        """The nearest name; ``otherwise`` if none is near, by default a list of all."""
        self._pairs_left -= len(found) * sum(map(len, known))
        near = get_close_matches(found, known, n=1, cutoff=0.75) if self._pairs_left >= 0 else []
        return f"did you mean {near[0]!r}?" if near else otherwise or _listed(known)


def _listed(known: Collection[str]) -> str:
    if not known:
        return "none is known"
    names = ", ".join(sorted(known)[:LISTED])
    more = f" and {len(known) - LISTED} more" if len(known) > LISTED else ""
    return f"known are: {names}{more}"


def messages(error: ValidationError, root: type[BaseModel]) -> Iterator[tuple[str, str]]:
    """Path and message, one for each field."""
    seen: set[str] = set()
    suggestions = Suggestions()
    for detail in error.errors(include_url=False):
        path, key = "", ""
        kind: Any = root
        for step in detail["loc"]:
            if step == "[key]":
                continue
            inner = _type_inside(kind, step)
            if inner is None and detail["type"] != "extra_forbidden":
                break  # pydantic names the branch of a union, which the document does not have
            path, key = join_path(path, step), str(step)
            kind = kind if inner is None else inner
        if path in seen:
            continue
        seen.add(path)
        if detail["type"] == "extra_forbidden":
            known = list(getattr(kind, "model_fields", ()))
            yield path, _unknown_key(key, known, root, suggestions)
        else:
            yield path, _message(detail, key, suggestions)


def _message(detail: ErrorDetails, key: str, suggestions: Suggestions) -> str:
    value = detail["input"]
    match detail["type"]:
        case "missing":
            return "this is missing; add it"
        case "json_invalid":
            return f"this is not JSON: {detail['ctx']['error']}"
        case "literal_error":
            return _not_in_list(value, detail["ctx"]["expected"], suggestions)
        case "string_pattern_mismatch":
            return _pattern_mismatch(str(value), PATTERNS[detail["ctx"]["pattern"]])
        case "too_short" if not value:
            return f"this is empty; it needs at least one {key.removesuffix('s')}"
        case kind if kind in _TYPES:
            return f"found {_shown(value)}; {_wrong_type(kind, key, value)}"
        case "value_error":
            return detail["msg"].removeprefix("Value error, ")
        case _:
            return f"found {_shown(value)}; {_SHOULD.sub('it must', detail['msg'], count=1)}"


def _wrong_type(kind: str, key: str, value: object) -> str:
    if kind == "string_type" and isinstance(value, int | float):
        return "expected a text: put it in quotes"
    if kind == "model_type" and (meant := _full_form(key, value)):
        return f"write {meant}"
    return f"expected {_TYPES[kind]}"


def _full_form(key: str, value: object) -> str | None:
    """The mapping that was meant by a name, for keys at which users often write one."""
    if key == "tools" and isinstance(value, str | list):
        names = [value] if isinstance(value, str) else [str(name) for name in value]
        return f"tools: {{allow: [{excerpt(', '.join(names))}]}}"
    if key in ("model", "default_model") and isinstance(value, str):
        provider, _, model = value.rpartition(":")
        return f"{key}: {{provider: {excerpt(provider) or '…'}, model: {excerpt(model)}}}"
    return None


def _unknown_key(key: str, known: Collection[str], root: type[BaseModel], suggestions: Suggestions) -> str:
    if key in OPERATOR_ONLY and root.__name__ != "Operator":
        return f"an agent system cannot say {key!r}: {_REGISTERED}"
    if " " in key:
        hint = "within {…} a comma ends a text, so put texts with commas in quotes"
    else:
        hint = suggestions.did_you_mean(key, known)
    return f"there is no key {excerpt(key)!r} here; {hint}"


def _not_in_list(value: object, expected: str, suggestions: Suggestions) -> str:
    names = re.findall(r"'([^']*)'", expected)
    if not names:
        hint = f"expected {expected}"
    elif isinstance(value, str):
        hint = suggestions.did_you_mean(value, names)
    else:
        hint = f"known are: {', '.join(names)}"
    return f"found {_shown(value)}; {hint}"


def _pattern_mismatch(text: str, words: str) -> str:
    if words.startswith("a name") and _IMPORT_PATH.fullmatch(text):
        return f"found {excerpt(text)!r}, which looks like code to import: {_REGISTERED}"
    return f"found {excerpt(text)!r}; {words}"


def _shown(value: object) -> str:
    match value:
        case None:
            return "nothing"
        case bool():
            return str(value).lower()
        case str():
            return repr(excerpt(value))
        case dict():
            return "a mapping"
        case list():
            return "a list"
        case _:
            return excerpt(str(value))


def _type_inside(kind: Any, step: str | int) -> Any:
    """The type of a field, item or value, without Annotated and None; None if there is none."""
    inner: Any = None
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        inner = kind.model_fields[step].annotation if step in kind.model_fields else None
    elif get_origin(kind) is list and isinstance(step, int):
        inner = get_args(kind)[0]
    elif get_origin(kind) is dict:
        inner = get_args(kind)[1]
    while get_origin(inner) in (Annotated, Union, UnionType):
        inner = next(branch for branch in get_args(inner) if branch is not type(None))
    return inner
