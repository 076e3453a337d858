"""Packing: compression of token and tool-output envelopes, lossless to the byte.

Envelopes of tokens differ in little but a few words. A stretch of them, with
nothing else in between, becomes one pack at the position of the last; a reader
that resumes in the middle of a stretch gets the rest of it. Unpacked, the
positions, times and bytes are those of before.
"""

import zlib
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from stellwerk.envelope.frames import Stored

PACKED = "packed"
"""The stored type of a pack; no envelope has this type."""
_MARK = b"\0"
"""The first byte of a pack; no envelope begins with it."""
_PIECES = (b'{"type":"llm_token"', b'{"type":"tool_update"')
_DATA = b'"data":'
"""Not packed: data may name documents, and a search for documents reads the stored bytes."""


def compacted(events: Iterable[Stored]) -> list[Stored]:
    """Pack every stretch of pieces; packs stay as they are."""
    found: list[Stored] = []
    for is_piece, group in groupby(events, key=_is_piece):
        stretch = list(group)
        found += [packed(stretch)] if is_piece and len(stretch) > 1 else stretch
    return found


def expanded(events: Iterable[Stored], *, after: int = 0) -> Iterator[Stored]:
    """Unpack everything after a position."""
    for stored in events:
        if is_pack(stored):
            yield from (each for each in unpacked(stored) if each.position > after)
        else:
            yield stored


def packed(stretch: Sequence[Stored]) -> Stored:
    """Compress envelopes with consecutive positions into one pack."""
    return Stored(stretch[-1].position, _MARK + zlib.compress(b"\n".join(stored.body for stored in stretch)))


def unpacked(pack: Stored) -> list[Stored]:
    bodies = zlib.decompress(pack.body[len(_MARK) :]).split(b"\n")  # an envelope is one line
    return [Stored(position, body) for position, body in enumerate(bodies, pack.position - len(bodies) + 1)]


def is_pack(stored: Stored) -> bool:
    return stored.body.startswith(_MARK)


def _is_piece(stored: Stored) -> bool:
    return stored.body.startswith(_PIECES) and _DATA not in stored.body
