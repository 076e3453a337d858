"""Document tools of agents: list and read a session's documents, count in tables, save new ones.

Figures of tables are exact, because models are bad at arithmetic. Only figures are kept in memory,
so that a long table takes no more of it than a short one.
"""

import csv
import re
from base64 import b64encode
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated

from pydantic import Field

from stellwerk.agents.tools.spec import tool
from stellwerk.envelope.results import Column, Table, Text
from stellwerk.errors import InvalidField
from stellwerk.threads import in_thread
from stellwerk.workflows.documents.contents import LONGEST_CELL, ContentItem, readable
from stellwerk.workflows.documents.session import listed, required_documents
from stellwerk.workflows.documents.writers import write_document

_PAGE = 8000
_READING = 150.0
"""Seconds: extraction may take a minute, and may have to wait for a slot."""

_NUMBER = re.compile(r"\s*[-+]?\d{1,30}(\.\d{1,30})?([eE][-+]?\d{1,2})?\s*")
_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_NUMERIC = 0.9
"""The share of non-empty cells that must be numbers in a numeric column."""
_MOST_GROUPS = 1000
_MOST_COLUMNS = 500
_NONE = Decimal()

_Document = Annotated[str, Field(max_length=300, description="Its name or its document_id.")]


@tool(idempotent=True, untrusted=True, timeout=_READING)
async def list_documents() -> Text:
    """List the documents of this conversation: those that the user gave, and those that were made for them."""
    documents = required_documents()
    known = await documents.summaries(await documents.listed())
    return Text(text="\n".join(listed(*each) for each in known) or "There are no documents.")


@tool(idempotent=True, untrusted=True, timeout=_READING)
async def read_document(
    document: _Document,
    start: Annotated[int, Field(ge=0, description="The letter to begin with; 0 is the beginning.")] = 0,
    original: Annotated[bool, Field(description="The file itself, as text or base64, not what is to be read.")] = False,
) -> Text:
    """Read a document: text as it is, a table as CSV. A long one comes in pages; each says where the next begins."""
    documents = required_documents()
    found = await documents.find(document)
    if original:
        whole = _as_text(await documents.data(found))
    else:
        whole = readable(await documents.items(found))
    end = page_end(whole, start, _PAGE)
    if end == len(whole):
        return Text(text=whole[start:])
    return Text(text=f"{whole[start:end]}\n[{end} of {len(whole)} letters; go on with start={end}]")


def page_end(text: str, start: int, limit: int) -> int:
    """The end of the page that begins at ``start``: the end of a line if possible."""
    end = min(start + limit, len(text))
    if end == len(text):
        return end
    line = text.rfind("\n", start, end)
    return line + 1 if line > start else end


def _as_text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return b64encode(data).decode()


@tool(idempotent=True, untrusted=True, timeout=_READING)
async def table_figures(
    document: _Document,
    group_by: Annotated[str, Field(max_length=200, description="A column: the sums for each value in it.")] = "",
    sheet: Annotated[str, Field(max_length=200, description="Of a workbook with several sheets, the one meant.")] = "",
) -> Table:
    """Count in a table (xlsx, csv): for each column with numbers how many, their sum, mean, least and greatest.

    Of several columns with one name, the second is called `name (2)`.
    """
    documents = required_documents()
    found = await documents.find(document)
    table = _table_in(await documents.items(found), found.name, sheet)
    return await in_thread(figures, table, group_by=group_by)


def _table_in(items: Sequence[ContentItem], name: str, sheet: str) -> ContentItem:
    tables = [item for item in items if item.metadata.rows is not None]
    fitting = [item for item in tables if sheet.casefold() in ("", item.name.casefold())]
    if fitting:
        return fitting[0]
    there = ", ".join(item.name for item in tables) or "none"
    field = "sheet" if sheet else "document"
    raise InvalidField(f"{name!r} has no such table; its tables are: {there}", field=field)


@dataclass(slots=True)
class _Figures:
    """The figures of a column."""

    filled: int = 0
    count: int = 0
    total: Decimal = _NONE
    least: Decimal = _NONE
    greatest: Decimal = _NONE

    def add(self, cell: str) -> Decimal:
        """Count a cell; returns its number, or zero if it has none."""
        self.filled += bool(cell.strip())
        if not _NUMBER.fullmatch(cell):
            return _NONE
        number = Decimal(cell)
        self.least = min(number, self.least) if self.count else number
        self.greatest = max(number, self.greatest) if self.count else number
        self.total += number
        self.count += 1
        return number

    @property
    def is_numeric(self) -> bool:
        return self.count > 0 and self.count >= _NUMERIC * self.filled

    def row(self) -> tuple[int | float, ...]:
        mean = round(float(self.total) / self.count, 4)
        return (self.count, _plain(self.total), mean, _plain(self.least), _plain(self.greatest))


def figures(table: ContentItem, *, group_by: str = "") -> Table:
    """The figures of a table with a head row; a second column of one name is ``name (2)``.

    Raises:
        InvalidField: there are no numbers in it, no such column, or too many columns or groups.
    """
    if (wide := table.metadata.columns or 0) > _MOST_COLUMNS:
        problem = f"this table has {wide:,} columns; {_MOST_COLUMNS} can be counted"
        raise InvalidField(problem, field="document")
    rows = rows_of(table)
    head = _names(next(rows, []))
    return _counted(head, rows, _place(head, group_by) if group_by else None)


def rows_of(table: ContentItem) -> Iterator[list[str]]:
    csv.field_size_limit(LONGEST_CELL)
    return csv.reader(line[0] for line in _LINE.finditer(table.data_extracted))


def _names(head: Sequence[str]) -> list[str]:
    """The names of columns, made unique."""
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
    """The index of a column by its name; upper and lower case differ only if they must."""
    if wanted in head:
        return head.index(wanted)
    alike = [n for n, name in enumerate(head) if name.casefold() == wanted.strip().casefold()]
    if len(alike) != 1:
        problem = f"there is no column {wanted!r}; there are: {', '.join(head)}"
        raise InvalidField(problem, field="group_by")
    return alike[0]


def _counted(head: Sequence[str], rows: Iterator[list[str]], group: int | None) -> Table:
    columns = [_Figures() for _ in head]
    groups = dict[str, list[Decimal]]()
    for row in rows:
        numbers = [column.add(cell) for cell, column in zip(row, columns, strict=False)]
        if group is not None:
            sums = groups.setdefault(row[group] if group < len(row) else "", [_NONE] * len(head))
            if len(groups) > _MOST_GROUPS:
                most = f"this column has more than {_MOST_GROUPS:,} different values"
                raise InvalidField(f"{most}; group by another, or by none", field="group_by")
            for n, number in enumerate(numbers):
                sums[n] += number
    numeric = [n for n, column in enumerate(columns) if column.is_numeric and n != group]
    if not numeric:
        problem = "there is no column of numbers in this table; read it instead"
        raise InvalidField(problem, field="document")
    if group is None:
        names = ("count", "sum", "mean", "min", "max")
        named = [Column(name=name, type="number") for name in names]
        figures_of = tuple((head[n], *columns[n].row()) for n in numeric)
        return Table(columns=(Column(name="column"), *named), rows=figures_of)
    named = [Column(name=f"sum of {head[n]}", type="number") for n in numeric]
    of_groups = tuple((value, *(_plain(sums[n]) for n in numeric)) for value, sums in groups.items())
    return Table(columns=(Column(name=head[group]), *named), rows=of_groups, total=len(of_groups))


def _plain(number: Decimal) -> int | float:
    is_whole = number == number.to_integral_value() and abs(number) < 10**15
    return int(number) if is_whole else float(number)


@tool(idempotent=True, output="file_ref", effects="write")
async def save_document(
    name: Annotated[str, Field(min_length=3, max_length=200, description="With extension, such as report.docx.")],
    content: Annotated[str, Field(max_length=2_000_000, description="Markdown; for xlsx and csv a table or CSV.")],
) -> dict[str, str]:
    """Save a document for the user: md, txt, csv, json, html, docx or xlsx, by the extension of its name."""
    required_documents()
    if not name.isprintable() or set(name) & set("/\\"):
        raise InvalidField(f"{name!r} is no name of a file; leave out folders", field="name")
    made = await in_thread(write_document, name, content)
    body = b64encode(made.data).decode()
    return {"kind": "file_ref", "filename": name, "mime": made.mime, "bytes_b64": body}


DOCUMENT_TOOLS = (list_documents, read_document, table_figures, save_document)
