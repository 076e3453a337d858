"""The data folder: what lies in it under which name, and the lock that one process has on it."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from stellwerk.errors import SettingsError

DATABASE = "stellwerk.db"
DOCUMENTS = "documents"


@contextmanager
def locked(data: Path, *, remedy: str = "stop it, or name another with --data") -> Iterator[None]:
    """One process per data folder; a second one is told what to do instead."""
    try:
        data.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = (data / "lock").open("w")
    except OSError as error:
        raise SettingsError(f"cannot use the data folder {data}: {error.strerror}; name another with --data") from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise SettingsError(f"another Stellwerk uses the data folder {data}; {remedy}") from error
        yield
