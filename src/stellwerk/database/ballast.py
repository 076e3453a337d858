"""Ballast: disk space held back, so that stop and delete still work when the disk is full.

SQLite needs room to delete. When a write finds the disk full, the ballast is
dropped; until it can be taken up again only urgent writes are let through.
"""

import os
import time
from pathlib import Path

from stellwerk.database.folder import for_owner

SIZE = 8 * 1024 * 1024
"""More than SQLite's write-ahead log grows to, which must be copied before its space is had back."""
_HEADROOM = 1024 * 1024
_RETRY_SECONDS = 1.0


class Ballast:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._tried = 0.0
        self.released = False

    def release(self) -> None:
        self._path.unlink(missing_ok=True)
        self.released = True
        self._tried = time.monotonic()

    def restore(self) -> bool:
        """Take the space back, at most once a second; True if it is held."""
        if time.monotonic() - self._tried < _RETRY_SECONDS and self.released:
            return False
        self._tried = time.monotonic()
        if self.released and _free(self._path.parent) < SIZE + _HEADROOM:
            return False  # it could be held, but nothing else would fit beside it
        try:
            with open(self._path, "wb", opener=for_owner) as file:
                # posix_fallocate really takes the blocks; a sparse file would hold nothing back.
                os.posix_fallocate(file.fileno(), 0, SIZE)
        except OSError:
            self._path.unlink(missing_ok=True)
            self.released = True
            return False
        self.released = False
        return True


def _free(folder: Path) -> int:
    found = os.statvfs(folder)
    return found.f_bavail * found.f_frsize
