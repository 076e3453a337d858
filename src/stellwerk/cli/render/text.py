"""Text for a terminal: control characters neutralised, arguments and results shortened."""

import re
from typing import Any

import msgspec

from stellwerk.envelope.results import FileRef, Json, Table, Text, ToolResult

_ARGUMENT = 60
_LONGEST = 300
_RESULT_LINES = 6
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2028\u2029\u2066-\u2069]")


def visible(text: str) -> str:
    """Spell out what would move the cursor, change colours or reverse the direction of the text."""
    return _CONTROL.sub(_spelled, text.replace("\r\n", "\n")).expandtabs(4)


def one_line(text: str) -> str:
    return " ".join(visible(text).split())


def _spelled(found: "re.Match[str]") -> str:
    code = ord(found.group())
    return chr(0x2400 + code) if code < 0x20 else "␡" if code == 0x7F else f"\\u{code:04x}"


def arguments(args: dict[str, Any]) -> str:
    """Arguments such as ``city: Berlin, days: 3``; long ones are cut."""
    longest = _LONGEST if len(args) == 1 else _ARGUMENT
    return cut(", ".join(f"{one_line(name)}: {value(given, longest)}" for name, given in args.items()), _LONGEST)


def value(given: Any, longest: int = _LONGEST) -> str:
    text = given if isinstance(given, str) else msgspec.json.encode(given).decode()
    return cut(one_line(text), longest)


def cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else text[: longest - 1].rstrip() + "…"


def seconds(duration: float) -> str:
    if duration < 99.95:
        return f"{max(duration, 0):.1f} s"
    minutes, rest = divmod(round(duration), 60)
    return f"{minutes} min {rest} s"


def result(given: ToolResult) -> tuple[str, list[str]]:
    """A result in the line of its tool, and the lines below; tables are left to the screen."""
    match given:
        case FileRef():
            return f"{one_line(given.filename)}  {one_line(given.mime)}, {given.size} bytes", []
        case Json():
            return value(given.data), []
        case Table():
            count = max(given.total or 0, len(given.rows))
            return "1 row" if count == 1 else f"{count} rows", []
        case Text():
            lines = [cut(line.rstrip(), _LONGEST) for line in visible(given.text).strip().splitlines()]
            if len(lines) <= 1:
                return "".join(lines), []
            more = len(lines) - _RESULT_LINES
            return "", lines[:_RESULT_LINES] + ([f"… {more} more lines"] if more > 0 else [])
