"""Workbooks made of tables. Text stays text: nothing that begins with ``=`` becomes a formula, no address a link."""

import io
import re
from collections.abc import Sequence
from datetime import date, datetime, time
from typing import TYPE_CHECKING

from stellwerk.errors import InvalidField, MissingPackage

if TYPE_CHECKING:
    from xlsxwriter.format import Format
    from xlsxwriter.worksheet import Worksheet

ROWS, COLUMNS = 1_048_576, 16_384
_OPTIONS = {"in_memory": True, "strings_to_formulas": False, "strings_to_urls": False, "strings_to_numbers": False}
_NUMBER = re.compile(r"-?(0|[1-9]\d{0,14})(\.\d{1,10})?")
"""What is a number beyond doubt; with a zero in front it may be a code."""
_LONG_AGO = datetime(2000, 1, 1)
_LONGEST = 32_767
_WIDEST, _PROBE = 60, 200


def to_xlsx(tables: Sequence[Sequence[Sequence[object]]]) -> bytes:
    """A sheet for each table, whose first row is its head.

    Raises:
        MissingPackage: XlsxWriter is not installed.
        InvalidField: a table is larger than a sheet can be.
    """
    try:
        from xlsxwriter import Workbook
    except ImportError as error:
        raise MissingPackage("an xlsx document", install="path/to/stellwerk[documents]") from error
    out = io.BytesIO()
    with Workbook(out, _OPTIONS) as workbook:
        workbook.set_properties({"created": _LONG_AGO})
        bold, day = workbook.add_format({"bold": True}), workbook.add_format({"num_format": "yyyy-mm-dd"})
        for rows in tables:
            _check(rows)
            _write(workbook.add_worksheet(), rows, head=bold, day=day)
    return out.getvalue()


def _write(sheet: "Worksheet", rows: Sequence[Sequence[object]], *, head: "Format", day: "Format") -> None:
    sheet.freeze_panes(1, 0)
    for number, row in enumerate(rows):
        for column, value in enumerate(row):
            cell = _cell(value)
            shape = head if number == 0 else day if isinstance(cell, date) else None
            sheet.write(number, column, cell, shape)
    for column, width in enumerate(_widths(rows)):
        sheet.set_column(column, column, width)


def _check(rows: Sequence[Sequence[object]]) -> None:
    if len(rows) > ROWS or any(len(row) > COLUMNS for row in rows):
        raise InvalidField(f"a sheet has at most {ROWS:,} rows and {COLUMNS:,} columns; make several", field="content")


def _cell(value: object) -> object:
    match value:
        case str() if _NUMBER.fullmatch(value):
            return float(value) if "." in value else int(value)
        case str():
            return value[:_LONGEST]
        case bool() | int() | float() | date() | time() | None:
            return value
        case _:
            return str(value)[:_LONGEST]


def _widths(rows: Sequence[Sequence[object]]) -> list[int]:
    wide = [0] * max((len(row) for row in rows[:_PROBE]), default=0)
    for row in rows[:_PROBE]:
        for column, value in enumerate(row):
            wide[column] = max(wide[column], len(str(value)))
    return [min(width, _WIDEST) + 2 for width in wide]
