"""What pydantic found, said so that it can be repaired: what stands there, what is expected, what was meant."""

import re
from collections.abc import Collection, Iterator, Sequence
from types import UnionType
from typing import Annotated, Any, NamedTuple, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from stellwerk.spec.document import inside
from stellwerk.spec.hints import Hints
from stellwerk.spec.scalars import short, value_of

OPERATOR_ONLY = frozenset({"command", "args", "env", "cwd", "url", "base_url", "import", "module", "function"})
_NAMED = "only the operator's file (--config) says what is run, imported or reached; name what is registered there"
SHAPES = {
    r"^[A-Za-z0-9][A-Za-z0-9_-]*$": "a name has letters, digits, _ and -, and begins with a letter or digit",
    r"^[^\s${}]+$": "the name of a model has no spaces, dollars or braces",
    r"^[^:\s]+:[A-Za-z_]\w*$": "write package.module:name, or path/to/file.py:name",
    r"^([1-9][0-9]{0,4}[mhd]|never)$": "write a time such as 90d, 12h or 30m, or never",
    r"^https?://\S+$": "an address begins with http:// or https://",
    r"^([a-z0-9]{1,10}|\*)$": "an extension has small letters and digits, and no dot; * is any",
}
"""Each pattern of the models, in words."""
_WORDS = {
    "model_type": "a mapping (key: value)",
    "dict_type": "a mapping (key: value)",
    "list_type": "a list",
    "string_type": "a text",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
}
_PLAIN: dict[str, tuple[type, ...]] = {"int_type": (int,), "float_type": (int, float), "bool_type": (bool,)}
"""What a text in quotes may be meant to be."""
_SHOULD = re.compile(r"^[A-Z]\w* should")
_IMPORT_PATH = re.compile(r"[\w/.-]+:\w+|\w+(?:\.\w+)+(?:\(.*\))?|.*\.py\b.*")


class Flaw(NamedTuple):
    """One place of a document that does not fit its model."""

    steps: Sequence[str | int]
    type: str


def flaws(error: ValidationError, root: type[BaseModel]) -> Iterator[Flaw]:
    """Each place that pydantic found, as the way to it."""
    for detail in error.errors(include_url=False):
        yield Flaw(_steps(detail, root), detail["type"])


def findings(error: ValidationError, root: type[BaseModel]) -> Iterator[tuple[str, str]]:
    """Field and sentence, one for each place."""
    told: set[str] = set()
    hints = Hints()
    for detail in error.errors(include_url=False):
        steps = _steps(detail, root)
        where = ""
        for step in steps:
            where = inside(where, step)
        if where not in told:
            told.add(where)
            yield where, _sentence(detail, steps, root, hints)


def _steps(detail: ErrorDetails, root: type[BaseModel]) -> Sequence[str | int]:
    """The path in the document: pydantic's, without the branch of a union it was in."""
    steps = [step for step in detail["loc"] if step != "[key]"]
    kind: Any = root
    for n, step in enumerate(steps):
        kind = _inside(kind, step)
        if kind is None and detail["type"] not in ("extra_forbidden", "missing"):
            return steps[:n]
    return steps


def _sentence(detail: ErrorDetails, steps: Sequence[str | int], root: type[BaseModel], hints: Hints) -> str:
    found = _found(detail["input"])
    match detail["type"]:
        case "extra_forbidden":
            return _unknown_key(str(steps[-1]), _known_keys(root, steps[:-1]), root, hints)
        case "missing":
            return "this is missing; add it"
        case "literal_error":
            return _not_in_list(detail, hints)
        case "string_pattern_mismatch":
            return _bad_shape(str(detail["input"]), detail["ctx"]["pattern"])
        case "too_short" if not detail["input"]:
            return f"this is empty; it needs at least one {str(steps[-1]).removesuffix('s')}"
        case kind if kind in _WORDS:
            return f"found {found}; {_wrong_type(kind, str(steps[-1]) if steps else '', detail['input'])}"
        case "value_error":
            return detail["msg"].removeprefix("Value error, ")
        case _:
            return f"found {found}; {_SHOULD.sub('it must', detail['msg'], count=1)}"


def _wrong_type(kind: str, key: str, value: object) -> str:
    if kind == "string_type" and isinstance(value, int | float):
        return "expected a text: put it in quotes"
    if _reads_as(value) in _PLAIN.get(kind, ()):
        return "write it without quotes"
    if kind == "model_type" and (meant := _full_form(key, value)):
        return f"write {meant}"
    return f"expected {_WORDS[kind]}"


def _reads_as(value: object) -> type | None:
    """The type that a text would have without its quotes."""
    try:
        return type(value_of(value, plain=True)) if isinstance(value, str) else None
    except ValueError:
        return None


def _full_form(key: str, value: object) -> str | None:
    """What was meant by a name in place of a mapping, in places where people try that."""
    if key == "tools" and isinstance(value, str | list):
        names = [value] if isinstance(value, str) else [str(name) for name in value]
        return f"tools: {{allow: [{short(', '.join(names))}]}}"
    if key in ("model", "default_model") and isinstance(value, str):
        provider, _, model = value.rpartition(":")
        return f"{key}: {{provider: {short(provider) or '…'}, model: {short(model)}}}"
    return None


def _unknown_key(key: str, known: Collection[str], root: type[BaseModel], hints: Hints) -> str:
    if key in OPERATOR_ONLY and root.__name__ != "Operator":
        return f"an agent system cannot say {key!r}: {_NAMED}"
    if " " in key:
        return (
            f"there is no key {short(key)!r} here; within {{…}} a comma ends a text, so put texts with commas in quotes"
        )
    return f"there is no key {short(key)!r} here; {hints.did_you_mean(key, known)}"


def _not_in_list(detail: ErrorDetails, hints: Hints) -> str:
    expected = re.findall(r"'([^']*)'", detail.get("ctx", {}).get("expected", ""))
    found = detail["input"]
    if not expected:
        wanted = str(detail.get("ctx", {}).get("expected"))
        return f"found {_found(found)}; " + ("write it without quotes" if found == wanted else f"expected {wanted}")
    hint = hints.did_you_mean(found, expected) if isinstance(found, str) else f"known are: {', '.join(expected)}"
    return f"found {_found(found)}; {hint}"


def _bad_shape(found: str, pattern: str) -> str:
    words = SHAPES[pattern]
    if words.startswith("a name") and _IMPORT_PATH.fullmatch(found):
        return f"found {short(found)!r}, which looks like code to import: {_NAMED}"
    return f"found {short(found)!r}; {words}"


def _found(value: object) -> str:
    match value:
        case None:
            return "nothing"
        case bool():
            return str(value).lower()
        case str():
            return repr(short(value))
        case dict():
            return "a mapping"
        case list():
            return "a list"
        case _:
            return short(str(value))


def _known_keys(root: type[BaseModel], steps: Sequence[str | int]) -> Collection[str]:
    kind: Any = root
    for step in steps:
        kind = _inside(kind, step)
    return list(kind.model_fields) if isinstance(kind, type) and issubclass(kind, BaseModel) else []


def _inside(kind: Any, step: str | int) -> Any:
    """The type of a field, an item or a value; None where there is none."""
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        field = kind.model_fields.get(str(step))
        return _bare(field.annotation) if field else None
    arguments = get_args(kind)
    if get_origin(kind) is list and isinstance(step, int):
        return _bare(arguments[0])
    return _bare(arguments[1]) if get_origin(kind) is dict else None


def _bare(kind: Any) -> Any:
    """Without Annotated, and without what an optional field may be instead."""
    while get_origin(kind) in (Annotated, Union, UnionType):
        kind = next(branch for branch in get_args(kind) if branch is not type(None))
    return kind
