"""Word documents made of Markdown: headings, paragraphs, lists, tables, code and quotes."""

import io
import zipfile
from collections.abc import Sequence
from typing import TYPE_CHECKING

from markdown_it.token import Token

from stellwerk.documents.markdown import parsed, rows_of
from stellwerk.errors import MissingPackage

if TYPE_CHECKING:
    from docx.document import Document
    from docx.text.paragraph import Paragraph

_LONG_AGO = (1980, 1, 1, 0, 0, 0)
_LISTS = {"bullet_list_open": "List Bullet", "ordered_list_open": "List Number"}
_DEEPEST = 3
_MONOSPACE = "Courier New"


def to_docx(text: str) -> bytes:
    """
    Raises:
        MissingPackage: python-docx is not installed.
    """
    try:
        from docx import Document
    except ImportError as error:
        raise MissingPackage("a docx document", install="path/to/stellwerk[documents]") from error
    document = Document()
    _Writing(document).write(parsed(text))
    out = io.BytesIO()
    document.save(out)
    return _without_time(out.getvalue())


class _Writing:
    def __init__(self, document: "Document") -> None:
        self._document = document
        self._lists: list[str] = []
        self._heading: int | None = None
        self._quoted = 0

    def write(self, tokens: Sequence[Token]) -> None:
        table: list[Token] | None = None
        for token in tokens:
            if token.type == "table_open":
                table = []
            elif token.type == "table_close" and table is not None:
                self._table([list(row) for row in rows_of(table)])
                table = None
            elif table is not None:
                table.append(token)
            else:
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
        if self._heading is not None:
            style = f"Heading {self._heading}"
            return self._document.add_paragraph(style=style)
        if self._lists:
            deep = min(len(self._lists), _DEEPEST)
            return self._document.add_paragraph(style=self._lists[-1] + (f" {deep}" if deep > 1 else ""))
        return self._document.add_paragraph(style="Quote" if self._quoted else None)

    def _table(self, rows: list[list[str]]) -> None:
        table = self._document.add_table(rows=len(rows), cols=len(rows[0]), style="Table Grid")
        cells = table._cells  # asking for each by row and column costs the square of their number
        for index, value in enumerate(value for row in rows for value in row):
            cells[index].text = value
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
    """The same package, but not a word about when it was written."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as package, zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as timeless:
        for member in package.infolist():
            timeless.writestr(zipfile.ZipInfo(member.filename, _LONG_AGO), package.read(member), zipfile.ZIP_DEFLATED)
    return out.getvalue()
