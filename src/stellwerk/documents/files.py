"""A folder of documents: the data folder's own, or one that several machines share."""

import errno
import os
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from itertools import islice
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import IO, BinaryIO

from stellwerk.documents.port import (
    PIECE,
    Measured,
    Place,
    document_of,
    extract_name,
    folder_name,
    names_of,
)
from stellwerk.errors import SettingsError, StorageFull, StorageGone
from stellwerk.threads import in_thread

FULL = (errno.ENOSPC, errno.EDQUOT)
"""Error numbers of a full disk or an exceeded quota."""
_SLICE = 100
_PART = "part-"


class _Part:
    """A file that is whole and durable, but has no final name yet."""

    def __init__(self, files: "FolderFiles", folder: str, part: Path, measured: Measured) -> None:
        self._files, self._folder, self._part = files, folder, part
        self.measured = measured

    async def place(self) -> None:
        await in_thread(self._files.rename, self._part, (self._folder, self.measured.document_id))

    async def discard(self) -> None:
        await in_thread(self._part.unlink, missing_ok=True)


class FolderFiles:
    def __init__(self, folder: Path, *, is_shared: bool = False) -> None:
        self._folder, self.is_shared = folder, is_shared
        self._mark = f"{_PART}{os.urandom(8).hex()}-"
        """Begins the names of files this process is writing."""

    def __str__(self) -> str:
        return f"the folder {self._folder}"

    async def open(self) -> None:
        if self.is_shared:
            try:
                await in_thread(self._try_out)
            except OSError as error:
                problem = f"documents cannot be kept in {self}: {error.strerror}"
                raise SettingsError(f"{problem}; name another place with --documents") from error

    def _try_out(self) -> None:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with NamedTemporaryFile(dir=self._folder, prefix=self._mark):
            pass

    async def is_empty(self) -> bool:
        return await in_thread(lambda: next(self._found(None), None) is None)

    async def prepare(self, tenant: str, source: BinaryIO) -> _Part:
        return await in_thread(self._prepared, folder_name(tenant), source)

    def _prepared(self, folder: str, source: BinaryIO) -> _Part:
        measured = Measured()

        def fill(part: IO[bytes]) -> None:
            while piece := source.read(PIECE):
                part.write(piece)
                measured.add(piece)

        return _Part(self, folder, self._part(folder, fill), measured)

    async def write(self, place: Place, data: bytes) -> None:
        await in_thread(self._write, place, data)

    def _write(self, place: Place, data: bytes) -> None:
        if not self.path(place).exists():
            self._put(place[0], place[1], data)

    def path(self, place: Place) -> Path:
        return self._folder.joinpath(*place)

    def rename(self, part: Path, place: Place) -> None:
        """Give a part its final name; durable when it returns."""
        try:
            os.rename(part, self.path(place))
            for changed in (self._folder / place[0], self._folder):
                _sync_folder(changed)
        except OSError as error:
            raise not_written(error, "the data folder") from error

    def _part(self, folder: str, fill: Callable[[IO[bytes]], None]) -> Path:
        """A durable file without its final name. Raises StorageFull or StorageGone."""
        try:
            inside = self._folder / folder
            inside.mkdir(mode=0o700, parents=True, exist_ok=True)
            # Readable by its owner alone.
            part = NamedTemporaryFile(dir=inside, prefix=self._mark, delete=False)
            is_whole = False
            try:
                with part:
                    fill(part)
                    part.flush()
                    os.fsync(part.fileno())
                is_whole = True
            finally:
                if not is_whole:
                    Path(part.name).unlink(missing_ok=True)
        except OSError as error:
            raise not_written(error, "the data folder") from error
        return Path(part.name)

    def _put(self, folder: str, name: str, data: bytes) -> None:
        def fill(part: IO[bytes]) -> None:
            part.write(data)

        part = self._part(folder, fill)
        try:
            self.rename(part, (folder, name))
        finally:
            part.unlink(missing_ok=True)

    async def pieces(self, place: Place, size: int) -> AsyncGenerator[bytes, None]:
        # Not in a thread: a cancelled caller would leave it open.
        with self.path(place).open("rb") as file:
            while piece := await in_thread(file.read, PIECE // 4):
                yield piece

    @asynccontextmanager
    async def as_file(self, place: Place, size: int) -> AsyncIterator[Path]:
        yield self.path(place).absolute()

    async def write_extract(self, place: Place, ext: str, data: bytes) -> None:
        await in_thread(self._put, place[0], extract_name(place[1], ext), data)

    async def open_extract(self, place: Place, ext: str, first: int | None = None) -> IO[bytes]:
        # Not in a thread: a cancelled caller would leave it open.
        return self.path((place[0], extract_name(place[1], ext))).open("rb")

    async def remove(self, places: Sequence[Place]) -> None:
        await in_thread(self._remove, places)

    def _remove(self, places: Sequence[Place]) -> None:
        try:
            for folder, document_id in places:
                for name in names_of(document_id):
                    (self._folder / folder / name).unlink(missing_ok=True)
        except OSError as error:
            raise StorageGone(f"documents cannot be removed: {error.strerror}; look at {self}") from error

    async def stored(self, before: float) -> AsyncIterator[Sequence[Place]]:
        found = self._found(before)
        while some := await in_thread(lambda: list(islice(found, _SLICE))):
            yield some

    def _found(self, before: float | None) -> Iterator[Place]:
        for path in sorted(self._folder.glob("*/*")):
            document_id = document_of(path.name)
            if document_id is not None and self._is_old(path, before):
                yield path.parent.name, document_id

    def _is_old(self, path: Path, before: float | None) -> bool:
        """A folder of our own has only what earlier processes wrote; into a shared one others may be writing."""
        try:
            return path.is_file() and (before is None or not self.is_shared or path.stat().st_mtime < before)
        except FileNotFoundError:
            return False

    async def remove_parts(self, before: float) -> int:
        return await in_thread(self._remove_parts, before)

    def _remove_parts(self, before: float) -> int:
        found = (path for path in self._folder.glob(f"*/{_PART}*") if not path.name.startswith(self._mark))
        parts = [path for path in found if self._is_old(path, before)]
        for path in parts:
            path.unlink(missing_ok=True)
        return len(parts)


def not_written(error: OSError, place: str) -> StorageFull | StorageGone:
    """Why a file did not get to the disk."""
    if error.errno in FULL:
        return StorageFull()
    return StorageGone(f"documents cannot be written: {error.strerror}; look at {place}")


def _sync_folder(folder: Path) -> None:
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
