"""JSON Schemas that somebody else wrote, such as an MCP server, and values that are held against them.

They judge, and do nothing else: nothing is fetched for them, and they cannot
cost more than a moment. A schema that wants more than that is not asked.
"""

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

import msgspec
from jsonschema import Draft202012Validator, FormatChecker
from jsonschema.exceptions import SchemaError, UnknownType, ValidationError, best_match
from jsonschema.validators import create
from referencing import Registry
from referencing.exceptions import Unresolvable

_LARGEST, _MOST_PARTS = 64 * 1024, 1500
"""Bytes of a schema, and lists and objects in it; each of them takes its time to be understood."""
_MOST_STEPS = 50_000
"""A short schema whose parts refer to each other can unfold without end."""
_STEP_BYTES = 256
"""What is wrong with a value quotes it, so each objection to a large one counts for more."""
_EXPENSIVE = {"pattern", "patternProperties", "unevaluatedProperties", "unevaluatedItems", "uniqueItems"}
"""Not looked at: an expression can take longer than anybody lives, the others nearly as long."""
_CANNOT_JUDGE = (
    *(SchemaError, UnknownType, Unresolvable, RecursionError),
    *(ArithmeticError, AttributeError, LookupError, TypeError, ValueError),
)
"""What a schema that is none, or not valid, brings about."""

_Rule = Callable[[Any, Any, Any, Any], Iterator[ValidationError]]


class _TooMuch(ValueError):
    """The schema takes more steps than it gets."""


def objection(schema: dict[str, Any], value: Any) -> ValidationError | None:
    """What is wrong with ``value``. None also if the schema cannot say: whoever wrote it must judge for himself.

    Expressions (``pattern``) are not tried, and references lead nowhere but into the schema itself.
    """
    try:
        understood = _understood(msgspec.json.encode(schema))
        rules = _rules(1 + len(msgspec.json.encode(value)) // _STEP_BYTES)
        wrong: ValidationError | None = best_match(rules(understood, registry=Registry()).iter_errors(value))
    except _CANNOT_JUDGE:
        return None
    return wrong


@lru_cache(maxsize=100)
def _understood(encoded: bytes) -> Any:
    if len(encoded) > _LARGEST or encoded.count(b"{") + encoded.count(b"[") > _MOST_PARTS:
        raise _TooMuch
    schema = msgspec.json.decode(encoded)
    Draft202012Validator.check_schema(schema, format_checker=FormatChecker(()))
    if isinstance(schema, dict):
        schema.pop("$schema", None)
        if b'"$schema"' in msgspec.json.encode(schema):  # it would be judged by other rules than these
            raise _TooMuch
    return schema


def _rules(price: int) -> Any:
    """The rules of JSON Schema for one judgement, in which each objection has this price."""
    left = _MOST_STEPS

    def spend(steps: int) -> None:
        nonlocal left
        left -= steps
        if left < 0:
            raise _TooMuch

    def counted(rule: _Rule) -> _Rule:
        def apply(validator: Any, said: Any, value: Any, schema: Any) -> Iterator[ValidationError]:
            spend(1 + sum(len(part) for part in (said, value) if isinstance(part, list | dict)))
            for error in rule(validator, said, value, schema):
                spend(price)  # on each level that it is handed up to, something is written on it
                yield error

        return apply

    rules = {name: rule for name, rule in Draft202012Validator.VALIDATORS.items() if name not in _EXPENSIVE}
    rules["additionalProperties"] = _additional_properties
    return create(
        meta_schema=Draft202012Validator.META_SCHEMA,
        validators={name: counted(rule) for name, rule in rules.items()},
        type_checker=Draft202012Validator.TYPE_CHECKER,
    )


def _additional_properties(validator: Any, said: Any, value: Any, schema: Any) -> Iterator[ValidationError]:
    """Which ones are additional is not known without the expressions."""
    if "patternProperties" in schema:
        return iter(())
    rule: _Rule = Draft202012Validator.VALIDATORS["additionalProperties"]
    return rule(validator, said, value, schema)
