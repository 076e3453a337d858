"""Figures of a table: sums and the like, worked out exactly, because models are bad at it.

It is read some rows at a time. What is kept are figures of columns and groups, so that a
long table takes no more memory than a short one.
"""

import csv
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import islice, zip_longest

from stellwerk.documents.contents import ContentItem
from stellwerk.envelope.results import Column, Table
from stellwerk.errors import InvalidField

_NUMBER = re.compile(r"\s*[-+]?\d{1,30}(\.\d{1,30})?([eE][-+]?\d{1,2})?\s*")
_NUMERIC = 0.9
"""Of the cells that are not empty, the part that must be numbers for a column to be one of numbers."""
_MOST_GROUPS = 1000
_MOST_COLUMNS = 500
_SOME = 250
"""Rows that are counted in one go."""
_NONE = Decimal()


@dataclass(slots=True)
class _Figures:
    """Of a column."""

    filled: int = 0
    count: int = 0
    total: Decimal = _NONE
    least: Decimal = _NONE
    greatest: Decimal = _NONE

    def add(self, filled: int, numbers: Sequence[Decimal]) -> None:
        self.filled += filled
        if numbers:
            self.least = min(numbers) if not self.count else min(self.least, *numbers)
            self.greatest = max(numbers) if not self.count else max(self.greatest, *numbers)
            self.total = sum(numbers, self.total)
            self.count += len(numbers)

    @property
    def is_numeric(self) -> bool:
        return self.count > 0 and self.count >= _NUMERIC * self.filled

    def row(self) -> tuple[int | float, ...]:
        mean = round(float(self.total) / self.count, 4)
        return (self.count, _plain(self.total), mean, _plain(self.least), _plain(self.greatest))


def figures(table: ContentItem, *, group_by: str = "") -> Table:
    """Of a table whose first row is the head. Of several columns with one name, the second is ``name (2)``.

    Raises:
        InvalidField: there are no numbers in it, no such column, or too many columns or groups.
    """
    if (wide := table.metadata.columns or 0) > _MOST_COLUMNS:
        raise InvalidField(f"this table has {wide:,} columns; {_MOST_COLUMNS} can be counted", field="document")
    try:
        rows = csv.reader(_lines(table.data_extracted))
        head = _names(next(rows, []))
        return _counted(head, rows, _place(head, group_by) if group_by else None)
    except csv.Error as error:
        raise InvalidField(f"this table cannot be counted ({error}); read it instead", field="document") from error


def _lines(text: str) -> Iterator[str]:
    start = 0
    while start < len(text):
        end = text.find("\n", start) + 1 or len(text)
        yield text[start:end]
        start = end


def _names(head: Sequence[str]) -> list[str]:
    """Each once, whatever the table calls its columns."""
    names = list[str]()
    for number, cell in enumerate(head, 1):
        name = plain = cell.strip() or f"column {number}"
        times = 1
        while name in names:
            times += 1
            name = f"{plain} ({times})"
        names.append(name)
    return names


def _place(head: Sequence[str], wanted: str) -> int:
    """Of the column of this name; if there is none, of the only one that has it in other letters."""
    if wanted in head:
        return head.index(wanted)
    alike = [n for n, name in enumerate(head) if name.casefold() == wanted.strip().casefold()]
    if len(alike) != 1:
        raise InvalidField(f"there is no column {wanted!r}; there are: {', '.join(head)}", field="group_by")
    return alike[0]


def _counted(head: Sequence[str], rows: Iterator[list[str]], group: int | None) -> Table:
    columns = [_Figures() for _ in head]
    groups = dict[str, list[Decimal]]()
    while some := list(islice(rows, _SOME)):
        values = [] if group is None else [row[group] if group < len(row) else "" for row in some]
        sums = [_sums(groups, value, len(head)) for value in values]
        for n, (cells, column) in enumerate(zip(zip_longest(*some, fillvalue=""), columns, strict=False)):
            found = [(place, Decimal(cell)) for place, cell in enumerate(cells) if _NUMBER.fullmatch(cell)]
            column.add(sum(1 for cell in cells if cell.strip()), [number for _, number in found])
            if group is not None:
                for place, number in found:
                    sums[place][n] += number
    numeric = [n for n, column in enumerate(columns) if column.is_numeric and n != group]
    if not numeric:
        raise InvalidField("there is no column of numbers in this table; read it instead", field="document")
    return _of_columns(head, columns, numeric) if group is None else _of_groups(head, groups, numeric, group)


def _sums(groups: dict[str, list[Decimal]], value: str, width: int) -> list[Decimal]:
    if value not in groups and len(groups) == _MOST_GROUPS:
        told = f"this column has more than {_MOST_GROUPS:,} different values; group by another, or by none"
        raise InvalidField(told, field="group_by")
    return groups.setdefault(value, [_NONE] * width)


def _of_columns(head: Sequence[str], columns: Sequence[_Figures], numeric: Sequence[int]) -> Table:
    named = ("column", "count", "sum", "mean", "min", "max")
    kinds = tuple(Column(name=name, type="number" if n else None) for n, name in enumerate(named))
    return Table(columns=kinds, rows=tuple((head[n], *columns[n].row()) for n in numeric))


def _of_groups(head: Sequence[str], groups: dict[str, list[Decimal]], numeric: Sequence[int], group: int) -> Table:
    kinds = (Column(name=head[group]), *(Column(name=f"sum of {head[n]}", type="number") for n in numeric))
    rows = tuple((value, *(_plain(sums[n]) for n in numeric)) for value, sums in groups.items())
    return Table(columns=kinds, rows=rows, total=len(rows))


def _plain(number: Decimal) -> int | float:
    return int(number) if number == number.to_integral_value() and abs(number) < 10**15 else float(number)
