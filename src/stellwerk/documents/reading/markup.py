"""HTML as text: headings, lists and tables stay what they are; scripts, styles and what is hidden go."""

from dataclasses import dataclass
from html.parser import HTMLParser

from stellwerk.documents.contents import ContentItem
from stellwerk.documents.reading.language import language_of
from stellwerk.documents.reading.source import Source, make_item
from stellwerk.documents.reading.summaries import text_summary
from stellwerk.documents.reading.text import text_of

_SILENT = {"script", "style", "template", "noscript", "svg", "iframe", "object", "select"}
_HEADINGS = {f"h{level}": "#" * level for level in range(1, 7)}
_BLOCKS = {"p", "div", "section", "article", "header", "footer", "main", "ul", "ol", "table", "blockquote", "pre"}
_BREAKS = {"br", "hr", "dt", "dd", "figcaption", "option"}
_CELLS = {"td", "th"}


@dataclass(frozen=True, slots=True)
class Page:
    title: str
    text: str


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
        """Its end need not be written."""
        cell = self._taken() if self._row is not None else ""
        if self._row is not None and self._in_cell:
            self._row.append(cell.replace("|", "\\|"))
        self._in_cell = False

    def _end_row(self) -> None:
        if self._row is None:
            return
        self._end_cell()
        row, self._row = self._row, None
        if row:
            self.lines.append(f"| {' | '.join(row)} |")
            if self._first_row:
                self.lines.append(f"|{' --- |' * len(row)}")
            self._first_row = False

    def finish(self) -> Page:
        self.close()
        self._end_row()
        self._break()
        return Page(" ".join(self.title.split()), "\n".join(self.lines).strip() + "\n")


def markup_to_text(markup: str) -> Page:
    parser = _Text()
    parser.feed(markup)
    return parser.finish()


def read_html(source: Source) -> list[ContentItem]:
    found = text_of(source)
    page = markup_to_text(found.text)
    language = language_of(page.text)
    kind = f"Web page “{page.title[:80]}”" if page.title else "Web page"
    about = {"data": found.text, "size": len(source.data), "encoding": found.encoding, "language": language}
    return [make_item(source, "text/html", page.text, text_summary(kind, page.text, language), **about)]
