"""Tool results: a table, text, a file reference or JSON, tagged by ``kind``.

Clients choose by ``kind``; a model reads ``as_text``. A result never holds
bytes: a ``file_ref`` names the document that does. ``to_json.to_result`` turns
the return value of a tool into one of these.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import msgspec

_MARKUP = re.compile(r"([\\`*_\[\]<>|~&$])")
_LIST_OR_HEADING = re.compile(r"^([0-9]{0,9})([-+#=.)])")


def escaped(text: str) -> str:
    """Escape Markdown: the text on one line, with nothing in it that is markup."""
    return _LIST_OR_HEADING.sub(r"\1\\\2", _MARKUP.sub(r"\\\1", " ".join(text.split())))


def cell(text: str) -> str:
    """Escape text for a cell of a Markdown table."""
    return " ".join(text.splitlines()).replace("|", "\\|")


SHOWN_ROWS = 50
"""Rows of a table that ``as_text`` shows."""


class _Result(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", forbid_unknown_fields=True
):
    """Closed and frozen; ``kind`` is the tag."""


class Column(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    name: str
    type: str | None = None


class Table(_Result, frozen=True, tag="table"):
    """Build one with ``table``: it makes every row as long as the header."""

    columns: tuple[Column | str, ...]
    rows: tuple[tuple[Any, ...], ...]
    total: int | None = None
    """Rows at the source, where these are not all of them."""

    def as_text(self) -> str:
        """Return a Markdown table of the first rows, and the number of the others."""
        names = [column.name if isinstance(column, Column) else column for column in self.columns]
        shown = self.rows[:SHOWN_ROWS]
        lines = [_line(names), "|" + "---|" * len(names), *(_line(row) for row in shown)]
        more = max(self.total or 0, len(self.rows)) - len(shown)
        if more > 0:
            lines.append(f"({more} more {'row' if more == 1 else 'rows'})")
        return "\n".join(lines)


class Text(_Result, frozen=True, tag="text"):
    text: str

    def as_text(self) -> str:
        return self.text


class FileRef(_Result, frozen=True, tag="file_ref"):
    document_id: str
    filename: str
    mime: str
    size: int
    preview: str | None = None
    """The beginning of the document, where it replaces a value too large for an envelope."""

    def as_text(self) -> str:
        """Return one line that names the document, and below it the preview, if any."""
        name = " ".join(self.filename.split())
        line = f"[file {name}, {self.mime}, {self.size} bytes, document {self.document_id}]"
        return line if self.preview is None else f"{line}\n{self.preview}"


class Json(_Result, frozen=True, tag="json"):
    data: Any

    def as_text(self) -> str:
        """Return compact JSON, keys in the order of the tool."""
        return msgspec.json.encode(self.data).decode()


ToolResult: TypeAlias = Table | Text | FileRef | Json


def table(
    columns: Iterable[Column | str], rows: Iterable[Sequence[Any]], *, total: int | None = None
) -> tuple[Table, tuple[str, ...]]:
    """Build a table whose rows all fit its header; return it with notes on the rows that did not.

    The header is the contract: short rows are filled with null, long rows lose their surplus cells.
    """
    header = tuple(columns)
    width = len(header)
    given = [tuple(row) for row in rows]
    fitted = tuple(row[:width] + (None,) * (width - len(row)) for row in given)
    short = sum(len(row) < width for row in given)
    long = sum(len(row) > width for row in given)
    notes = [f"$.rows: {short} short rows filled with null"] * bool(short)
    notes += [f"$.rows: {long} long rows cut to {width} columns"] * bool(long)
    return Table(columns=header, rows=fitted, total=total), tuple(notes)


def _line(cells: Iterable[Any]) -> str:
    return "| " + " | ".join(_cell(cell) for cell in cells) + " |"


def _cell(value: Any) -> str:
    if value is None:
        return ""
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return cell(text)
