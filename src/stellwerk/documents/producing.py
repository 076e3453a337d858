"""Documents made of Markdown text or of a table: the same content gives the same bytes, and so the same document."""

import csv
import io
import json
import re
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from stellwerk.documents.contents import PAGE_MARK
from stellwerk.documents.markdown import grid, tables_in, to_html
from stellwerk.documents.mimes import OFFICE
from stellwerk.documents.producing_docx import to_docx
from stellwerk.documents.producing_xlsx import to_xlsx
from stellwerk.envelope.canonical import clean_text
from stellwerk.envelope.shapes import Blob, make_blob
from stellwerk.errors import InvalidField

Rows = Sequence[Sequence[object]]
"""A table; the first row names its columns."""
_NEVER = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Letters that no XML may hold, and that nobody misses elsewhere."""


def produce(filename: str, content: str | Rows) -> Blob:
    """The document that ``filename`` asks for by its extension.

    Text is Markdown; what can only be a table takes the tables in it, or the text as CSV. The marks of pages, which
    text has that was read in another document, are left out.

    Raises:
        InvalidField: nobody makes such documents, or not of this content.
        MissingPackage: the extra ``documents`` is not installed.
    """
    ext = filename.rpartition(".")[2].lower()
    if ext not in _MAKERS:
        raise InvalidField(f"{filename[:80]!r} cannot be made; its extension must be one of {_ALL}", field="name")
    mime, make = _MAKERS[ext]
    return make_blob(make(_cleaned(content)), mime=mime, filename=filename)


def _cleaned(content: str | Rows) -> str | Rows:
    if isinstance(content, str):
        return PAGE_MARK.sub("", _NEVER.sub("", clean_text(content)))
    return [[_NEVER.sub("", clean_text(cell)) if isinstance(cell, str) else cell for cell in row] for row in content]


def _text(content: str | Rows) -> bytes:
    return (content if isinstance(content, str) else grid(content)).encode()


def _csv(content: str | Rows) -> bytes:
    if isinstance(content, str):
        tables = tables_in(content)
        return _csv(tables[0]) if tables else content.encode()
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(content)
    return out.getvalue().encode()


def _json(content: str | Rows) -> bytes:
    return json.dumps(_value(content), ensure_ascii=False, indent=2, default=str).encode() + b"\n"


def _value(content: str | Rows) -> Any:
    if not isinstance(content, str):
        head = [str(name) for name in content[0]] if content else []
        return [dict(zip(head, row, strict=False)) for row in content[1:]]
    try:
        return msgspec.json.decode(content)
    except msgspec.DecodeError as error:
        raise InvalidField(f"this is no JSON: {error}; send the JSON text alone", field="content") from error


def _html(content: str | Rows) -> bytes:
    return to_html(content if isinstance(content, str) else grid(content)).encode()


def _docx(content: str | Rows) -> bytes:
    return to_docx(content if isinstance(content, str) else grid(content))


def _xlsx(content: str | Rows) -> bytes:
    if not isinstance(content, str):
        return to_xlsx([content])
    tables = tables_in(content) or [_csv_rows(content)]
    if max((len(row) for row in tables[0]), default=0) < 2:
        raise InvalidField("there is no table in this text; send a Markdown table, or CSV", field="content")
    return to_xlsx(tables)


def _csv_rows(text: str) -> list[list[str]]:
    try:
        return list(csv.reader(io.StringIO(text, newline=None)))
    except csv.Error as error:
        raise InvalidField(f"this is no CSV: {error}; send a Markdown table, or CSV", field="content") from error


_MAKERS: dict[str, tuple[str, Callable[[str | Rows], bytes]]] = {
    "md": ("text/markdown", _text),
    "txt": ("text/plain", _text),
    "csv": ("text/csv", _csv),
    "json": ("application/json", _json),
    "html": ("text/html", _html),
    "docx": (OFFICE["docx"], _docx),
    "xlsx": (OFFICE["xlsx"], _xlsx),
}
_ALL = ", ".join(_MAKERS)
