"""Content items: what was read out of a document, in order, as anybody may see it. Pure."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

INLINE = 256 * 1024
"""Letters up to which an item carries its own content in ``data``; of a larger one, only the extract.

Also the bytes up to which a document goes with its message."""

PAGE_MARK = re.compile(r"^<!-- page \d+ -->[ \t]*\n?", re.MULTILINE)


def page_mark(number: int) -> str:
    """Stands in front of each page of an extract, so that readers can name the page; nobody wants it in a report."""
    return f"<!-- page {number} -->"


class ItemMetadata(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The first two are about ``data``."""

    is_text: bool
    base64_encoded: bool
    ai_processed: bool
    """A model wrote the summary."""
    size: int | None = None
    """Bytes that the item has by itself."""
    encoding: str | None = None
    language: str | None = None
    """Its code, such as ``de``."""
    rows: int | None = None
    """Of a table, those that are here; the head is none of them."""
    columns: int | None = None
    pages: int | None = None
    width: int | None = None
    height: int | None = None
    truncated: bool = False
    """There was more than ``dataExtracted`` holds."""
    error: str | None = None
    """Why this part of the document was not read: the code of an ExtractionError."""


class ContentItem(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    sequence_nr: int
    name: str
    """As it is called in the document, without extension; of the document as a whole, the document's."""
    ext: str
    content_type: str
    data: str | None
    """The item's own content, as text or base64; None if it is larger than INLINE or was not kept."""
    data_extracted: str
    """What there is to read in it."""
    metadata: ItemMetadata
    summary: str


@dataclass(frozen=True, slots=True)
class Excerpt:
    text: str
    total: int
    """Letters that there are."""
    next: int | None
    """Where to go on; None at the end."""


def excerpt(items: Sequence[ContentItem], *, start: int = 0, limit: int = 20_000) -> Excerpt:
    """A page of all that there is to read, from the letter ``start`` on; it ends with a line if it can."""
    whole = readable(items)
    end = min(max(start, 0) + limit, len(whole))
    if end < len(whole):
        line = whole.rfind("\n", start, end)
        end = line + 1 if line > start else end
    return Excerpt(whole[start:end], len(whole), end if end < len(whole) else None)


def readable(items: Sequence[ContentItem]) -> str:
    """One item as it is; several one after the other, each below its name and summary."""
    if len(items) == 1:
        return items[0].data_extracted or items[0].summary
    return "\n\n".join(f"## {_title(item)}\n{item.summary}\n\n{item.data_extracted}".rstrip() for item in items)


def _title(item: ContentItem) -> str:
    return f"{item.name}.{item.ext}" if item.ext else item.name
