"""Packing: what models and tools said piece by piece, in less room, and exactly the same again when it is read.

Envelopes of pieces differ in little but a few words. A stretch of them, with
nothing else in between, becomes one pack in the place of the last; a reader who
comes back in the middle of a stretch gets the rest of it. Nothing is lost but
room: positions, times and bytes are those of before.
"""

import zlib
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from stellwerk.envelope.frames import Stored

PACKED = "packed"
"""What is stored as the type of a pack, which is no type of an envelope."""
_MARK = b"\0"
"""So begins no envelope."""
_PIECES = (b'{"type":"llm_token"', b'{"type":"tool_update"')
_DATA = b'"data":'
"""More than text: it may name documents, and these are looked for in what is stored."""


def compacted(events: Iterable[Stored]) -> list[Stored]:
    """The same story in less room; what is packed already stays as it is."""
    found: list[Stored] = []
    for is_piece, group in groupby(events, key=_is_piece):
        stretch = list(group)
        found += [packed(stretch)] if is_piece and len(stretch) > 1 else stretch
    return found


def expanded(events: Iterable[Stored], *, after: int = 0) -> Iterator[Stored]:
    """The story as it was told, behind a position."""
    for stored in events:
        if is_pack(stored):
            yield from (each for each in unpacked(stored) if each.position > after)
        else:
            yield stored


def packed(stretch: Sequence[Stored]) -> Stored:
    """One for several, whose positions follow each other."""
    return Stored(stretch[-1].position, _MARK + zlib.compress(b"\n".join(stored.body for stored in stretch)))


def unpacked(pack: Stored) -> list[Stored]:
    bodies = zlib.decompress(pack.body[len(_MARK) :]).split(b"\n")  # an envelope is one line
    return [Stored(position, body) for position, body in enumerate(bodies, pack.position - len(bodies) + 1)]


def is_pack(stored: Stored) -> bool:
    return stored.body.startswith(_MARK)


def _is_piece(stored: Stored) -> bool:
    return stored.body.startswith(_PIECES) and _DATA not in stored.body
