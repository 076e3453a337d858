"""Bulk summaries: tools that sum up many documents, or all figures of their tables, in one call.

An agent would need many calls for this. An unreadable document is only reported.
"""

import re
from collections.abc import AsyncIterator, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import msgspec
from pydantic import Field

from stellwerk.agents.tools.spec import tool
from stellwerk.envelope.results import Column, Table, Text
from stellwerk.errors import REASONS, ExtractionError, InvalidField
from stellwerk.threads import in_thread
from stellwerk.workflows.documents.contents import PAGE_MARK, ContentItem, first_sentence
from stellwerk.workflows.documents.session import SessionDocument, find_in, required_documents
from stellwerk.workflows.documents.tools import figures, rows_of
from stellwerk.workflows.documents.writers import grid

Texts = dict[str, Any]
"""Texts of a summary in one language: bulk_summary.toml."""
_TEXTS: dict[str, Texts] = msgspec.toml.decode(Path(__file__).with_suffix(".toml").read_bytes())


def texts_for(language: str) -> Texts:
    """By a code such as ``de`` or ``de-CH``; English for a language without texts."""
    return _TEXTS["de" if language.strip().lower().startswith("de") else "en"]


def _amount(texts: Texts, noun: str, number: int) -> str:
    one, many = texts[noun]
    return str(one) if number == 1 else str(many.format(_number(texts, number)))


def _number(texts: Texts, value: object) -> object:
    """As people write it: with marks between thousands and before decimals."""
    if not isinstance(value, int | float):
        return value
    return f"{value:,}".translate(str.maketrans(",.", texts["marks"]))


def _refusal(texts: Texts, code: str) -> str:
    return str(texts["refused"].format(texts.get("reasons", REASONS).get(code, code)))


_READING = 300.0
"""Seconds: they are read one after the other."""
_LONGEST, _LONGEST_IN_ALL = 6_000, 50_000
"""Letters of one text, and of a digest."""
_ROWS, _COLUMNS, _CELL = 20, 30, 200
"""Rows, columns and letters of a cell that are shown of a table without numbers."""
_SHORT = 60
"""Letters of a line of plain text behind which its writer wanted a new one."""
_HEADING = re.compile(r"^(#{1,6})(?= )", re.MULTILINE)
_WORD = re.compile(r"\w\S*")

_Items = Sequence[ContentItem] | ExtractionError
"""Of a document, or why it cannot be read."""
_Documents = Annotated[str, Field(max_length=20_000, description="Their ids, with a space between.")]
_Language = Annotated[str, Field(max_length=20, description="The language to write in, such as en or de.")]


@tool(idempotent=True, untrusted=True, timeout=_READING)
async def digest_documents(
    documents: _Documents,
    language: _Language = "en",
    brief: Annotated[bool, Field(description="Of texts only how they begin.")] = False,
) -> Text:
    """Sum up documents in Markdown: the figures of tables, the texts of others, and why one cannot be read."""
    texts, parts, unread, left = texts_for(language), list[str](), 0, _LONGEST_IN_ALL
    async for known, items in _read(documents):
        unread += isinstance(items, ExtractionError)
        longest = 0 if brief else min(left, _LONGEST)
        parts.append(await in_thread(_section, known, items, texts, longest))
        left = max(0, left - len(parts[-1]))
    head = _amount(texts, "there", len(parts)) if parts else texts["none"]
    if unread and len(parts) > 1:
        head += f" {_amount(texts, 'unread', unread)}"
    return Text(text="\n\n".join([head, *parts]))


@tool(idempotent=True, untrusted=True, timeout=_READING)
async def collect_figures(documents: _Documents, language: _Language = "en") -> Table:
    """Count in all tables of these documents: of each column with numbers count, sum, mean, least and greatest."""
    texts, found = texts_for(language), list[tuple[str, Sequence[Sequence[object]]]]()
    async for known, items in _read(documents):
        readable = [] if isinstance(items, ExtractionError) else items
        for item in readable:
            if item.metadata.rows is not None:
                name = known.name if len(readable) == 1 else f"{known.name}: {item.name}"
                found.append((name, await in_thread(_counted, item)))
    if not found:
        raise InvalidField(texts["no_tables"], field="documents")
    several = len(found) > 1
    rows = tuple((name, *row) if several else tuple(row) for name, counted in found for row in counted)
    kinds = [Column(name=name, type="number" if n > 1 else None) for n, name in enumerate(texts["heads"])]
    return Table(columns=tuple(kinds[0 if several else 1 :]), rows=rows)


async def _read(wanted: str) -> AsyncIterator[tuple[SessionDocument, _Items]]:
    """One after the other, because each may be large."""
    documents = required_documents()
    there = await documents.listed()
    for known in [find_in(there, each) for each in dict.fromkeys(wanted.split())]:
        try:
            items: _Items = await documents.items(known)
        except ExtractionError as error:
            items = error
        yield known, items


def _section(known: SessionDocument, items: _Items, texts: Texts, longest: int) -> str:
    parts = [f"## {' '.join(known.name.split())}"]
    if isinstance(items, ExtractionError):
        return "\n\n".join([*parts, _refusal(texts, items.code)])
    for item in items:
        if len(items) > 1:
            is_file = item.ext and item.metadata.rows is None
            parts.append(f"### {item.name}.{item.ext}" if is_file else f"### {item.name}")
        parts += _about(item, texts, longest // len(items))
    return "\n\n".join(parts)


def _about(item: ContentItem, texts: Texts, longest: int) -> Iterator[str]:
    about = item.metadata
    if about.error is not None:
        yield _refusal(texts, about.error)
    elif about.rows is not None:
        columns = _amount(texts, "columns", about.columns or 0)
        yield f"*{columns}, {_amount(texts, 'rows', about.rows)}*"
        counted = _figures(item)
        written = [[_number(texts, value) for value in row] for row in counted]
        yield grid([texts["heads"][1:], *written] if counted else _first_rows(item)).rstrip()
    elif about.width is not None:
        yield f"*{texts['picture'].format(about.width, about.height)}*"
    else:
        count = sum(1 for _ in _WORD.finditer(item.data_extracted))
        pages = _amount(texts, "pages", about.pages) if about.pages else ""
        yield f"*{pages or _amount(texts, 'words', count)}*"
        yield from _text(item, texts, longest)


def _text(item: ContentItem, texts: Texts, longest: int) -> Iterator[str]:
    """As Markdown below the headings of the digest; without room, only its beginning."""
    whole = PAGE_MARK.sub("", item.data_extracted).strip()
    if not longest:
        yield first_sentence(whole)
        return
    text = whole[:longest]
    if len(whole) > longest:
        text = text.rpartition("\n")[0] or text
    cut = len(whole) - len(text)
    if item.content_type == "text/plain":
        lines = [f"{line}  " if 0 < len(line) < _SHORT else line for line in text.splitlines()]
        text = "\n".join(lines).rstrip()
    elif item.content_type == "application/json":
        text = f"```\n{text}\n```"
    yield _HEADING.sub(lambda marks: ("##" + marks[1])[:6], text)
    if cut:
        yield f"*{_amount(texts, 'cut', cut)}*"


def _counted(item: ContentItem) -> Sequence[Sequence[object]]:
    """Of a table without numbers, how many cells of each column are filled."""
    return _figures(item) or _filled(item)


def _figures(item: ContentItem) -> Sequence[Sequence[object]]:
    try:
        rows = figures(item).rows
        return [[int(v) if isinstance(v, float) and v.is_integer() else v for v in row] for row in rows]
    except InvalidField:  # there are no numbers in it
        return ()


def _filled(item: ContentItem) -> list[tuple[object, ...]]:
    rows = rows_of(item)
    head = next(rows, [])
    filled = [0] * len(head)
    for row in rows:
        for n, cell in enumerate(row[: len(head)]):
            filled[n] += bool(cell.strip())
    return [(name, filled[n], *[None] * 4) for n, name in enumerate(head)]


def _first_rows(item: ContentItem) -> list[list[str]]:
    return [[cell[:_CELL] for cell in row[:_COLUMNS]] for row in islice(rows_of(item), _ROWS + 1)]


BULK_SUMMARY_TOOLS = (digest_documents, collect_figures)
