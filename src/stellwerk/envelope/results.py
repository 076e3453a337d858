"""Tool results: what a tool gave back, in one of four shapes.

Readers choose by ``kind``; a model reads ``as_text``. Bytes are never inside a
result, only named by a ``file_ref``. ``to_result`` finds the shape of whatever a
tool returned and, like the canonicaliser it rests on, cannot raise.
"""

import re
from base64 import b64decode
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import msgspec

from stellwerk.envelope.canonical import MAX_BYTES, PAYLOAD_DEPTH, Redact, canonical, json_size
from stellwerk.envelope.markup import cell
from stellwerk.envelope.shapes import Blob, entries, make_blob

SHOWN_ROWS = 50
"""How many rows of a table a model gets to read."""

_SPARSE = 4
"""Dicts that have less than one in so many of all the keys among them are no table."""
_BLOCK_TYPES = ("image", "image_url", "audio", "video", "file", "resource", "resource_link", "reasoning", "tool_use")
_BLOCK_CONTENTS = frozenset("base64 data file_id image_url input reasoning resource source uri url".split())
_MIME = re.compile(r"[\w.+-]{1,60}/[\w.+-]{1,60}", re.ASCII)
_LONGEST_NAME = 200


class _Result(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", forbid_unknown_fields=True
):
    """Closed and frozen, told apart by ``kind``."""


class Column(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    name: str
    type: str | None = None


class Table(_Result, frozen=True, tag="table"):
    """Build one with ``table``: it makes every row as long as the header."""

    columns: tuple[Column | str, ...]
    rows: tuple[tuple[Any, ...], ...]
    total: int | None = None
    """How many rows there are where they come from, if these are not all."""

    def as_text(self) -> str:
        """A Markdown table of the first rows, and how many more there are."""
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
    """How it begins, where the document stands for a value too large to be stored in place."""

    def as_text(self) -> str:
        """One line that names the document, and the preview below it if there is one."""
        name = " ".join(self.filename.split())
        line = f"[file {name}, {self.mime}, {self.size} bytes, document {self.document_id}]"
        return line if self.preview is None else f"{line}\n{self.preview}"


class Json(_Result, frozen=True, tag="json"):
    data: Any

    def as_text(self) -> str:
        """Compact JSON, keys in the order in which the tool gave them."""
        return msgspec.json.encode(self.data).decode()


ToolResult: TypeAlias = Table | Text | FileRef | Json


def table(
    columns: Iterable[Column | str], rows: Iterable[Sequence[Any]], *, total: int | None = None
) -> tuple[Table, tuple[str, ...]]:
    """A table whose rows all fit its header, and notes on what that took.

    The header is the contract: a short row is filled with null, a long one loses its surplus cells.
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


def to_result(value: object, *, redact: Redact | None = None) -> tuple[ToolResult, tuple[str, ...], tuple[Blob, ...]]:
    """Whatever a tool returned as a result, with notes and blobs as ``canonical`` gives them."""
    file = _carried_file(value, redact)
    if file is not None:
        return msgspec.convert(file.reference(), type=FileRef), (), (file,)
    safe = canonical(value, redact=redact, depth=PAYLOAD_DEPTH)
    result, notes = _shaped(safe.value)
    return result, safe.notes + notes, safe.blobs


def _shaped(value: Any) -> tuple[ToolResult, tuple[str, ...]]:
    if value is None or isinstance(value, str):
        return Text(text=value or ""), ()
    if isinstance(value, dict) and "kind" in value:
        return _of_its_kind(value)
    rows = value["result"] if isinstance(value, dict) and value.keys() == {"result"} else value
    if isinstance(rows, list) and rows and all(isinstance(row, dict) for row in rows):
        return _of_dicts(rows) or Json(data=value), ()
    return Json(data=value), ()


def _of_its_kind(value: dict[str, Any]) -> tuple[ToolResult, tuple[str, ...]]:
    try:
        result: ToolResult = msgspec.convert(value, type=ToolResult)
    except msgspec.ValidationError:  # it means something else by ``kind``
        return Json(data=value), ()
    return table(result.columns, result.rows, total=result.total) if isinstance(result, Table) else (result, ())


def _of_dicts(rows: list[dict[str, Any]]) -> Text | Table | None:
    """Content blocks are text if all of them are; other dicts are a table, unless it were mostly empty."""
    if all(_is_text_block(row) for row in rows):
        return Text(text="\n".join(row["text"] for row in rows))
    if all(_is_text_block(row) or _is_other_block(row) for row in rows):
        return None
    columns = tuple(dict.fromkeys(name for row in rows for name in row))
    given, cells = sum(map(len, rows)), len(rows) * len(columns)
    if cells > _SPARSE * given:
        return None
    result = Table(columns=columns, rows=tuple(tuple(row.get(name) for name in columns) for row in rows))
    return None if cells > given and json_size(result) > MAX_BYTES else result


def _is_text_block(row: dict[str, Any]) -> bool:
    return row.get("type") == "text" and isinstance(row.get("text"), str)


def _is_other_block(row: dict[str, Any]) -> bool:
    return row.get("type") in _BLOCK_TYPES and not _BLOCK_CONTENTS.isdisjoint(row)


def _carried_file(value: Any, redact: Redact | None) -> Blob | None:
    """The file that a ``file_ref`` brings along as ``bytes_b64``."""
    if not issubclass(type(value), dict):
        return None
    try:
        given = {name: part for name, part in entries(value) if type(name) is str and type(part) is str}
        if given.get("kind") != "file_ref" or "bytes_b64" not in given:
            return None
        data = b64decode("".join(given["bytes_b64"].split()), validate=True)
    except (ValueError, RuntimeError):  # no base64, or a dict that changes all the time
        return None
    (found,) = canonical(data, redact=redact).blobs
    filename = canonical(given.get("filename", "")[:_LONGEST_NAME], redact=redact).value
    mime = given.get("mime", "")
    return make_blob(found.data, mime=mime if _MIME.fullmatch(mime) else found.mime, filename=filename)


def _line(cells: Iterable[Any]) -> str:
    return "| " + " | ".join(_cell(cell) for cell in cells) + " |"


def _cell(value: Any) -> str:
    if value is None:
        return ""
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return cell(text)
