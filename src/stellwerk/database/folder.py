"""The data folder: names and file modes in it, and the lock that one process has on it."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from stellwerk.errors import SettingsError

DATABASE = "stellwerk.db"
DOCUMENTS = "documents"
MASTER_KEY = "master.key"
BALLAST = "stellwerk.ballast"
_MADE_AFTER_IT = (MASTER_KEY, BALLAST, f"{DATABASE}-wal")
"""Files that a server makes when it has its database, and never without one."""


def for_owner(path: str, flags: int) -> int:
    """An ``opener``: a new file can be read by its owner alone, also in a folder open to others."""
    return os.open(path, flags, 0o600)


def begin_for_owner(path: Path) -> None:
    """Make an empty file for a database, if there is none: SQLite's other files get its mode.

    An existing one is left alone: to open and close it would drop this process's locks on it.
    """
    with suppress(FileExistsError), open(path, "xb", opener=for_owner):
        pass


def refuse_lost_database(data: Path) -> None:
    """A new database would have no keys, and would open the server to anyone who reaches it.

    Raises:
        SettingsError: the folder was used by a server, and its database is gone or empty.
    """
    database = data / DATABASE
    if database.exists() and database.stat().st_size > 0:
        return
    files = (path for path in (data / DOCUMENTS).rglob("*") if path.is_file())
    left = next((data / name for name in _MADE_AFTER_IT if (data / name).exists()), None) or next(files, None)
    if left is None:
        return
    raise SettingsError(
        f"the database {database} is gone, but {left} of the same server is still there; restore a backup "
        f"with `stellwerk restore BACKUP --data NEW_FOLDER`, or move the folder away to begin without its data"
    )


@contextmanager
def shared(data: Path) -> Iterator[None]:
    """Use the data folder beside other processes, with a database that is not in it."""
    _make(data)
    yield


def _make(data: Path) -> None:
    try:
        data.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise SettingsError(f"cannot use the data folder {data}: {error.strerror}; name another with --data") from error


@contextmanager
def locked(data: Path, *, remedy: str = "stop it, or name another with --data") -> Iterator[None]:
    """Lock the data folder for this process; a second process is rejected with a remedy."""
    _make(data)
    try:
        lock = open(data / "lock", "w", opener=for_owner)
    except OSError as error:
        raise SettingsError(f"cannot use the data folder {data}: {error.strerror}; name another with --data") from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise SettingsError(f"another Stellwerk uses the data folder {data}; {remedy}") from error
        yield
