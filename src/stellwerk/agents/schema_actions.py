"""Tool calls written as text: found while the text still comes, read and checked when it has ended.

Pure. What cannot become a call is given out at once, so that an ordinary
answer streams; what may become one is held back until it is known.
"""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from stellwerk.spec.foreign import objection

Call = tuple[str, dict[str, Any]]

_NAMES, _ARGUMENTS = ("tool", "name"), ("args", "arguments", "parameters")
"""``tool`` and ``args`` is what we ask for; many models have learned the other words and fall back to them."""
_OPENINGS = [f'{bracket}{{"{key}"' for bracket in ("", "[") for key in _NAMES + _ARGUMENTS]
_FENCE = re.compile(r"`{1,3}\w*\s*")
_BETWEEN = re.compile(r"(?:\s|,|`+\w*)*")
_LOOK = 200
"""Characters in which a call must have begun."""
_COMPLAINT = 300


class ToolSchemas:
    """The tools that a model may call, as it is told of them."""

    def __init__(self, tools: Sequence[dict[str, Any]]) -> None:
        self._functions = {tool["function"]["name"]: tool["function"] for tool in tools if "function" in tool}

    def __bool__(self) -> bool:
        return bool(self._functions)

    def lines(self) -> Iterator[str]:
        for name, function in self._functions.items():
            schema = json.dumps(function.get("parameters", {}), ensure_ascii=False)
            yield f"- {name}: {function.get('description', '')}\n  args: {schema}"

    def problem(self, name: object, args: object) -> str | None:
        """What is wrong with a call, in words for the model."""
        if name not in self._functions:
            return f"there is no tool {name!r}; there are: {', '.join(self._functions)}"
        if not isinstance(args, dict):
            return f"the args of {name} must be an object"
        wrong = objection(self._functions[name].get("parameters", {}), args)
        if wrong is None:
            return None  # it fits, or the schema cannot judge; the tool will
        place = f" at {wrong.json_path}" if wrong.path else ""
        return f"the args of {name} do not fit{place}: {wrong.message[:_COMPLAINT]}"


@dataclass(frozen=True, slots=True)
class Reading:
    """What a model has said, when it has ended."""

    said: str
    held: str
    """The end of it, which was not given out."""
    calls: Sequence[Call] = ()
    problem: str | None = None
    """Why what looks like a call is none."""


class ActionReader:
    """Reads one answer. A call begins a line, bare or in a fence; what follows it is not told."""

    def __init__(self, tools: ToolSchemas) -> None:
        self._tools = tools
        self._said: list[str] = []
        self._held = ""
        self._within_line = False

    def feed(self, text: str) -> str:
        """The text that may be told now."""
        self._said.append(text)
        self._held += text
        told = ""
        while self._held and (self._within_line or not self._tools or not _may_open(self._held)):
            line, newline, self._held = self._held.partition("\n")
            told += line + newline
            self._within_line = not newline
        return told

    def finish(self) -> Reading:
        said, held = "".join(self._said), self._held
        if not _opened(held):
            return Reading(said, held)
        try:
            found = list(_values(held))
        except (ValueError, RecursionError) as error:
            return Reading(said, held, problem=f"it is not valid JSON ({error})")
        if not any(_is_action(value) for value in found):
            return Reading(said, held)
        calls, problem = self._checked(found)
        return Reading(said, held, calls, problem)

    def _checked(self, found: Sequence[Any]) -> tuple[Sequence[Call], str | None]:
        """All of them or none: half of what a model wanted may be worse than nothing."""
        calls: list[Call] = []
        for value in found:
            if not _is_action(value):
                return (), "each item must be an object with tool and args"
            name, args = _entry(value, _NAMES), _entry(value, _ARGUMENTS) or {}
            if problem := self._tools.problem(name, args):
                return (), problem
            calls.append((str(name), args))
        return calls, None


def _may_open(text: str) -> bool:
    """Whether a text that starts a line can still become a call."""
    start = _start(text)
    return any(opening.startswith(start[: len(opening)]) for opening in _OPENINGS)


def _opened(text: str) -> bool:
    start = _start(text)
    return any(start.startswith(opening) for opening in _OPENINGS)


def _start(text: str) -> str:
    """How it begins, without a fence and without spaces."""
    return re.sub(r"\s", "", _FENCE.sub("", text[:_LOOK].lstrip(), count=1))


def _values(text: str) -> Iterator[Any]:
    """The JSON values one after another: one, a list of them, or several in a row."""
    place = _between(text, 0)
    while text[place : place + 1] in ("{", "["):
        value, end = _JSON.raw_decode(text, place)
        yield from value if isinstance(value, list) else [value]
        place = _between(text, end)


def _between(text: str, place: int) -> int:
    found = _BETWEEN.match(text, place)
    return place if found is None else found.end()


def _is_action(value: object) -> bool:
    if not isinstance(value, dict):
        return False
    # A name alone is data; only a name with arguments is a call.
    return "tool" in value or ("name" in value and any(key in value for key in _ARGUMENTS))


def _entry(action: dict[str, Any], keys: Sequence[str]) -> Any:
    return next((action[key] for key in keys if key in action), None)


def _refused(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON number")


# Models write line ends into their strings; that much is forgiven.
_JSON = json.JSONDecoder(strict=False, parse_constant=_refused)
