"""Readers of plain text, Markdown, JSON and HTML, with detection of the encoding."""

import codecs
import re
from html.parser import HTMLParser
from typing import Any, NamedTuple

import msgspec

from stellwerk.errors import ExtractionError
from stellwerk.workflows.documents import contents
from stellwerk.workflows.documents.contents import ContentItem, Source, counted, make_item

# Longer byte order marks first: that of UTF-32 begins like that of UTF-16.
_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_CONTROLS = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f]")
_LOOK = 4096
_MANY = 0.3
"""Share of zero bytes in UTF-16 without a mark: in English half, all at even or odd places."""
_FEW = 0.01
_KEYS = 12


class Decoded(NamedTuple):
    text: str
    encoding: str


def decoded(data: bytes) -> Decoded | None:
    """The text; None if binary. Text that is not Unicode is read as a fitting Western code page."""
    mark = next((encoding for mark, encoding in _MARKS if data.startswith(mark)), None)
    mark = mark or _unmarked(data[:_LOOK])
    if mark is not None:
        return _decoded(data, (mark,), errors="replace")
    if len(_CONTROLS.findall(data[:_LOOK])) > len(data[:_LOOK]) * _FEW:
        return None
    return _decoded(data, ("utf-8", "cp1252", "latin-1"))


def _unmarked(begin: bytes) -> str | None:
    """Detect UTF-16 of mostly Western text: every other byte is zero."""
    even, odd = begin[::2].count(0), begin[1::2].count(0)
    if max(even, odd) < len(begin) * _MANY or min(even, odd) > len(begin) * _FEW:
        return None
    return "utf-16-le" if odd > even else "utf-16-be"


def _decoded(data: bytes, encodings: tuple[str, ...], *, errors: str = "strict") -> Decoded | None:
    for encoding in encodings:
        try:
            text = data.decode(encoding, errors)
        except UnicodeDecodeError:
            continue
        if text.count("\ufffd") > 1 + len(text) * _FEW:
            return None
        text = text.replace("\r\n", "\n").replace("\r", "\n").replace("\0", "")
        return Decoded(text, encoding.removesuffix("-sig"))
    return None


def text_of(source: Source) -> Decoded:
    found = decoded(source.data)
    if found is None:
        raise ExtractionError("document_corrupt", "its text cannot be decoded")
    return found


def read_text(source: Source) -> list[ContentItem]:
    return [text_item(source, text_of(source), "Text", "text/plain")]


def read_markdown(source: Source) -> list[ContentItem]:
    return [text_item(source, text_of(source), "Markdown", "text/markdown")]


def text_item(source: Source, found: Decoded, kind: str, mime: str, extracted: str | None = None) -> ContentItem:
    """``extracted`` is what there is to read in it; without it, all of its text."""
    text = found.text if extracted is None else extracted
    language = contents.language_of(text)
    summary = contents.text_summary(kind, text, language)
    return make_item(source, mime, text, summary, language=language, **original(source, found))


def original(source: Source, found: Decoded) -> dict[str, Any]:
    """The fields of an item whose own content is the text of its source."""
    return {"data": found.text, "size": len(source.data), "encoding": found.encoding}


def read_json(source: Source) -> list[ContentItem]:
    found = text_of(source)
    try:
        summary = f"JSON, {_shape(msgspec.json.decode(found.text))}"
    except msgspec.DecodeError as error:
        summary = f"Text that is no valid JSON: {error}"
    except (RecursionError, MemoryError):
        summary = f"JSON, nested too deeply to be described, {counted(len(found.text), 'letter')}"
    return [make_item(source, "application/json", found.text, summary, **original(source, found))]


def _shape(value: object) -> str:
    match value:
        case dict():
            return f"an object, {counted(len(value), 'key')}: {_keys(value)}"
        case [dict() as first, *_]:
            return f"a list of {counted(len(value), 'object')}, the first with: {_keys(first)}"
        case list():
            return f"a list of {counted(len(value), 'value')}"
        case _:
            return "a single value"


def _keys(value: dict[str, object]) -> str:
    return ", ".join(list(value)[:_KEYS]) + (", …" if len(value) > _KEYS else "")


_SILENT = {"script", "style", "template", "noscript", "svg", "iframe", "object", "select"}
_HEADINGS = {f"h{level}": "#" * level for level in range(1, 7)}
_BLOCKS = {"p", "div", "section", "article", "header", "footer", "main", "ul", "ol", "table", "blockquote", "pre"}
_BREAKS = {"br", "hr", "dt", "dd", "figcaption", "option"}
_CELLS = {"td", "th"}


class _Text(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.title = ""
        self.lines: list[str] = []
        self._line: list[str] = []
        self._silent: list[str] = []
        self._in_title = False
        self._row: list[str] | None = None
        self._first_row = False
        self._in_cell = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in _SILENT:
            self._silent.append(tag)
        elif tag == "title":
            self._in_title = True
        elif not self._silent:
            self._open(tag)

    def _open(self, tag: str) -> None:
        if tag == "tr":
            self._end_row()
            self._break()
            self._row = []
        elif tag in _CELLS and self._row is not None:
            self._end_cell()
            self._in_cell = True
        elif tag == "table":
            self._blank()
            self._first_row = True
        elif tag in _HEADINGS:
            self._blank()
            self._line.append(f"{_HEADINGS[tag]} ")
        elif tag == "li":
            self._break()
            self._line.append("- ")
        elif tag in _BLOCKS:
            self._blank()
        elif tag in _BREAKS:
            self._break()

    def handle_endtag(self, tag: str) -> None:
        if self._silent:
            if tag == self._silent[-1]:
                self._silent.pop()
        elif tag == "title":
            self._in_title = False
        elif tag in _CELLS:
            self._end_cell()
        elif tag in ("tr", "table"):
            self._end_row()
        if tag in _BLOCKS or tag in _HEADINGS:
            self._blank()

    def handle_data(self, data: str) -> None:
        if self._in_title:
            self.title += data
        elif not self._silent:
            self._line.append(data)

    def _taken(self) -> str:
        line, self._line = " ".join("".join(self._line).split()), []
        return line

    def _break(self) -> None:
        if self._row is None and (line := self._taken()):
            self.lines.append(line)

    def _blank(self) -> None:
        self._break()
        if self._row is None and self.lines and self.lines[-1]:
            self.lines.append("")

    def _end_cell(self) -> None:
        """HTML allows to leave out the end tag."""
        if self._row is not None:
            cell = self._taken()
            if self._in_cell:
                self._row.append(cell.replace("|", "\\|"))
        self._in_cell = False

    def _end_row(self) -> None:
        self._end_cell()
        row, self._row = self._row, None
        if row:
            self.lines.append(f"| {' | '.join(row)} |")
            if self._first_row:
                self.lines.append(f"|{' --- |' * len(row)}")
            self._first_row = False

    def text(self) -> str:
        """The text of all that was fed."""
        self.close()
        self._end_row()
        self._break()
        return "\n".join(self.lines).strip() + "\n"


def markup_to_text(markup: str) -> tuple[str, str]:
    """The title of a page, and its text."""
    parser = _Text()
    parser.feed(markup)
    text = parser.text()
    return " ".join(parser.title.split()), text


def read_html(source: Source) -> list[ContentItem]:
    found = text_of(source)
    title, text = markup_to_text(found.text)
    kind = f"Web page “{title[:80]}”" if title else "Web page"
    return [text_item(source, found, kind, "text/html", text)]
