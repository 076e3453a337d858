"""Presence: whether the files that a database has open are still the ones at their paths.

SQLite goes on writing into a file that was deleted, moved or replaced. It reports no error, and what it commits
there is lost with the process.
"""

import os
from pathlib import Path

from stellwerk.errors import StorageGone

_Identity = tuple[int, int]


class Presence:
    """Of files that exist now. A check takes one ``stat`` for each of them."""

    def __init__(self, *paths: Path) -> None:
        self._known = [(str(path), _identity(path)) for path in paths]

    def check(self) -> None:
        """
        Raises:
            StorageGone: a file was deleted, moved or replaced.
        """
        for path, known in self._known:
            try:
                found: _Identity | None = _identity(path)
            except OSError:
                found = None
            if found != known:
                raise StorageGone(
                    "the database was deleted or replaced while the server runs, and nothing more is stored; "
                    "its operator stops the server, restores a backup and starts it again"
                )


def _identity(path: str | Path) -> _Identity:
    """No other file has the same while this one is open."""
    found = os.stat(path)
    return found.st_dev, found.st_ino
