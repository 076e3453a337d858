"""JSON Schema validation with untrusted schemas, such as those of MCP servers, in bounded time.

Nothing is fetched for a schema. A schema that exceeds the limits does not validate.
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
"""Bytes of a schema, and lists and objects in it."""
_MOST_STEPS = 50_000
"""Validation steps: a short schema whose parts refer to each other can unfold without end."""
_STEP_BYTES = 256
"""An error quotes the value, so each error about a large value costs more steps."""
_EXPENSIVE = {"unevaluatedProperties", "unevaluatedItems", "uniqueItems"}
"""Keywords that take quadratic time or worse: ignored, like regular expressions."""
_INVALID_SCHEMA = (
    *(SchemaError, UnknownType, Unresolvable, RecursionError),
    *(ArithmeticError, AttributeError, LookupError, TypeError, ValueError),
)
"""Errors that an invalid schema can cause."""

_Errors = Iterator[ValidationError]
_Rule = Callable[[Any, Any, Any, Any], _Errors]


def objection(schema: dict[str, Any], value: Any) -> ValidationError | None:
    """The most relevant error of ``value``; None if it is valid, or the schema cannot be used.

    Regular expressions (``pattern``) are ignored, and references resolve within the schema only.
    """
    try:
        parsed = _parsed(msgspec.json.encode(schema))
        rules = _rules(1 + len(msgspec.json.encode(value)) // _STEP_BYTES)
        errors = rules(parsed, registry=Registry()).iter_errors(value)
        wrong: ValidationError | None = best_match(errors)
    except _INVALID_SCHEMA:
        return None
    return wrong


@lru_cache(maxsize=100)
def _parsed(encoded: bytes) -> Any:
    if len(encoded) > _LARGEST or encoded.count(b"{") + encoded.count(b"[") > _MOST_PARTS:
        raise ValueError("the schema is too large")
    schema = msgspec.json.decode(encoded)
    Draft202012Validator.check_schema(schema, format_checker=FormatChecker(()))
    if isinstance(schema, dict):
        schema.pop("$schema", None)
        if b'"$schema"' in msgspec.json.encode(schema):
            raise ValueError("a part of the schema has another dialect, with other rules")
    return schema


def _rules(price: int) -> Any:
    """A validator class for one validation, in which each error costs ``price`` steps."""
    left = _MOST_STEPS

    def spend(steps: int) -> None:
        nonlocal left
        left -= steps
        if left < 0:
            raise ValueError("the validation takes too many steps")

    def counted(rule: _Rule) -> _Rule:
        def apply(validator: Any, keyword: Any, value: Any, schema: Any) -> _Errors:
            spend(1 + sum(len(part) for part in (keyword, value) if isinstance(part, list | dict)))
            for error in rule(validator, keyword, value, schema):
                spend(price)  # each level that passes the error on adds to it
                yield error

        return apply

    rules = {**Draft202012Validator.VALIDATORS, "additionalProperties": _additional_properties}
    used = rules.keys() - _EXPENSIVE - {"pattern", "patternProperties"}
    return create(
        meta_schema=Draft202012Validator.META_SCHEMA,
        validators={name: counted(rules[name]) for name in rules if name in used},
        type_checker=Draft202012Validator.TYPE_CHECKER,
    )


def _additional_properties(validator: Any, keyword: Any, value: Any, schema: Any) -> _Errors:
    """Ignored beside patternProperties: without these, additional properties are unknown."""
    if "patternProperties" in schema:
        return iter(())
    rule: _Rule = Draft202012Validator.VALIDATORS["additionalProperties"]
    return rule(validator, keyword, value, schema)
