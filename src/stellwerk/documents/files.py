"""Files named by the digest of what is in them: whole or not there, never half written.

Names are made here, from a tenant's hash and a document's id of 22 letters and
digits; nothing that anybody sent becomes part of a path.
"""

import errno
import hashlib
import os
import re
from collections.abc import Iterator
from pathlib import Path
from tempfile import NamedTemporaryFile

from stellwerk.envelope.shapes import Blob, make_blob
from stellwerk.errors import StorageFull, StorageGone
from stellwerk.ids import ID_LENGTH

_ID = re.compile(rf"[0-9A-Za-z]{{{ID_LENGTH}}}", re.ASCII)
_FULL = (errno.ENOSPC, errno.EDQUOT)


def folder_name(tenant: str) -> str:
    return hashlib.sha256(tenant.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def is_document_id(text: str) -> bool:
    return _ID.fullmatch(text) is not None


class Files:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._mark = f"part-{os.urandom(8).hex()}-"
        """What this process has not finished writing begins like that; other parts are of one that crashed."""

    def path(self, tenant: str, document_id: str) -> Path:
        """Where the bytes are, if they are there."""
        if not is_document_id(document_id):
            raise ValueError(f"{document_id!r} is no id of a document")
        return self._folder / folder_name(tenant) / document_id

    def write(self, tenant: str, blob: Blob) -> Path:
        """Durable when it returns where they are. The same bytes are written once.

        Raises:
            StorageFull: the disk is full.
            StorageGone: the folder cannot be written.
        """
        # By what is in it, not by what it says about itself.
        target = self.path(tenant, make_blob(blob.data, mime=blob.mime, filename="data.bin").document_id)
        try:
            target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not target.exists():
                self._write(target, blob.data)
        except OSError as error:
            if error.errno in _FULL:
                raise StorageFull from error
            raise StorageGone(f"documents cannot be written: {error.strerror}; look at the data folder") from error
        return target

    def _write(self, target: Path, data: bytes) -> None:
        part = NamedTemporaryFile(dir=target.parent, prefix=self._mark, delete=False)  # readable by its owner alone
        try:
            with part:
                part.write(data)
                part.flush()
                os.fsync(part.fileno())
            os.rename(part.name, target)
        finally:
            Path(part.name).unlink(missing_ok=True)
        for folder in (target.parent, self._folder):
            _sync_folder(folder)

    def everything(self) -> Iterator[Path]:
        """All documents, whoever they belong to, and the parts that nobody finishes."""
        for path in sorted(self._folder.glob("*/*")):
            if path.is_file() and not path.name.startswith(self._mark):
                yield path


def _sync_folder(folder: Path) -> None:
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
