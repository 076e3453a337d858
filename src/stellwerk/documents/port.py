"""What keeps the bytes of documents: a folder (``files``) or an object store (``objects``).

Both lay them out alike, below a hash of the tenant: the document under its id, and beside it the
extracts of what was read in it. No input becomes part of a name. The caller of what writes and
removes holds a lock on the document, so neither ever meets the other.
"""

import hashlib
import re
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import IO, BinaryIO, Protocol

from stellwerk.documents.mimes import TYPES
from stellwerk.envelope.introspection import document_id_of, sniff
from stellwerk.ids import ID_LENGTH

Place = tuple[str, str]
"""The folder of a tenant, and the id of a document in it."""
PIECE = 256 * 1024
_ID = re.compile(rf"[0-9A-Za-z]{{{ID_LENGTH}}}", re.ASCII)
_LONGEST_LETTER = 4
_UNKNOWN = "application/octet-stream"
_DERIVED = "extract"


def folder_name(tenant: str) -> str:
    return hashlib.sha256(tenant.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def is_document_id(text: str) -> bool:
    return _ID.fullmatch(text) is not None


def place_of(tenant: str, document_id: str) -> Place:
    if not is_document_id(document_id):
        raise ValueError(f"{document_id!r} is no id of a document")
    return folder_name(tenant), document_id


def extract_name(document_id: str, ext: str) -> str:
    """The name of what was read in a document with this extension."""
    kind = f".{ext}" if ext in TYPES else ""
    return f"{document_id}{kind}.{_DERIVED}"


def names_of(document_id: str) -> list[str]:
    """A document and everything that may have been read in it."""
    return [document_id, *(extract_name(document_id, ext) for ext in ("", *TYPES))]


def document_of(name: str) -> str | None:
    """The id of the document that these bytes are or were made of; None for other names."""
    document_id, _, rest = name.partition(".")
    is_ours = is_document_id(document_id) and (not rest or rest.endswith(_DERIVED))
    return document_id if is_ours else None


class Measured:
    """Digest, size and probable type of bytes that are read piece by piece."""

    def __init__(self) -> None:
        self._digest, self._seen, self.size = hashlib.sha256(), b"", 0

    def add(self, piece: bytes) -> None:
        self._digest.update(piece)
        self._seen, self.size = self._seen or piece, self.size + len(piece)

    @property
    def document_id(self) -> str:
        return document_id_of(self._digest.digest())

    @property
    def mime(self) -> str:
        return _sniffed(self._seen, whole=self.size == len(self._seen))


def measured(source: BinaryIO) -> Measured:
    found = Measured()
    while piece := source.read(PIECE):
        found.add(piece)
    return found


def _sniffed(beginning: bytes, *, whole: bool) -> str:
    """A piece may end within a character."""
    for cut in range(1 if whole else _LONGEST_LETTER):
        guess = sniff(beginning[: len(beginning) - cut])
        if guess != _UNKNOWN:
            return guess
    return _UNKNOWN


class NewFile(Protocol):
    """A document that was measured, and is not yet under its name."""

    measured: Measured

    async def place(self) -> None:
        """Durable under its name when it returns."""

    async def discard(self) -> None:
        """Let go of what is not needed any more."""


class Files(Protocol):
    """Bytes are complete or missing, never half written.

    Everything raises StorageFull or StorageGone if the place cannot be used, and what reads raises
    FileNotFoundError if there are no such bytes.
    """

    is_shared: bool
    """Whether other processes may write here: then nothing young is swept away."""

    async def open(self) -> None:
        """Raises SettingsError if documents cannot be written and read here."""

    async def is_empty(self) -> bool:
        """Whether no document at all is here."""

    async def prepare(self, tenant: str, source: BinaryIO) -> NewFile:
        """Bytes that are read piece by piece and never held together."""

    async def write(self, place: Place, data: bytes) -> None:
        """Durable when it returns. What is there already is not written again."""

    def pieces(self, place: Place, size: int) -> AsyncGenerator[bytes, None]:
        """A document of this size."""

    def as_file(self, place: Place, size: int) -> AbstractAsyncContextManager[Path]:
        """A file for a process that reads the document, for as long as the block lasts."""

    async def write_extract(self, place: Place, ext: str, data: bytes) -> None: ...

    async def open_extract(self, place: Place, ext: str, first: int | None = None) -> IO[bytes]:
        """An extract, from its beginning: at least ``first`` bytes, or all of it."""

    async def remove(self, places: Sequence[Place]) -> None:
        """Remove documents and all that was read in them."""

    def stored(self, before: float) -> AsyncIterator[Sequence[Place]]:
        """Documents and extracts of all tenants; where others write, those older than this time."""

    async def remove_parts(self, before: float) -> int:
        """Remove what earlier processes left half written; where others write, older than this."""
