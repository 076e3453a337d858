"""Files named by the digest of what is in them: complete or missing, never half written.

Paths are made of a tenant's hash and a document's id; no input becomes part of one.
"""

import codecs
import errno
import hashlib
import os
import re
from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import IO, BinaryIO, NamedTuple

from stellwerk.documents.mimes import TYPES
from stellwerk.envelope.introspection import Blob, document_id_of, sniff
from stellwerk.errors import StorageFull, StorageGone
from stellwerk.ids import ID_LENGTH

_ID = re.compile(rf"[0-9A-Za-z]{{{ID_LENGTH}}}", re.ASCII)
FULL = (errno.ENOSPC, errno.EDQUOT)
"""Error numbers of a full disk or an exceeded quota."""
_PIECE = 256 * 1024
_LONGEST_LETTER = 4
_UNKNOWN = "application/octet-stream"
_DERIVED = "extract"


class Copied(NamedTuple):
    path: Path
    size: int
    mime: str
    """What the bytes seem to be."""


def folder_name(tenant: str) -> str:
    return hashlib.sha256(tenant.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def is_document_id(text: str) -> bool:
    return _ID.fullmatch(text) is not None


class Files:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._mark = f"part-{os.urandom(8).hex()}-"
        """Begins the names of files this process is writing; other parts are of a crashed one."""

    def path(self, tenant: str, document_id: str) -> Path:
        """Where the bytes are, if they are there."""
        if not is_document_id(document_id):
            raise ValueError(f"{document_id!r} is no id of a document")
        return self._folder / folder_name(tenant) / document_id

    def write(self, tenant: str, blob: Blob) -> Path:
        """Durable when it returns where they are. The same bytes are written once."""
        # By what is in it, not by what it says about itself.
        target = self.path(tenant, document_id_of(hashlib.sha256(blob.data).digest()))
        if not target.exists():
            self.copy(tenant, BytesIO(blob.data))
        return target

    def copy(self, tenant: str, source: BinaryIO) -> Copied:
        """Like ``write``, for bytes that are read piece by piece and never held together."""
        digest, seen, size = hashlib.sha256(), b"", 0

        def fill(part: IO[bytes]) -> str:
            nonlocal seen, size
            while piece := source.read(_PIECE):
                part.write(piece)
                digest.update(piece)
                seen, size = seen or piece, size + len(piece)
            return document_id_of(digest.digest())

        path = self._written(self._folder / folder_name(tenant), fill)
        return Copied(path, size, _sniffed(seen, whole=size == len(seen)))

    def _written(self, folder: Path, fill: Callable[[IO[bytes]], str]) -> Path:
        """``fill`` writes the bytes and returns the name. Raises StorageFull or StorageGone."""
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            # Readable by its owner alone.
            part = NamedTemporaryFile(dir=folder, prefix=self._mark, delete=False)
            try:
                with part:
                    target = folder / fill(part)
                    part.flush()
                    os.fsync(part.fileno())
                os.rename(part.name, target)
            finally:
                Path(part.name).unlink(missing_ok=True)
            for changed in (folder, self._folder):
                _sync_folder(changed)
        except OSError as error:
            raise not_written(error, "the data folder") from error
        return target

    def part(self, tenant: str, data: bytes) -> Path:
        """A file without its final name; the caller, or the next start, renames or removes it."""

        def fill(part: IO[bytes]) -> str:
            part.write(data)
            return f"{part.name}.whole"

        return self._written(self._folder / folder_name(tenant), fill)

    def everything(self) -> Iterator[Path]:
        """The documents of all tenants, and unfinished parts of earlier processes."""
        for path in sorted(self._folder.glob("*/*")):
            if path.is_file() and not path.name.startswith(self._mark):
                yield path


def not_written(error: OSError, place: str) -> StorageFull | StorageGone:
    """Why a file did not get to the disk."""
    if error.errno in FULL:
        return StorageFull()
    return StorageGone(f"documents cannot be written: {error.strerror}; look at {place}")


def derived_from(path: Path, ext: str) -> Path:
    """Where lies what was read in a document with this extension: beside it, and gone with it."""
    kind = f".{ext}" if ext in TYPES else ""
    return path.with_name(f"{document_of(path)}{kind}.{_DERIVED}")


def remove(path: Path) -> None:
    """The bytes of a document, and all that was read in it."""
    for gone in (path, *(derived_from(path, ext) for ext in ("", *TYPES))):
        gone.unlink(missing_ok=True)


def document_of(path: Path) -> str:
    """The id of the document that these bytes are, or were made of."""
    return path.name.partition(".")[0]


def is_utf8(path: Path) -> bool:
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        with path.open("rb") as file:
            while piece := file.read(_PIECE):
                decoder.decode(piece)
        decoder.decode(b"", final=True)
    except (UnicodeDecodeError, FileNotFoundError):
        return False
    return True


def _sniffed(beginning: bytes, *, whole: bool) -> str:
    """A piece may end within a character."""
    for cut in range(1 if whole else _LONGEST_LETTER):
        guess = sniff(beginning[: len(beginning) - cut])
        if guess != _UNKNOWN:
            return guess
    return _UNKNOWN


def _sync_folder(folder: Path) -> None:
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
