"""Compaction packs the old tokens of a session in pieces, so that no writer waits for long."""

from collections.abc import Sequence
from itertools import takewhile
from typing import NamedTuple

from stellwerk.database.port import Transaction, locking, session_lock
from stellwerk.envelope.frames import Stored
from stellwerk.envelope.packing import PACKED, compacted, expanded
from stellwerk.log.log import PAGE_BYTES

_PIECE_BYTES = 64 * 1024
_PIECE_EVENTS = 500


class Piece(NamedTuple):
    """The next piece of a session that was not looked at, as far as it is older than ``before``."""

    tenant: str
    session_id: str
    before: float


def read(tx: Transaction, tenant: str, session_id: str, *, after: int, limit: int) -> list[Stored]:
    """A page of the log, unpacked: up to ``limit`` envelopes or ``PAGE_BYTES``."""
    rows = tx.rows_within(PAGE_BYTES, "read_events", session_id, after, tenant, limit)
    page: list[Stored] = []
    size = 0
    for stored in expanded((Stored(*row) for row in rows), after=after):
        page.append(stored)
        size += len(stored.body)
        if len(page) == limit or size >= PAGE_BYTES:
            break
    return page


@locking(lambda piece: [session_lock(piece.session_id)])
def compact_many(tx: Transaction, pieces: Sequence[Piece]) -> list[int | None | Exception]:
    """How many bytes each has saved; None if nothing is left to look at, or it is at work."""
    return [_compact(tx, piece) for piece in pieces]


def _compact(tx: Transaction, piece: Piece) -> int | None:
    tenant, session_id = piece.tenant, piece.session_id
    reached = tx.row("packed_up_to", session_id, tenant)
    if reached is None or tx.row("unfinished_run", session_id, tenant) is not None:
        return None
    rows = tx.rows_within(_PIECE_BYTES, "events_with_times", session_id, reached[0], tenant, _PIECE_EVENTS)
    old = {position: body for position, _, body in takewhile(lambda row: row[1] < piece.before, rows)}
    if not old:
        return None
    saved = dropped = sum(map(len, old.values()))
    before = reached[0]
    for position, body in compacted(Stored(*item) for item in old.items()):
        if body is not old[position]:
            tx.run("drop_events_between", session_id, before, position, tenant)
            tx.run("pack_event", PACKED, body, session_id, position, tenant)
        saved, dropped, before = saved - len(body), dropped - len(old[position]), position
    tx.run("set_packed", before, dropped, session_id, tenant)  # what was rewritten counts by itself
    return saved
