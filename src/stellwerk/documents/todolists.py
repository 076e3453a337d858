"""To-do lists: ``todolist_<session>.md`` in the folder that a system names, below the data folder.

Folders are opened one inside the other and never through a link, so that nothing is written or
removed outside of the data folder. A file is complete or missing.
"""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import structlog

from stellwerk.documents.files import FULL
from stellwerk.errors import StorageFull

logger = structlog.get_logger(__name__)

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
_FRONT, _END = "todolist_", ".md"
_ON_MANY_MACHINES = "on PostgreSQL, lists are read by GET /sessions/{id}/artifacts/todolist.md; no files are written"


def file_name(session_id: str) -> str:
    if not (session_id.isascii() and session_id.isalnum()):
        raise ValueError(f"{session_id!r} is no id of a session")
    return f"{_FRONT}{session_id}{_END}"


class Todolists:
    """Without a data folder that is the sessions' own, no lists are written: each machine would have some of them."""

    def __init__(self, data: Path | None) -> None:
        self._data = data
        self._warned = False

    def write(self, folder: str, session_id: str, text: str) -> bool:
        """Write the file completely; False if something else has its name.

        Raises:
            StorageFull: the disk is full; what was there before is still there.
        """
        name = file_name(session_id)
        if self._data is None:
            if not self._warned:
                self._warned = True
                logger.warning("todolists_not_written", remedy=_ON_MANY_MACHINES)
            return False
        try:
            with self._opened(folder, make=True) as inside:
                self._replace(inside, name, text.encode())
        except OSError as error:
            if error.errno in FULL:
                raise StorageFull from error
            logger.warning("todolist_not_written", folder=folder, session=session_id, error=error.strerror)
            return False
        return True

    def remove(self, folders: Iterable[str], session_id: str) -> None:
        """Wherever it may lie."""
        for folder in folders:
            with suppress(OSError), self._opened(folder, make=False) as inside:
                os.unlink(file_name(session_id), dir_fd=inside)

    def sessions(self, folder: str) -> list[str]:
        """Those that have a list in this folder."""
        with suppress(OSError), self._opened(folder, make=False) as inside:
            names = [name for name in os.listdir(inside) if name.startswith(_FRONT) and name.endswith(_END)]
            found = [name.removeprefix(_FRONT).removesuffix(_END) for name in names]
            return [session_id for session_id in found if session_id.isascii() and session_id.isalnum()]
        return []

    @contextmanager
    def _opened(self, folder: str, *, make: bool) -> Iterator[int]:
        if self._data is None:
            raise FileNotFoundError
        inside = os.open(self._data, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            for part in folder.split("/"):
                if make:
                    with suppress(FileExistsError):
                        os.mkdir(part, 0o700, dir_fd=inside)
                outer, inside = inside, os.open(part, _FOLDER, dir_fd=inside)
                os.close(outer)
            yield inside
        finally:
            os.close(inside)

    def _replace(self, inside: int, name: str, data: bytes) -> None:
        part = f".{name}.part"
        try:
            with open(os.open(part, _NEW, 0o600, dir_fd=inside), "wb") as file:
                file.write(data)
            os.rename(part, name, src_dir_fd=inside, dst_dir_fd=inside)
        finally:
            with suppress(OSError):
                os.unlink(part, dir_fd=inside)
