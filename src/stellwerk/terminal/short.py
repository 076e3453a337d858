"""In short: arguments, results and data on one line, or on a few."""

from typing import Any

import msgspec

from stellwerk.envelope.results import FileRef, Json, Table, Text, ToolResult
from stellwerk.terminal.plain import one_line, visible

_ARGUMENT = 60
_LONGEST = 300
_LINES = 6


def arguments(args: dict[str, Any]) -> str:
    """Such as ``city: Berlin, days: 3``; what is long is cut."""
    alone = len(args) == 1
    parts = (f"{one_line(name)}: {value(given, _LONGEST if alone else _ARGUMENT)}" for name, given in args.items())
    return cut(", ".join(parts), _LONGEST)


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
    """What fits behind the name of the tool, and the lines below it. A table is left to whoever can draw one."""
    match given:
        case FileRef():
            return f"{one_line(given.filename)}  {one_line(given.mime)}, {given.size} bytes", []
        case Json():
            return value(given.data), []
        case Text():
            return _text(given.text)
        case Table():
            return _rows(given), []


def _text(text: str) -> tuple[str, list[str]]:
    lines = visible(text).strip().splitlines()
    if len(lines) <= 1:
        return cut(lines[0].strip(), _LONGEST) if lines else "", []
    shown = [cut(line.rstrip(), _LONGEST) for line in lines[:_LINES]]
    more = len(lines) - len(shown)
    return "", [*shown, *([f"… {more} more lines"] * bool(more))]


def _rows(table: Table) -> str:
    count = max(table.total or 0, len(table.rows))
    return "1 row" if count == 1 else f"{count} rows"
