"""The workspace: a folder in the data folder with everything that the copilot creates.

A change to a project requires its lock, which ends with the process that holds it. Unfinished work is in a hidden
folder: a process that gets the lock and finds such a folder knows that it was abandoned.
"""

import fcntl
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from .names import NAME, Refused, check_name

_UNFINISHED = ".making-"
_PATIENCE = 30.0
"""Seconds to wait for the lock of a project."""
_LOOK = 0.02


@dataclass(frozen=True)
class Workspace:
    root: Path

    def repository(self, name: str) -> Path:
        """Where the repository of this name is, or would be."""
        return self.root / "repositories" / f"{check_name(name)}.git"

    def deployment(self, name: str) -> Path:
        return self.root / "deployments" / check_name(name)

    @contextmanager
    def working_on(self, name: str) -> Iterator[None]:
        """Alone on this project, among all threads and processes. What others left unfinished anywhere is removed.

        Raises:
            Refused: another process holds the lock for too long.
        """
        self._sweep()
        with self._lock(name).open("w") as lock:
            deadline = time.monotonic() + _PATIENCE
            while not _taken(lock.fileno()):
                if time.monotonic() > deadline:
                    raise Refused(f"another process is still changing {name}; try again in a moment")
                time.sleep(_LOOK)
            yield

    @contextmanager
    def making(self, target: Path, name: str) -> Iterator[Path]:
        """A hidden folder that becomes ``target`` at once when the block ends, or goes. The lock must be held."""
        unfinished = target.parent / f"{_UNFINISHED}{name}"
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(parents=True)
        try:
            yield unfinished
            os.rename(unfinished, target)
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)

    def _lock(self, name: str) -> Path:
        lock = self.root / "locks" / check_name(name)
        lock.parent.mkdir(parents=True, exist_ok=True)
        return lock

    def _sweep(self) -> None:
        for left in self.root.glob(f"*/{_UNFINISHED}*"):
            name = left.name.removeprefix(_UNFINISHED)
            if NAME.fullmatch(name):
                with self._lock(name).open("w") as lock:
                    if _taken(lock.fileno()):
                        shutil.rmtree(left, ignore_errors=True)


def _taken(lock: int) -> bool:
    with suppress(BlockingIOError):
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    return False
