"""Extracts as they are kept beside their documents: what there is comes first, then the texts one after the other.

So whoever wants to know what is in a document reads a few hundred bytes, and
whoever shows the beginning of it no more than he shows.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import BinaryIO

import msgspec
from msgspec.structs import replace

from stellwerk.documents.contents import ContentItem

_VERSION = 3
"""Raised when the same bytes give other items than before, or items are kept in another form."""
_HEAD = 8
_LONGEST_HEAD = 16 * 1024 * 1024


class Entry(msgspec.Struct, frozen=True):
    item: ContentItem
    """Without its texts."""
    data: int | None
    """Bytes of each text; of the first, None if there is none."""
    extracted: int


class Outline(msgspec.Struct, frozen=True):
    """What is in a document, or why nobody can tell."""

    entries: tuple[Entry, ...] = ()
    code: str | None = None
    message: str = ""
    version: int = _VERSION


@dataclass
class Room:
    """Bytes of text that are still wanted: of all items together, and of the extract of one."""

    left: int
    longest: int

    def takes(self, size: int) -> bool:
        if size > self.left:
            return False
        self.left -= size
        return True


def packed(items: Sequence[ContentItem]) -> tuple[Outline, bytes]:
    texts = [(None if item.data is None else item.data.encode(), item.data_extracted.encode()) for item in items]
    outline = Outline(
        entries=tuple(
            Entry(replace(item, data=None, data_extracted=""), None if data is None else len(data), len(extracted))
            for item, (data, extracted) in zip(items, texts, strict=True)
        )
    )
    return outline, packed_outline(outline) + b"".join((data or b"") + extracted for data, extracted in texts)


def packed_outline(outline: Outline) -> bytes:
    head = msgspec.msgpack.encode(outline)
    return len(head).to_bytes(_HEAD) + head


def outline_in(file: BinaryIO) -> Outline | None:
    """None if these are no extracts of ours."""
    length = int.from_bytes(file.read(_HEAD))
    if length > _LONGEST_HEAD:
        return None
    try:
        found = msgspec.msgpack.decode(file.read(length), type=Outline)
    except msgspec.MsgspecError:
        return None
    return found if found.version == _VERSION else None


def items_in(file: BinaryIO, outline: Outline, room: Room) -> tuple[ContentItem, ...]:
    """As much of the items as there is room for, from a file of which the outline was read."""
    return tuple(_item(file, entry, room) for entry in outline.entries)


def without_texts(outline: Outline) -> tuple[ContentItem, ...]:
    return tuple(_cut(entry.item, bool(entry.extracted)) for entry in outline.entries)


def _item(file: BinaryIO, entry: Entry, room: Room) -> ContentItem:
    """Its own content is there whole or not at all; of its extract, the beginning."""
    data: str | None = None
    if entry.data is not None and room.takes(entry.data):
        data = file.read(entry.data).decode()
    elif entry.data is not None:
        file.seek(entry.data, 1)
    size = min(entry.extracted, room.longest, room.left)
    room.takes(size)
    text = file.read(size).decode(errors="ignore")  # the cut may go through a letter
    file.seek(entry.extracted - size, 1)
    return replace(_cut(entry.item, size < entry.extracted), data=data, data_extracted=text)


def _cut(item: ContentItem, is_cut: bool) -> ContentItem:
    return replace(item, metadata=replace(item.metadata, truncated=True)) if is_cut else item
