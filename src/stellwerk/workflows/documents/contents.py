"""Content items: the extracted contents of a document, in order, and their file. Pure.

The file starts with an outline, which is small: the items without their texts. The texts follow.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, BinaryIO

import msgspec
from msgspec.structs import replace

INLINE = 256 * 1024
"""The most characters of an item's own content in ``data``; a larger one has only its extract.

Also the most bytes of a document that is sent with its message."""

VERSION = 3
"""Incremented when the same bytes give other items than before, or the form of the file changes."""
_HEAD = 8
_LONGEST_HEAD = 16 * 1024 * 1024

PAGE_MARK = re.compile(r"^<!-- page \d+ -->[ \t]*\n?", re.MULTILINE)


def page_mark(number: int) -> str:
    """Precedes each page of an extract, so that readers can name the page; writers remove it."""
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
    """Its name in the document, without extension; for the whole document, the document's."""
    ext: str
    content_type: str
    data: str | None
    """Its own content as text or base64; None if larger than INLINE or not kept."""
    data_extracted: str
    """What there is to read in it."""
    metadata: ItemMetadata
    summary: str


def readable(items: Sequence[ContentItem]) -> str:
    """The text of one item; of several, each below its name and summary."""
    if len(items) == 1:
        return items[0].data_extracted or items[0].summary
    return "\n\n".join(f"## {_title(item)}\n{item.summary}\n\n{item.data_extracted}".rstrip() for item in items)


def _title(item: ContentItem) -> str:
    return f"{item.name}.{item.ext}" if item.ext else item.name


_Size = Annotated[int, msgspec.Meta(ge=0)]


class Entry(msgspec.Struct, frozen=True):
    item: ContentItem
    """Without its texts."""
    data: _Size | None
    """Bytes of each text; None if the item has no content of its own."""
    extracted: _Size


class Outline(msgspec.Struct, frozen=True):
    """The items of a document without their texts, or why it cannot be read."""

    entries: tuple[Entry, ...] = ()
    code: str | None = None
    message: str = ""
    version: int = VERSION
    peak: int = 0
    """Peak memory in KiB of the child that read the document; 0 if no child did."""

    def packed(self) -> bytes:
        """The beginning of a file."""
        head = msgspec.msgpack.encode(self)
        return len(head).to_bytes(_HEAD) + head

    def text_size(self) -> int:
        """Bytes of all texts, which follow the outline."""
        return sum((entry.data or 0) + entry.extracted for entry in self.entries)

    def items(self) -> tuple[ContentItem, ...]:
        return tuple(_cut(entry.item, bool(entry.extracted)) for entry in self.entries)


@dataclass
class TextBudget:
    """Bytes of text that a caller wants: of all items together, and of the extract of one."""

    left: int = 1 << 62
    longest: int = 1 << 62

    def takes(self, size: int) -> bool:
        if size > self.left:
            return False
        self.left -= size
        return True


def packed(items: Sequence[ContentItem], peak: int = 0) -> bytes:
    """The file of these items."""
    entries, texts = list[Entry](), list[bytes]()
    for item in items:
        data, extracted = (item.data or "").encode(), item.data_extracted.encode()
        size = None if item.data is None else len(data)
        entries.append(Entry(replace(item, data=None, data_extracted=""), size, len(extracted)))
        texts += [data, extracted]
    return Outline(entries=tuple(entries), peak=peak).packed() + b"".join(texts)


def outline_in(file: BinaryIO) -> Outline | None:
    """None if the file has another form or version."""
    length = int.from_bytes(file.read(_HEAD))
    if length > _LONGEST_HEAD:
        return None
    try:
        found = msgspec.msgpack.decode(file.read(length), type=Outline)
    except msgspec.MsgspecError:
        return None
    return found if found.version == VERSION else None


def items_in(file: BinaryIO, room: TextBudget) -> tuple[ContentItem, ...]:
    """The items of a file as far as the budget allows."""
    outline = outline_in(file)
    return () if outline is None else tuple(_item(file, entry, room) for entry in outline.entries)


def _item(file: BinaryIO, entry: Entry, room: TextBudget) -> ContentItem:
    """Its own content completely or not at all; the beginning of its extract."""
    data: str | None = None
    if entry.data is not None and room.takes(entry.data):
        data = file.read(entry.data).decode(errors="replace")
    elif entry.data is not None:
        file.seek(entry.data, 1)
    size = min(entry.extracted, room.longest, room.left)
    room.takes(size)
    text = file.read(size).decode(errors="ignore")  # the cut may split a character
    file.seek(entry.extracted - size, 1)
    return replace(_cut(entry.item, size < entry.extracted), data=data, data_extracted=text)


def _cut(item: ContentItem, is_cut: bool) -> ContentItem:
    return replace(item, metadata=replace(item.metadata, truncated=True)) if is_cut else item
