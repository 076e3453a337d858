"""The database file as a crash left it, read from a copy: the server itself must find it untouched."""

import shutil
import sqlite3
from collections import defaultdict
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

NAME = "stellwerk.db"


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
    """Copy and read what ``data`` holds; call it only while no server runs there."""
    scratch.mkdir(parents=True, exist_ok=True)
    for suffix in ("", "-wal"):
        (scratch / f"{NAME}{suffix}").unlink(missing_ok=True)
        if (data / f"{NAME}{suffix}").exists():
            shutil.copyfile(data / f"{NAME}{suffix}", scratch / f"{NAME}{suffix}")
    with closing(sqlite3.connect(scratch / NAME)) as connection:
        return _read(connection)


def _read(connection: sqlite3.Connection) -> Snapshot:
    integrity = [str(row[0]) for row in connection.execute("PRAGMA integrity_check")]
    found = Snapshot(integrity, dict(connection.execute("SELECT id, last_position FROM session")))
    for session_id, position, body in connection.execute(
        "SELECT session_id, position, body FROM event ORDER BY session_id, position"
    ):
        found.logs[session_id].append((position, body))
    for session_id, round_ in connection.execute("SELECT session_id, round FROM run ORDER BY session_id, round"):
        found.rounds[session_id].append(round_)
    found.begins = dict(connection.execute("SELECT session_id, min(position) FROM run GROUP BY session_id"))
    for session_id, checkpoint_id in connection.execute("SELECT thread_id, id FROM checkpoint"):
        found.checkpoints[session_id].add(checkpoint_id)
    found.waiting = {row[0] for row in connection.execute("SELECT session_id FROM run WHERE state = 'waiting'")}
    return found
