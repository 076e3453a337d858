"""Many documents in one go: a digest of what they have to say, and the figures of all their tables.

What an agent would put together from many calls; so it gets all of it, also when
some document cannot be read.
"""

import csv
import io
import re
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from typing import Annotated

from pydantic import Field

from stellwerk.agents.digest_words import DigestWords, digest_words
from stellwerk.agents.documents import Known, documents_wanted
from stellwerk.agents.table_figures import figures
from stellwerk.agents.tool_spec import tool
from stellwerk.documents.contents import PAGE_MARK, ContentItem
from stellwerk.documents.markdown import grid
from stellwerk.documents.reading.summaries import first_sentence
from stellwerk.envelope.results import Column, Table, Text
from stellwerk.errors import ExtractionError, InvalidField
from stellwerk.threads import in_thread

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

_Documents = Annotated[str, Field(max_length=20_000, description="Their ids, with a space between.")]
_Language = Annotated[str, Field(max_length=20, description="The language to write in, such as en or de.")]


@tool(idempotent=True, untrusted=True, timeout=_READING)
async def digest_documents(
    documents: _Documents,
    language: _Language = "en",
    brief: Annotated[bool, Field(description="Of texts only how they begin.")] = False,
) -> Text:
    """Sum up documents in Markdown: the figures of tables, the texts of others, and why one cannot be read."""
    words, parts, unread, left = digest_words(language), list[str](), 0, _LONGEST_IN_ALL
    async for known, items in _read(documents):
        unread += isinstance(items, ExtractionError)
        parts.append(await in_thread(_section, known, items, words, 0 if brief else min(left, _LONGEST)))
        left = max(0, left - len(parts[-1]))
    head = words.counted(words.there, len(parts)) if parts else words.none
    if unread and len(parts) > 1:
        head += f" {words.counted(words.unread, unread)}"
    return Text(text="\n\n".join([head, *parts]))


@tool(idempotent=True, untrusted=True, timeout=_READING)
async def collect_figures(documents: _Documents, language: _Language = "en") -> Table:
    """Count in all tables of these documents: of each column with numbers count, sum, mean, least and greatest."""
    words, found = digest_words(language), list[tuple[str, Sequence[Sequence[object]]]]()
    async for known, items in _read(documents):
        readable = [] if isinstance(items, ExtractionError) else items
        for item in readable:
            if item.metadata.rows is not None:
                name = known.name if len(readable) == 1 else f"{known.name}: {item.name}"
                found.append((name, await in_thread(_counted, item)))
    if not found:
        raise InvalidField(words.no_tables, field="documents")
    several = len(found) > 1
    rows = tuple((name, *row) if several else tuple(row) for name, counted in found for row in counted)
    kinds = [Column(name=name, type="number" if n > 1 else None) for n, name in enumerate(words.heads)]
    return Table(columns=tuple(kinds[0 if several else 1 :]), rows=rows)


async def _read(wanted: str) -> AsyncIterator[tuple[Known, Sequence[ContentItem] | ExtractionError]]:
    """One after the other, because each may be large."""
    documents = documents_wanted()
    for known in [await documents.find(each) for each in dict.fromkeys(wanted.split())]:
        try:
            items: Sequence[ContentItem] | ExtractionError = await documents.items(known)
        except ExtractionError as error:
            items = error
        yield known, items


def _section(known: Known, items: Sequence[ContentItem] | ExtractionError, words: DigestWords, longest: int) -> str:
    parts = [f"## {' '.join(known.name.split())}"]
    if isinstance(items, ExtractionError):
        return "\n\n".join([*parts, words.refused.format(words.reason(items.code))])
    for item in items:
        if len(items) > 1:
            parts.append(f"### {f'{item.name}.{item.ext}' if item.ext and item.metadata.rows is None else item.name}")
        parts += _about(item, words, longest // len(items))
    return "\n\n".join(parts)


def _about(item: ContentItem, words: DigestWords, longest: int) -> Iterator[str]:
    about = item.metadata
    if about.error is not None:
        yield words.refused.format(words.reason(about.error))
    elif about.rows is not None:
        yield f"*{words.counted(words.columns, about.columns or 0)}, {words.counted(words.rows, about.rows)}*"
        counted = _figures(item)
        written = [[words.number(value) for value in row] for row in counted]
        yield grid([words.heads[1:], *written] if counted else _first_rows(item)).rstrip()
    elif about.width is not None:
        yield f"*{words.picture.format(about.width, about.height)}*"
    else:
        count = sum(1 for _ in _WORD.finditer(item.data_extracted))
        pages = words.counted(words.pages, about.pages) if about.pages else ""
        yield f"*{pages or words.counted(words.words, count)}*"
        yield from _text(item, words, longest)


def _text(item: ContentItem, words: DigestWords, longest: int) -> Iterator[str]:
    """As Markdown, below the headings of the digest; where there is no room for it, how it begins."""
    whole = PAGE_MARK.sub("", item.data_extracted).strip()
    if not longest:
        yield first_sentence(whole)
        return
    text = whole if len(whole) <= longest else whole[:longest].rpartition("\n")[0] or whole[:longest]
    cut = len(whole) - len(text)
    if item.content_type == "text/plain":
        text = "\n".join(f"{line}  " if 0 < len(line) < _SHORT else line for line in text.splitlines()).rstrip()
    elif item.content_type == "application/json":
        text = f"```\n{text}\n```"
    yield _HEADING.sub(lambda marks: ("##" + marks[1])[:6], text)
    if cut:
        yield f"*{words.counted(words.cut, cut)}*"


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
    rows = _rows(item)
    head = next(rows, [])
    filled = [0] * len(head)
    for row in rows:
        for n, cell in enumerate(row[: len(head)]):
            filled[n] += bool(cell.strip())
    return [(name, filled[n], *[None] * 4) for n, name in enumerate(head)]


def _first_rows(item: ContentItem) -> list[list[str]]:
    return [[cell[:_CELL] for cell in row[:_COLUMNS]] for row in islice(_rows(item), _ROWS + 1)]


def _rows(item: ContentItem) -> Iterator[list[str]]:
    """Up to one with a cell that is too long to be taken for one."""
    with suppress(csv.Error):
        yield from csv.reader(io.StringIO(item.data_extracted))


DIGEST_TOOLS = (digest_documents, collect_figures)
