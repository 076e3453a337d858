"""Content-defined chunking: values are cut into deduplicated items and joined byte for byte.

A value is cut at MessagePack boundaries of large things: a message in a list, a text in a message,
a picture in a text block. Each piece becomes an item, named by its digest. The value is then a list
of parts (inline bytes, or the name of an item). A long list of parts is folded into items of its
own, with boundaries that follow from the content, so a list that grows at its end, loses its
beginning or changes in the middle shares nearly all items with its earlier versions. This module
never interprets a value: it knows where MessagePack tokens end, and joining restores the same bytes
for any input. It has no state and does no I/O.
"""

from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from zlib import crc32

import msgspec

Part = bytes | str
Parts = list[Part]

INLINE = 128
"""A value or list of parts up to this size stays where it is used."""
_TINY = 48
"""A piece up to this size stays inline: a name of 22 characters and a row would cost more."""
_LARGE = 160
"""A token of this size becomes an item of its own …"""
_DEEP = 4096
"""… unless it is an object of more than this, which is cut inside: it may wrap stored items."""
_RUN, _LONGEST_RUN = 512, 2048
"""Small tokens are collected into pieces of about this size."""
_WIDE, _FEWEST, _MOST = 24, 4, 64
"""More parts than this are folded into groups of about 16."""
_ENDS_GROUP = frozenset("ABCD")

encode = msgspec.msgpack.Encoder().encode
decode_parts: Callable[[bytes], Parts] = msgspec.msgpack.Decoder(list).decode


@dataclass(frozen=True, slots=True)
class Item:
    """One row of the item table; a node's body is the list of its parts."""

    node: bool
    body: bytes
    parts: Parts


def cut(data: bytes, items: dict[str, Item], *, tokens: bool = True) -> Parts:
    """Return the parts of ``data`` and put the items that they name into ``items``.

    ``tokens`` says that the data is MessagePack; other bytes are never cut.
    """
    if len(data) <= INLINE:
        return [data]
    if not tokens:
        return [_item(data, items)]
    pieces = _pieces(data)
    return _fold([piece if len(piece) <= _TINY else _item(piece, items) for piece in pieces], items)


def join(parts: Parts, found: Mapping[str, Item]) -> bytes:
    return b"".join(_leaves(parts, found))


def names(parts: Parts) -> Iterator[str]:
    return (part for part in parts if isinstance(part, str))


def _leaves(parts: Parts, found: Mapping[str, Item]) -> Iterator[bytes]:
    for part in parts:
        if isinstance(part, bytes):
            yield part
        elif (item := found[part]).node:
            yield from _leaves(item.parts, found)
        else:
            yield item.body


def _item(body: bytes, items: dict[str, Item], parts: Parts | None = None) -> str:
    # The kind is part of the digest: a text that looks like a node must not be taken for one.
    digest = blake2b(body, digest_size=16, person=b"leaf" if parts is None else b"node").digest()
    name = urlsafe_b64encode(digest)[:22].decode()
    items[name] = Item(parts is not None, body, parts or [])
    return name


def _fold(parts: Parts, items: dict[str, Item]) -> Parts:
    while len(parts) > _WIDE:
        # The first part has the length of the list and changes with every append: it stays outside.
        parts = parts[:1] + [_item(encode(group), items, group) for group in _groups(parts[1:])]
    body = encode(parts)
    return parts if len(body) <= INLINE else [_item(body, items, parts)]


def _groups(parts: Parts) -> Iterator[Parts]:
    group: Parts = []
    for part in parts:
        group.append(part)
        is_boundary = isinstance(part, str) and part[0] in _ENDS_GROUP
        if len(group) == _MOST or (is_boundary and len(group) >= _FEWEST):
            yield group
            group = []
    if group:
        yield group


def _pieces(data: bytes) -> Iterator[bytes]:
    """Cut between tokens, into consecutive slices: any ``data`` is kept, even if no MessagePack."""
    first, end = data[0], len(data)
    is_container = 0x80 <= first <= 0x9F or 0xDC <= first <= 0xDF
    start = position = _SIZES[first] if is_container else 0
    if start:
        yield data[:start]
    while position < end:
        size = _SIZES[data[position]]
        if not size:
            header, size, wraps = _measure(data, position)
            if wraps and size > _DEEP:
                size = header
            elif size >= _LARGE:
                if position > start:
                    yield data[start:position]
                yield data[position : position + size]
                start = position = position + size
                continue
        position += size
        length = position - start
        if length >= _LONGEST_RUN or (length >= _RUN and crc32(data[position - 16 : position]) & 7 == 0):
            yield data[start:position]
            start = position
    if start < end:
        yield data[start:]


# MessagePack: the size of a token follows from its first byte, or from the length after it.


def _measure(data: bytes, position: int) -> tuple[int, int, bool]:
    """(size of the header, size of the whole token, whether it wraps other tokens)."""
    width, wraps = _LENGTHS[data[position]]
    header = 1 + width + wraps
    return header, header + int.from_bytes(data[position + 1 : position + 1 + width]), wraps


_LENGTHS = {
    0xC4: (1, False),  # bytes
    0xC5: (2, False),
    0xC6: (4, False),
    0xC7: (1, True),  # extension types: the serialiser's objects
    0xC8: (2, True),
    0xC9: (4, True),
    0xD9: (1, False),  # text
    0xDA: (2, False),
    0xDB: (4, False),
}


_SCALARS = {0xCA: 5, 0xCB: 9, 0xCC: 2, 0xCD: 3, 0xCE: 5, 0xCF: 9, 0xD0: 2, 0xD1: 3, 0xD2: 5, 0xD3: 9}
_EXTENSIONS = {0xD4: 3, 0xD5: 4, 0xD6: 6, 0xD7: 10, 0xD8: 18}
_CONTAINERS = {0xDC: 3, 0xDD: 5, 0xDE: 3, 0xDF: 5}
_TEXTS = {first: first - 0x9F for first in range(0xA0, 0xC0)}
_KNOWN = _SCALARS | _EXTENSIONS | _CONTAINERS | _TEXTS | dict.fromkeys(_LENGTHS, 0)
_SIZES = tuple(_KNOWN.get(first, 1) for first in range(256))
