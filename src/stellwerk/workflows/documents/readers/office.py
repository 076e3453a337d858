"""Readers of tables and Office files: csv and xlsx to CSV; docx, pptx and PDF to Markdown."""

import asyncio
import csv
import io
from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, Any

from stellwerk.documents.mimes import OFFICE
from stellwerk.errors import ExtractionError
from stellwerk.workflows.documents import contents
from stellwerk.workflows.documents.contents import ContentItem, Reader, Source, make_item
from stellwerk.workflows.documents.readers.file_types import OFFICE_MEMBERS, opened
from stellwerk.workflows.documents.readers.text import original, text_item, text_of

if TYPE_CHECKING:
    import xberg

ROWS = 200_000
"""Rows of one table that are extracted, its head not counted."""
_DELIMITERS = ",;\t|"
_PROBE = 20
"""Rows from which the delimiter is detected."""


def read_csv(source: Source) -> list[ContentItem]:
    found = text_of(source)
    csv.field_size_limit(contents.LONGEST_CELL)
    lines = list(io.StringIO(found.text))  # other separators, such as U+2028, may be part of a cell
    try:
        rows = csv.reader(lines, delimiter="\t" if source.ext == "tsv" else _delimiter(lines))
        return [table_item(source, rows, **original(source, found))]
    except csv.Error:
        return [text_item(source, found, "Text that is no table", "text/csv")]


def _delimiter(lines: Sequence[str]) -> str:
    """The delimiter by which most of the first rows have the same number of cells, over one."""

    def fitness(delimiter: str) -> tuple[int, int]:
        widths = [len(row) for row in islice(csv.reader(lines, delimiter=delimiter), _PROBE)]
        usual = max(set(widths), key=widths.count, default=1)
        return (widths.count(usual), usual) if usual > 1 else (0, 0)

    return max(_DELIMITERS, key=fitness)


def read_workbook(source: Source) -> list[ContentItem]:
    """Each sheet that has cells is an item.

    Raises:
        ExtractionError: the package that reads it is not installed, or cannot.
    """
    opened(source.data, members=OFFICE_MEMBERS)
    try:
        from python_calamine import CalamineError, CalamineWorkbook
    except ImportError as error:
        raise ExtractionError("document_needs_package") from error
    try:
        with CalamineWorkbook.from_filelike(io.BytesIO(source.data)) as workbook:
            sheets = [(name, workbook.get_sheet_by_name(name)) for name in workbook.sheet_names]
            within = f"{source.name}/" if source.name else ""
            items = [
                table_item(source, sheet.iter_rows(), name=f"{within}{name}", ext="csv", data=None)
                for name, sheet in sheets
                if sheet.height
            ]
    except CalamineError as error:
        raise ExtractionError("document_corrupt", str(error)) from error
    if not items:
        raise ExtractionError("document_empty", "no sheet has a cell with something in it")
    return items


def table_item(source: Source, rows: Iterable[Sequence[Any]], **about: Any) -> ContentItem:
    """A table as CSV. Its own content is the same, unless ``about`` has another."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    head: list[str] = []
    columns, count, end, cut = 0, -1, 0, False
    for row in rows:
        cells = [_cell(value) for value in row]
        if not any(cells):
            continue
        if not head:
            head, columns = cells, len(cells)
        writer.writerow(cells)
        cut = count == ROWS or out.tell() > source.room.left
        if cut:
            break
        columns, count, end = max(columns, len(cells)), count + 1, out.tell()
    text, count = out.getvalue()[:end], max(count, 0)
    data = about.pop("data")
    about |= {"data": text if data is None else data, "truncated": cut}
    summary = contents.table_summary(head, columns, count, cut=cut)
    return make_item(source, "text/csv", text, summary, rows=count, columns=columns, **about)


def _cell(value: object) -> str:
    match value:
        case str():
            return value.replace("\r\n", "\n").replace("\r", "\n")
        case bool():
            return "true" if value else "false"
        case float() if value.is_integer() and abs(value) < 1e15:
            return str(int(value))
        case datetime():
            return value.isoformat(" ")
        case None:
            return ""
        case _:
            return str(value)


_KINDS = {"docx": "Document", "pptx": "Slides", "pdf": "PDF"}


def office_reader(kind: str) -> Reader:
    def read(source: Source) -> list[ContentItem]:
        if kind != "pdf":
            opened(source.data, members=OFFICE_MEMBERS)
        pages = _pages(source.data, kind)
        text = "\n\n".join(pages).strip()
        if not text:
            raise ExtractionError("document_empty", "no text is in it; pictures of text are not read")
        language, count = contents.language_of(text), None if kind == "docx" else len(pages)
        summary = contents.text_summary(_KINDS[kind], text, language, pages=count)
        if count is not None:
            text = "\n\n".join(f"{contents.page_mark(n)}\n{page}" for n, page in enumerate(pages, 1))
        about = {"ext": kind, "language": language, "pages": count}
        return [make_item(source, OFFICE[kind], f"{text}\n", summary, **about)]

    return read


def _pages(data: bytes, kind: str) -> list[str]:
    """The Markdown of each page or slide; a text document is one page."""
    try:
        import xberg
    except ImportError as error:
        raise ExtractionError("document_needs_package") from error
    given = xberg.ExtractInput(kind="bytes", bytes=data, mime_type=OFFICE[kind])
    try:
        result = asyncio.run(xberg.extract(given, _config(kind)))
    except RuntimeError as error:  # the only class it raises; its message has the cause
        raise _refusal(str(error)) from error
    if not result.results:
        raise _refusal(result.errors[0].message if result.errors else "")
    document = result.results[0]
    return [page.content.strip() for page in document.pages] if document.pages else [document.content]


def _config(kind: str) -> "xberg.ExtractionConfig":
    import xberg

    return xberg.ExtractionConfig(
        use_cache=False,
        disable_ocr=True,
        enable_quality_processing=False,
        postprocessor=xberg.PostProcessorConfig(enabled=False),
        output_format="markdown",
        escape_markdown=False,
        pages=xberg.PageConfig(extract_pages=kind != "docx"),
        concurrency=xberg.ConcurrencyConfig(max_threads=1),
        max_archive_depth=0,
        # Checked before, by file_types.opened; a blank picture alone may grow a thousandfold.
        security_limits=xberg.SecurityLimits(max_compression_ratio=100_000, max_table_cells=2_000_000),
        extraction_timeout_secs=None,
    )


def _refusal(problem: str) -> ExtractionError:
    if "password" in problem or "encrypted" in problem.lower():
        return ExtractionError("document_encrypted")
    if "limit exceeded" in problem.lower():
        return ExtractionError("document_too_large", problem[:200])
    return ExtractionError("document_corrupt", problem[:200])
