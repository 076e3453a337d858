"""Whether a tool can be offered with the schema that its server gave it. Pure.

LangChain writes out every reference before a model sees a schema. A short one
can become endless by that, and one that refers to another document breaks the
agent; so it is looked at when the tools are read.
"""

from typing import Any

import msgspec

_LARGEST = 64 * 1024
_MOST_PARTS = 20_000
_DEEPEST = 60


class _Unfit(ValueError):
    """Why it cannot be offered."""


def flaw(schema: dict[str, Any]) -> str | None:
    """Why no model can be given this schema; None if it can."""
    if len(msgspec.json.encode(schema)) > _LARGEST:
        return f"has more than {_LARGEST >> 10} KiB"
    try:
        _Unfolding(schema).count(schema, (), _DEEPEST)
    except _Unfit as error:
        return str(error)
    return None


class _Unfolding:
    def __init__(self, root: dict[str, Any]) -> None:
        self._root, self._left = root, _MOST_PARTS

    def count(self, part: Any, within: tuple[str, ...], depth: int) -> None:
        """Go where LangChain goes: into everything but definitions, and into no reference within itself."""
        self._left -= 1
        if self._left < 0 or depth < 0:
            raise _Unfit("refers to itself so often that it has no end")
        if isinstance(part, dict):
            reference = part.get("$ref")
            if "$ref" in part and reference not in within:
                self.count(self._target(reference), (*within, str(reference)), depth - 1)
            below = [value for key, value in part.items() if key not in ("$defs", "$ref")]
        else:
            below = part if isinstance(part, list) else []
        for value in below:
            if isinstance(value, dict | list):
                self.count(value, within, depth - 1)

    def _target(self, reference: Any) -> Any:
        first, *steps = reference.split("/") if isinstance(reference, str) else [""]
        if first != "#":
            raise _Unfit("refers to another document")
        found: Any = self._root
        for step in steps:
            if isinstance(found, list) and step.isdecimal() and int(step) < len(found):
                found = found[int(step)]
            elif isinstance(found, dict) and step in found:
                found = found[step]
            else:
                raise _Unfit("refers to what is not in it")
        return found
