"""The database as a crash left it, read so that the server itself finds it untouched."""

from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

from tests import stores


@dataclass
class Snapshot:
    integrity: list[str]
    heads: dict[str, int]
    """The position that each session's row says it has reached."""
    logs: dict[str, list[tuple[int, bytes]]] = field(default_factory=lambda: defaultdict(list))
    rounds: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    begins: dict[str, int] = field(default_factory=dict)
    """Where the first run of its own begins in each session; what stands before it was copied from another."""
    checkpoints: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    """Of each session's graphs."""
    waiting: set[str] = field(default_factory=set)
    """Sessions with a run that was accepted and not begun."""


def read(data: Path, scratch: Path) -> Snapshot:
    """What ``data`` holds; call it only while no server runs there."""
    with stores.untouched(data, scratch) as stored:
        return _read(stored)


def _read(stored: stores.Tables) -> Snapshot:
    found = Snapshot(stored.integrity(), dict(stored.rows("SELECT id, last_position FROM session")))
    for session_id, position, body in stored.rows(
        "SELECT session_id, position, body FROM event ORDER BY session_id, position"
    ):
        found.logs[session_id].append((position, body))
    for session_id, round_ in stored.rows("SELECT session_id, round FROM run ORDER BY session_id, round"):
        found.rounds[session_id].append(round_)
    found.begins = dict(stored.rows("SELECT session_id, min(position) FROM run GROUP BY session_id"))
    for session_id, checkpoint_id in stored.rows("SELECT thread_id, id FROM checkpoint"):
        found.checkpoints[session_id].add(checkpoint_id)
    found.waiting = {row[0] for row in stored.rows("SELECT session_id FROM run WHERE state = 'waiting'")}
    return found
