"""Readers of CSV in any dialect and of xlsx workbooks: tables become CSV, up to a row limit."""

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from itertools import islice
from typing import Any

from stellwerk.errors import ExtractionError
from stellwerk.workflows.documents.contents import ContentItem
from stellwerk.workflows.documents.readers.archive import OFFICE_MEMBERS, opened
from stellwerk.workflows.documents.readers.items import Source, make_item, table_summary
from stellwerk.workflows.documents.readers.text import text_item, text_of

ROWS = 200_000
"""Rows of one table that are extracted, its head not counted."""
_DELIMITERS = ",;\t|"
_PROBE = 20
"""Rows from which the delimiter is detected."""
_LONGEST_CELL = 1_000_000


def read_csv(source: Source) -> list[ContentItem]:
    found = text_of(source)
    csv.field_size_limit(_LONGEST_CELL)
    lines = list(io.StringIO(found.text))  # other separators, such as U+2028, may be part of a cell
    try:
        rows = csv.reader(lines, delimiter="\t" if source.ext == "tsv" else _delimiter(lines))
        return [
            table_item(source, rows, data=found.text, size=len(source.data), encoding=found.encoding, ext=source.ext)
        ]
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
            items = [
                table_item(source, sheet.iter_rows(), name=_within(source, name), ext="csv", data=None)
                for name, sheet in sheets
                if sheet.height
            ]
    except CalamineError as error:
        raise ExtractionError("document_corrupt", str(error)) from error
    if not items:
        raise ExtractionError("document_empty", "no sheet has a cell with something in it")
    return items


def _within(source: Source, sheet: str) -> str:
    return f"{source.name}/{sheet}" if source.name else sheet


def table_item(source: Source, rows: Iterable[Sequence[Any]], **about: Any) -> ContentItem:
    """A table as CSV. Its own content is the same, unless ``about`` has another."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    head: list[str] = []
    columns, count, end, cut = 0, -1, 0, False
    for row in _without_blank(rows):
        cells = [_cell(value) for value in row]
        if not head:
            head, columns = cells, len(cells)
        writer.writerow(cells)
        cut = count == ROWS or out.tell() > source.allowance.left
        if cut:
            break
        columns, count, end = max(columns, len(cells)), count + 1, out.tell()
    text, count = out.getvalue()[:end], max(count, 0)
    data = about.pop("data")
    about |= {"data": text if data is None else data, "rows": count, "columns": columns, "truncated": cut}
    return make_item(source, "text/csv", text, table_summary(head, columns, count, cut=cut), **about)


def _without_blank(rows: Iterable[Sequence[Any]]) -> Iterator[Sequence[Any]]:
    return (row for row in rows if any(value not in ("", None) for value in row))


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
