"""Tables: CSV in whatever dialect, and the sheets of a workbook. They stay tables, row by row up to a bound."""

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from itertools import islice
from typing import Any

from stellwerk.documents.contents import ContentItem
from stellwerk.documents.reading.packages import check_package
from stellwerk.documents.reading.source import Source, make_item
from stellwerk.documents.reading.summaries import table_summary
from stellwerk.documents.reading.text import text_item, text_of
from stellwerk.errors import ExtractionError

ROWS = 200_000
"""Rows of one table that are extracted, its head not counted."""
_DELIMITERS = ",;\t|"
_PROBE = 20
"""Rows by which the delimiter is found."""
_LONGEST_CELL = 1_000_000


def read_csv(source: Source) -> list[ContentItem]:
    found = text_of(source)
    csv.field_size_limit(_LONGEST_CELL)
    lines = list(io.StringIO(found.text))  # others than \n, such as U+2028, may stand in a cell
    try:
        rows = csv.reader(lines, delimiter="\t" if source.ext == "tsv" else _delimiter(lines))
        return [
            table_item(source, rows, data=found.text, size=len(source.data), encoding=found.encoding, ext=source.ext)
        ]
    except csv.Error:
        return [text_item(source, found, "Text that is no table", "text/csv")]


def _delimiter(lines: Sequence[str]) -> str:
    """The one by which most of the first rows have the same number of cells, and more than one."""

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
    check_package(source.data)
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
    written, filled = _Written(source.allowance.left), _without_blank(rows)
    head = [_cell(value) for value in next(filled, [])]
    columns, count, cut = len(head), 0, not written.add(head)
    for row in filled:
        cut = cut or count == ROWS or not written.add([_cell(value) for value in row])
        if cut:
            break
        columns, count = max(columns, len(row)), count + 1
    text = written.text()
    data = about.pop("data")
    about |= {"data": text if data is None else data, "rows": count, "columns": columns, "truncated": cut}
    return make_item(source, "text/csv", text, table_summary(head, columns, count, cut=cut), **about)


class _Written:
    """CSV, a row at a time, and no more of it than allowed."""

    def __init__(self, room: int) -> None:
        self._room, self._out = room, io.StringIO()
        self._csv = csv.writer(self._out, lineterminator="\n")

    def add(self, row: Sequence[str]) -> bool:
        before = self._out.tell()
        self._csv.writerow(row)
        if self._out.tell() <= self._room:
            return True
        self._out.truncate(before)
        self._out.seek(before)
        return False

    def text(self) -> str:
        return self._out.getvalue()


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
