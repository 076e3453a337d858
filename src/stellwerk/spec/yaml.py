"""YAML 1.2 and JSON parser with limits: plain data, and the line and column of every field.

libyaml splits the text into parse events (through PyYAML). One pass over the events
makes the data and applies the limits, so a text is refused as soon as it exceeds one.
Anchors, aliases, tags and directives are refused: nothing can grow beyond what
is written, and nothing can run.
"""

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import yaml

from stellwerk.errors import SpecError, SpecProblem

Scalar = str | int | float | bool | None
Position = tuple[int, int]
"""Line and column, counted from 1 as editors do."""

SIZE_LIMIT = 256 * 1024
DEPTH_LIMIT = 20
NODE_LIMIT = 3_000
KEY_LIMIT = 100
PROBLEM_LIMIT = 50
"""Problems that one error lists; the rest would only cost time."""
LARGEST_NUMBER = 2**53 - 1
"""The largest whole number that a browser reads exactly."""
EXCERPT_LIMIT = 40
"""Characters of the input that an error repeats."""

SECRET = re.compile(r"\$\{secret:([a-z][a-z0-9_]{0,63})\}")
_VARIABLE = re.compile(r"\$\{.{0,40}", re.DOTALL)
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufeff]")
_FORBIDDEN = re.compile("[^\t\n -~\xa0-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U000ffffd\U00100000-\U0010fffd]")

_CONSTANTS: dict[str, Scalar] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_INTEGER = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(
    r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)"
)

# Noncharacters replace, one for one, what libyaml reads otherwise than YAML 1.2: it refuses the
# escaped surrogate pairs of JSON, and ends a line at U+2028 and U+2029.
_PAIR = re.compile(r"(?<!\\)((?:\\\\)*)\\(u[dD][89abAB][0-9a-fA-F]{2})\\(u[dD][c-fC-F][0-9a-fA-F]{2})")
_MASKED_PAIR = re.compile("\U0010ffffu(d[89ab][0-9a-f]{2})\U0010ffffu(d[c-f][0-9a-f]{2})", re.IGNORECASE)
_MASK = str.maketrans("\u2028\u2029", "\U000ffffe\U000fffff")
_UNMASK = str.maketrans("\U000ffffe\U000fffff\U0010ffff", "\u2028\u2029\\")


@dataclass
class Document:
    """The data of a text; ``problems`` are those that any document would have."""

    data: object = None
    positions: dict[str, Position] = field(default_factory=dict[str, Position])
    problems: list[SpecProblem] = field(default_factory=list[SpecProblem])

    def problem(self, path: str, message: str) -> SpecProblem:
        """A problem at the position of the field, or of the nearest mapping or list around it."""
        known = path
        while known and known not in self.positions:
            known = known[: max(known.rfind("."), known.rfind("["), 0)]
        line, column = self.positions.get(known, (None, None))
        return SpecProblem(message, path, line, column)


def parse(text: str | bytes, *, source: str, secrets_in: re.Pattern[str] | None = None) -> Document:
    """``secrets_in`` matches the paths of fields that may hold ``${secret:name}``.

    Raises:
        SpecError: the text is not YAML, or exceeds a limit.
    """
    try:
        builder = _Builder(_events(_decoded(text)), secrets_in)
        builder.build()
    except _Refused as refused:
        raise SpecError.of(source, (refused.problem,)) from refused
    return builder.document


class _Refused(Exception):
    def __init__(self, message: str, event: Any = None, position: Position | None = None) -> None:
        at = _position(event) if event else position or ()
        self.problem = SpecProblem(message, "", *at)


def _decoded(text: str | bytes) -> str:
    """The text with one kind of line break, and without characters that YAML forbids."""
    try:
        content = text.encode() if isinstance(text, str) else text
        if len(content) > SIZE_LIMIT:
            limit = f"{SIZE_LIMIT // 1024} KiB"
            raise _Refused(f"this has more than {limit}; an agent system is smaller than that")
        decoded = content.decode()
    except (UnicodeDecodeError, UnicodeEncodeError) as error:
        raise _Refused(f"this is not UTF-8 ({error.reason}); save the file as UTF-8") from error
    decoded = decoded.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    if found := _FORBIDDEN.search(decoded):
        *lines, last = decoded[: found.start()].split("\n")
        message = f"the character U+{ord(found[0]):04X} is not allowed; remove it"
        raise _Refused(message, position=(len(lines) + 1, len(last) + 1))
    return decoded


def _events(text: str) -> Iterator[Any]:
    masked = _PAIR.sub("\\1\U0010ffff\\2\U0010ffff\\3", text).translate(_MASK)
    try:
        yield from yaml.parse(masked, Loader=yaml.CSafeLoader)
    except yaml.MarkedYAMLError as error:
        sentence = " ".join(part for part in (error.context, error.problem) if part)
        mark = error.problem_mark
        position = (mark.line + 1, mark.column + 1)
        raise _Refused(f"this is not YAML: {sentence}", position=position) from error


def _unmasked(event: yaml.ScalarEvent) -> str:
    value: str = event.value
    if event.style == '"' and not value.isascii():
        value = _MASKED_PAIR.sub(_joined_pair, value)
    return value.translate(_UNMASK)


def _joined_pair(pair: re.Match[str]) -> str:
    return chr(0x10000 + (int(pair[1], 16) - 0xD800 << 10) + int(pair[2], 16) - 0xDC00)


def join_path(path: str, step: str | int) -> str:
    """The path of a field below another: ``agents[1].tools.allow[0]``."""
    if isinstance(step, int):
        return f"{path}[{step}]"
    # Paths are printed on terminals, so control and direction characters must not survive.
    name = "".join(c if c.isprintable() else "\ufffd" for c in step)
    return f"{path}.{name}" if path else name


def scalar(text: str) -> Scalar:
    """The value of a scalar without quotes, by the core schema of YAML 1.2.

    Raises:
        ValueError: a number that cannot be kept as it was written.
    """
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if _INTEGER.fullmatch(text):
        return _integer(text)
    return _float(text) if _FLOAT.fullmatch(text) else text


def _integer(text: str) -> int:
    if len(text) <= EXCERPT_LIMIT:
        number = int(text, 0 if text[:2] in ("0o", "0x") else 10)
        if abs(number) <= LARGEST_NUMBER:
            return number
    remedy = "write it in quotes if it is a text"
    raise ValueError(f"the number {excerpt(text)} is too large to be exact; {remedy}")


def _float(text: str) -> float:
    if len(text) <= EXCERPT_LIMIT and "n" not in text.lower():
        number = float(text)
        if math.isfinite(number):
            return number
    remedy = f"write a number that is finite and not longer than {EXCERPT_LIMIT} digits"
    raise ValueError(f"found {excerpt(text)}; {remedy}")


def excerpt(text: str) -> str:
    return text if len(text) <= EXCERPT_LIMIT else text[: EXCERPT_LIMIT - 1] + "…"


def _why_refused(text: str) -> str | None:
    if control := _CONTROL.search(text):
        return f"the character U+{ord(control[0]):04X} is not allowed in a text; remove it"
    if variable := _VARIABLE.search(text):
        return (
            f"found {excerpt(variable[0])!r}; nothing is expanded here, neither variables nor "
            "secrets. Write the value itself; keys of providers are stored with the server"
        )
    return None


class _Builder:
    """Data from parse events. Problems that leave the rest readable are collected."""

    def __init__(self, events: Iterator[Any], secrets_in: re.Pattern[str] | None) -> None:
        self.document = Document()
        self._events = events
        self._secrets_in = secrets_in
        self._nodes = 0

    def build(self) -> None:
        documents = 0
        for event in self._events:
            if isinstance(event, yaml.DocumentStartEvent):
                documents += 1
                if documents > 1:
                    remedy = "put each system into a file of its own"
                    raise _Refused(f"there is more than one document; {remedy}", event)
                if event.version or event.tags:
                    raise _Refused("directives (%) are not read; remove the line", event)
            elif isinstance(event, yaml.NodeEvent):
                self.document.data = self._node(event, "", 1)

    def _next(self) -> Any:
        """The next event of an open collection; its nodes are counted."""
        event = next(self._events)
        if isinstance(event, yaml.NodeEvent):
            self._nodes += 1
            if self._nodes > NODE_LIMIT:
                most = f"{NODE_LIMIT} keys and values"
                raise _Refused(f"there are more than {most}; make two systems of it", event)
        return event

    def _node(self, event: Any, path: str, depth: int) -> object:
        self.document.positions.setdefault(path, _position(event))
        self._refuse_markup(event, path)
        if isinstance(event, yaml.ScalarEvent):
            return self._scalar(event, path)
        if isinstance(event, yaml.AliasEvent):
            return None
        if depth > DEPTH_LIMIT:
            raise _Refused(f"this is nested more than {DEPTH_LIMIT} deep; no field of ours is", event)
        if isinstance(event, yaml.SequenceStartEvent):
            return self._sequence(path, depth)
        return self._mapping(path, depth)

    def _sequence(self, path: str, depth: int) -> list[object]:
        items: list[object] = []
        while not isinstance(event := self._next(), yaml.SequenceEndEvent):
            items.append(self._node(event, join_path(path, len(items)), depth + 1))
        return items

    def _mapping(self, path: str, depth: int) -> dict[str, object]:
        made: dict[str, object] = {}
        while not isinstance(event := self._next(), yaml.MappingEndEvent):
            key = self._key(event, path, depth)
            inner = join_path(path, key)
            if key in made:
                self._add_problem(inner, "this key occurs twice; keep one of them", event)
            self.document.positions[inner] = _position(event)
            made[key] = self._node(self._next(), inner, depth + 1)
        return made

    def _key(self, event: Any, path: str, depth: int) -> str:
        if not isinstance(event, yaml.ScalarEvent):
            inner = join_path(path, "?")
            message = "a key must be one word, not a list, a mapping or an alias"
            self._add_problem(inner, message, event)
            self._node(event, inner, depth + 1)
            return "?"
        key = _unmasked(event)
        inner = join_path(path, key[:KEY_LIMIT])
        self._refuse_markup(event, inner)
        if key == "<<":
            problem: str | None = "merge keys (<<) are not read; write out what is to be merged"
        elif len(key) > KEY_LIMIT:
            problem = f"a key has at most {KEY_LIMIT} characters"
        else:
            problem = _why_refused(key)
        self._add_problem(inner, problem, event)
        return key[:KEY_LIMIT]

    def _scalar(self, event: yaml.ScalarEvent, path: str) -> Scalar:
        text = _unmasked(event)
        try:
            value = text if event.style else scalar(text)
        except ValueError as error:
            self._add_problem(path, str(error), event)
            return None
        if isinstance(value, str):
            may_have_secrets = self._secrets_in and self._secrets_in.fullmatch(path)
            checked = SECRET.sub("", value) if may_have_secrets else value
            self._add_problem(path, _why_refused(checked), event)
        return value

    def _refuse_markup(self, event: Any, path: str) -> None:
        name = excerpt(event.anchor or "")
        if isinstance(event, yaml.AliasEvent):
            problem = f"the alias {'*' + name!r} is not read; write out the value"
            self._add_problem(path, problem, event)
            return
        if event.anchor:
            remedy = "write the value where you need it"
            self._add_problem(path, f"the anchor {'&' + name!r} is not read; {remedy}", event)
        if event.tag:
            problem = f"the tag {excerpt(event.tag)!r} is not read; write the plain value"
            self._add_problem(path, problem, event)

    def _add_problem(self, path: str, message: str | None, event: Any) -> None:
        if message is not None and len(self.document.problems) < PROBLEM_LIMIT:
            position = _position(event)
            self.document.problems.append(SpecProblem(message, path, *position))


def _position(event: Any) -> Position:
    return event.start_mark.line + 1, event.start_mark.column + 1
