"""Document writers: docx, xlsx, html, csv … from Markdown. Equal content gives equal bytes."""

import csv
import io
import json
import re
import zipfile
from collections.abc import Callable, Sequence
from datetime import datetime
from html import escape
from itertools import chain, zip_longest
from typing import TYPE_CHECKING

import msgspec
from markdown_it import MarkdownIt
from markdown_it.token import Token

from stellwerk.documents.mimes import OFFICE
from stellwerk.envelope.introspection import Blob, make_blob
from stellwerk.envelope.to_json import clean_text
from stellwerk.errors import InvalidField, MissingPackage
from stellwerk.workflows.documents.contents import PAGE_MARK

if TYPE_CHECKING:
    from docx.document import Document
    from docx.text.paragraph import Paragraph
    from xlsxwriter.format import Format
    from xlsxwriter.worksheet import Worksheet

_PAGE = """<!doctype html>
<html>
<head><meta charset="utf-8"><title>{title}</title></head>
<body>
{body}</body>
</html>
"""


_MARKDOWN = MarkdownIt("commonmark", {"html": False}).enable("table")


def _html(text: str) -> bytes:
    """A complete page. HTML in the text is escaped."""
    title = next((line.lstrip("# ") for line in text.splitlines() if line.startswith("#")), "")
    return _PAGE.format(title=escape(title), body=_MARKDOWN.render(text)).encode()


def tables_in(text: str) -> list[list[list[str]]]:
    """The tables in a Markdown text, as the texts of their cells."""
    tokens = _MARKDOWN.parse(text)
    starts = [n for n, token in enumerate(tokens) if token.type == "table_open"]
    return [_rows(tokens, start) for start in starts]


def _rows(tokens: Sequence[Token], start: int) -> list[list[str]]:
    """The cells of the table that begins with this token."""
    rows: list[list[str]] = []
    for n in range(start, len(tokens)):
        token = tokens[n]
        if token.type == "tr_open":
            rows.append([])
        elif token.type == "inline":
            rows[-1].append(_plain(token))
        elif token.type == "table_close":
            break
    return rows


def _plain(inline: Token) -> str:
    breaks = ("softbreak", "hardbreak")
    return "".join(" " if child.type in breaks else child.content for child in inline.children or ())


def grid(rows: Sequence[Sequence[object]]) -> str:
    """A table as Markdown."""
    lines = [f"| {' | '.join(_markdown_cell(value) for value in row)} |" for row in rows]
    rule = f"|{' --- |' * len(rows[0])}" if rows else ""
    return "\n".join([*lines[:1], rule, *lines[1:], ""])


def _markdown_cell(value: object) -> str:
    return "" if value is None else " ".join(str(value).split()).replace("|", "\\|")


_ZIP_EPOCH = (1980, 1, 1, 0, 0, 0)
_LISTS = {"bullet_list_open": "List Bullet", "ordered_list_open": "List Number"}
_DEEPEST = 3
_MONOSPACE = "Courier New"


def _docx(text: str) -> bytes:
    try:
        from docx import Document
    except ImportError as error:
        raise MissingPackage("a docx document", install="path/to/stellwerk[documents]") from error
    document = Document()
    _DocxWriter(document).write(_MARKDOWN.parse(text))
    out = io.BytesIO()
    document.save(out)
    return _without_time(out.getvalue())


class _DocxWriter:
    def __init__(self, document: "Document") -> None:
        self._document = document
        self._lists: list[str] = []
        self._heading: int | None = None
        self._quoted = 0

    def write(self, tokens: Sequence[Token]) -> None:
        in_table = False
        for n, token in enumerate(tokens):
            if token.type == "table_open":
                in_table = True
                self._table(_rows(tokens, n))
            elif token.type == "table_close":
                in_table = False
            elif not in_table:
                self._token(token)

    def _token(self, token: Token) -> None:
        if token.type in _LISTS:
            self._lists.append(_LISTS[token.type])
        elif token.type.endswith("_list_close"):
            self._lists.pop()
        elif token.type in ("heading_open", "heading_close"):
            self._heading = int(token.tag[1:]) if token.nesting == 1 else None
        elif token.type in ("blockquote_open", "blockquote_close"):
            self._quoted += token.nesting
        elif token.type in ("fence", "code_block"):
            self._document.add_paragraph().add_run(token.content.rstrip("\n")).font.name = _MONOSPACE
        elif token.type == "inline":
            _write_runs(self._paragraph(), token.children or [])

    def _paragraph(self) -> "Paragraph":
        style = "Quote" if self._quoted else None
        if self._heading is not None:
            style = f"Heading {self._heading}"
        elif self._lists:
            deep = min(len(self._lists), _DEEPEST)
            style = f"{self._lists[-1]} {deep}" if deep > 1 else self._lists[-1]
        return self._document.add_paragraph(style=style)

    def _table(self, rows: list[list[str]]) -> None:
        table = self._document.add_table(rows=len(rows), cols=len(rows[0]), style="Table Grid")
        cells = table._cells  # access by row and column has quadratic cost
        for cell, value in zip(cells, chain.from_iterable(rows), strict=True):
            cell.text = value
        for cell in cells[: len(rows[0])]:
            for run in cell.paragraphs[0].runs:
                run.bold = True


def _write_runs(paragraph: "Paragraph", children: Sequence[Token]) -> None:
    bold = italic = 0
    for child in children:
        if child.type in ("strong_open", "strong_close"):
            bold += child.nesting
        elif child.type in ("em_open", "em_close"):
            italic += child.nesting
        elif child.type == "hardbreak":
            paragraph.add_run().add_break()
        else:
            run = paragraph.add_run(" " if child.type == "softbreak" else child.content)
            run.bold, run.italic = bool(bold) or None, bool(italic) or None
            if child.type == "code_inline":
                run.font.name = _MONOSPACE


def _without_time(data: bytes) -> bytes:
    """The same package without timestamps."""
    out = io.BytesIO()
    package = zipfile.ZipFile(io.BytesIO(data))
    with zipfile.ZipFile(out, "w") as timeless:
        for member in package.infolist():
            entry = zipfile.ZipInfo(member.filename, _ZIP_EPOCH)
            timeless.writestr(entry, package.read(member), zipfile.ZIP_DEFLATED)
    return out.getvalue()


ROWS, COLUMNS = 1_048_576, 16_384
_AS_TEXT = ("strings_to_formulas", "strings_to_urls", "strings_to_numbers")
_OPTIONS = {"in_memory": True, **dict.fromkeys(_AS_TEXT, False)}
_NUMBER = re.compile(r"-?(0|[1-9]\d{0,14})(\.\d{1,10})?")
"""A number beyond doubt; with a leading zero it may be a code."""
_CREATED = datetime(2000, 1, 1)
_LONGEST = 32_767
_WIDEST, _PROBE = 60, 200


def to_xlsx(tables: Sequence[Sequence[Sequence[str]]]) -> bytes:
    """A sheet for each table, whose first row is its head. Text stays text: no formula, no link."""
    try:
        from xlsxwriter import Workbook
    except ImportError as error:
        raise MissingPackage("an xlsx document", install="path/to/stellwerk[documents]") from error
    out = io.BytesIO()
    with Workbook(out, _OPTIONS) as workbook:
        workbook.set_properties({"created": _CREATED})
        bold = workbook.add_format({"bold": True})
        for rows in tables:
            if len(rows) > ROWS or any(len(row) > COLUMNS for row in rows):
                limits = f"a sheet has at most {ROWS:,} rows and {COLUMNS:,} columns; make several"
                raise InvalidField(limits, field="content")
            _write(workbook.add_worksheet(), rows, head=bold)
    return out.getvalue()


def _write(sheet: "Worksheet", rows: Sequence[Sequence[str]], *, head: "Format") -> None:
    sheet.freeze_panes(1, 0)
    for number, row in enumerate(rows):
        for column, value in enumerate(row):
            sheet.write(number, column, _cell(value), None if number else head)
    for column, width in enumerate(_widths(rows)):
        sheet.set_column(column, column, width)


def _cell(value: str) -> str | int | float:
    if _NUMBER.fullmatch(value):
        return float(value) if "." in value else int(value)
    return value[:_LONGEST]


def _widths(rows: Sequence[Sequence[str]]) -> list[int]:
    columns = zip_longest(*rows[:_PROBE], fillvalue="")
    return [min(max(map(len, cells)), _WIDEST) + 2 for cells in columns]


_NEVER = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML does not allow; they are removed from all formats."""


def write_document(filename: str, content: str) -> Blob:
    """Write a document in the format of the extension of ``filename``.

    ``content`` is Markdown; table formats take the tables in it, or the text as CSV. Page marks,
    which extracted text contains, are removed.

    Raises:
        InvalidField: there is no writer for this extension, or not for this content.
        MissingPackage: the extra ``documents`` is not installed.
    """
    ext = filename.rpartition(".")[2].lower()
    if ext not in _WRITERS:
        problem = f"{filename[:80]!r} cannot be made; its extension must be one of {', '.join(_WRITERS)}"
        raise InvalidField(problem, field="name")
    mime, make = _WRITERS[ext]
    text = PAGE_MARK.sub("", _NEVER.sub("", clean_text(content)))
    return make_blob(make(text), mime=mime, filename=filename)


def _csv(content: str) -> bytes:
    tables = tables_in(content)
    if not tables:
        return content.encode()
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(tables[0])
    return out.getvalue().encode()


def _json(content: str) -> bytes:
    try:
        value = msgspec.json.decode(content)
    except msgspec.DecodeError as error:
        raise InvalidField(f"this is no JSON: {error}; send the JSON text alone", field="content") from error
    return json.dumps(value, ensure_ascii=False, indent=2).encode() + b"\n"


def _xlsx(content: str) -> bytes:
    tables = tables_in(content) or [_csv_rows(content)]
    if max((len(row) for row in tables[0]), default=0) < 2:
        raise InvalidField("there is no table in this text; send a Markdown table, or CSV", field="content")
    return to_xlsx(tables)


def _csv_rows(text: str) -> list[list[str]]:
    try:
        return list(csv.reader(io.StringIO(text, newline=None)))
    except csv.Error as error:
        raise InvalidField(f"this is no CSV: {error}; send a Markdown table, or CSV", field="content") from error


_WRITERS: dict[str, tuple[str, Callable[[str], bytes]]] = {
    "md": ("text/markdown", str.encode),
    "txt": ("text/plain", str.encode),
    "csv": ("text/csv", _csv),
    "json": ("application/json", _json),
    "html": ("text/html", _html),
    "docx": (OFFICE["docx"], _docx),
    "xlsx": (OFFICE["xlsx"], _xlsx),
}
