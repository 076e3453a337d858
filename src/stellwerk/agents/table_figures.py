"""Figures of a table: sums and the like, worked out exactly, because models are bad at it."""

import csv
import io
import re
from collections.abc import Iterable, Sequence
from decimal import Decimal

from stellwerk.envelope.results import Column, Table
from stellwerk.errors import InvalidField

_NUMBER = re.compile(r"[-+]?\d{1,30}(\.\d{1,30})?([eE][-+]?\d{1,2})?")
_NUMERIC = 0.9
"""Of the cells that are not empty, the part that must be numbers for a column to be one of numbers."""
_MOST_GROUPS = 1000

_Numbers = list[Decimal | None]


def figures(text: str, *, group_by: str = "") -> Table:
    """``text`` is CSV whose first row is the head.

    Raises:
        InvalidField: there are no numbers in it, or no such column.
    """
    head, *rows = [*csv.reader(io.StringIO(text))] or [[]]
    columns = {name or f"column {n + 1}": _numbers(row[n : n + 1] for row in rows) for n, name in enumerate(head)}
    numeric = {name: found for name, found in columns.items() if found is not None and name != group_by}
    if not numeric:
        raise InvalidField("there is no column of numbers in this table; read it instead", field="document")
    if group_by:
        return _grouped(head, rows, numeric, group_by)
    named = ("column", "count", "sum", "mean", "min", "max")
    kinds = tuple(Column(name=name, type="number" if n else None) for n, name in enumerate(named))
    return Table(columns=kinds, rows=tuple((name, *_figures(found)) for name, found in numeric.items()))


def _numbers(cells: Iterable[Sequence[str]]) -> _Numbers | None:
    """Of one column; None if it is no column of numbers."""
    given = [cell[0].strip() if cell else "" for cell in cells]
    found = [Decimal(cell) if _NUMBER.fullmatch(cell) else None for cell in given]
    filled = sum(bool(cell) for cell in given)
    count = sum(number is not None for number in found)
    return found if count and count >= _NUMERIC * filled else None


def _figures(found: _Numbers) -> tuple[int | float, ...]:
    numbers = [number for number in found if number is not None]
    total = sum(numbers, Decimal())
    mean = round(float(total) / len(numbers), 4)
    return (len(numbers), _plain(total), mean, _plain(min(numbers)), _plain(max(numbers)))


def _grouped(head: Sequence[str], rows: Sequence[Sequence[str]], numeric: dict[str, _Numbers], group_by: str) -> Table:
    at = next((n for n, name in enumerate(head) if name.casefold() == group_by.casefold()), None)
    if at is None:
        raise InvalidField(f"there is no column {group_by!r}; there are: {', '.join(head)}", field="group_by")
    sums: dict[str, list[Decimal]] = {}
    for number, row in enumerate(rows):
        group = sums.setdefault(row[at] if at < len(row) else "", [Decimal()] * len(numeric))
        for n, found in enumerate(numeric.values()):
            group[n] += found[number] or 0
    kinds = (Column(name=head[at]), *(Column(name=f"sum of {name}", type="number") for name in numeric))
    listed = [(name, *map(_plain, totals)) for name, totals in sums.items()]
    return Table(columns=kinds, rows=tuple(listed[:_MOST_GROUPS]), total=len(listed))


def _plain(number: Decimal) -> int | float:
    return int(number) if number == number.to_integral_value() and abs(number) < 10**15 else float(number)
