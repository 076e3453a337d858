"""Extraction: a stored document becomes content items, in a process of its own that may fail, hang or die.

What the child was given to read was written by strangers, and what reads it is
large: so it gets a path and limits, and neither environment nor descriptors of
ours. What it found is kept beside the document, and can be made again.
"""

import asyncio
import signal
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any
from weakref import WeakValueDictionary

import msgspec
import structlog
from msgspec.structs import replace

from stellwerk.documents.contents import ContentItem
from stellwerk.documents.store import Document, DocumentStore
from stellwerk.errors import ExtractionError, NotFound, StorageFull, StorageGone
from stellwerk.processes.asking import Told, asked

logger = structlog.get_logger(__name__)

AT_ONCE = 2
"""Documents that are read at one time in one server; others wait."""
_VERSION = 1
"""Of what is kept: raised when the same bytes give other items than before."""
_WORKER = "stellwerk.documents.reading.worker"
_ENVIRONMENT = {"LANG": "C.UTF-8", "MALLOC_ARENA_MAX": "1"}
"""With an arena for each thread, half of the memory limit would be spent on addresses that nobody uses."""
_PASSING = frozenset({"document_timed_out", "document_needs_package"})
"""What may go better next time, and is therefore not kept."""
_OUT_OF_MEMORY = ("memory allocation", "MemoryError", "Cannot allocate memory", "bad_alloc")


@dataclass(frozen=True, slots=True)
class Limits:
    document: int = 64 * 1024 * 1024
    """Bytes that a document may have to be read at all."""
    memory: int = 512 * 1024 * 1024
    """Bytes of address space of the child."""
    cpu_seconds: int = 30
    seconds: float = 60
    answer: int = 48 * 1024 * 1024
    """Bytes of all items together as they are sent."""


LIMITS = Limits()


class _Extract(msgspec.Struct, frozen=True):
    """What the child answers, and what is kept: items, or why there are none."""

    items: tuple[ContentItem, ...] = ()
    code: str | None = None
    message: str = ""
    peak: int = 0
    """KiB of memory that the child had at most; 0 if it is not the child who says this, and that is not kept."""
    version: int = _VERSION
    ext: str = ""
    """For which extension it was made: the same bytes may have several."""


class Extractor:
    """One for each server process: how many documents are read at once is counted here."""

    def __init__(self, store: DocumentStore, limits: Limits = LIMITS) -> None:
        self._store, self._limits = store, limits
        self._places = asyncio.Semaphore(AT_ONCE)
        self._locks: WeakValueDictionary[tuple[str, str], asyncio.Lock] = WeakValueDictionary()

    async def items(self, tenant: str, document_id: str) -> tuple[ContentItem, ...]:
        """What is in a document. The first who asks pays for it; whoever is cancelled leaves no process behind.

        Raises:
            NotFound: this tenant has no such document.
            ExtractionError: it cannot be read.
        """
        document = await self._store.find(tenant, document_id)
        if document is None:
            raise NotFound("document", document_id, remedy="it was deleted, or is somebody else's")
        name = PurePosixPath(document.filename.replace("\\", "/"))
        lock = self._locks.setdefault((tenant, document_id), asyncio.Lock())
        async with lock:
            extract = await self._extract(tenant, document, name.suffix.lstrip(".").lower())
        if extract.code is not None:
            raise ExtractionError.told(extract.code, extract.message)
        return tuple(_named(item, name) for item in extract.items)

    async def _extract(self, tenant: str, document: Document, ext: str) -> _Extract:
        kept = await self._store.derived(tenant, document.document_id)
        found = None if kept is None else _decoded(kept)
        if found is not None and found.version == _VERSION and found.ext == ext:
            return found
        made = await self._made(tenant, document, ext)
        if made.peak and made.code not in _PASSING:
            with suppress(StorageFull, StorageGone):  # it can be made again
                await self._store.derive(tenant, document.document_id, msgspec.msgpack.encode(made))
        return made

    async def _made(self, tenant: str, document: Document, ext: str) -> _Extract:
        if document.size > self._limits.document:
            limit = f"{document.size:,} bytes, and {self._limits.document:,} are taken"
            return _refused(ExtractionError("document_too_large", limit), ext)
        request = self._request(str(self._store.path(tenant, document.document_id).absolute()), ext)
        try:
            async with self._places, asyncio.timeout(self._limits.seconds):
                told = await asked(request, _ENVIRONMENT, largest=self._limits.answer)
        except TimeoutError:
            return _refused(ExtractionError("document_timed_out"), ext)
        made = replace(self._understood(told), ext=ext)
        about = {"items": len(made.items), "code": made.code, "peak_mib": made.peak >> 10, "printed": told.printed}
        logger.info("document_read", document=document.document_id, ended=told.ending(), **about)
        return made

    def _request(self, file: str, ext: str) -> dict[str, Any]:
        limits = {"memory": self._limits.memory, "seconds": self._limits.cpu_seconds}
        return {"module": _WORKER, "path": sys.path, "file": file, "ext": ext, **limits}

    def _understood(self, told: Told) -> _Extract:
        if len(told.answer) > self._limits.answer:
            return _refused(ExtractionError("document_too_large"))
        return (_decoded(told.answer) if told.answer else None) or _refused(_why(told))


def _why(told: Told) -> ExtractionError:
    """Why a child that says nothing has ended."""
    if told.ended_by() is signal.SIGXCPU:
        return ExtractionError("document_timed_out")
    if any(words in told.printed for words in _OUT_OF_MEMORY):
        return ExtractionError("document_too_large", "it needs more memory than one document may have")
    return ExtractionError("document_corrupt", f"what reads it ended with {told.ending()}")


def _refused(error: ExtractionError, ext: str = "") -> _Extract:
    return _Extract(code=error.code, message=error.message, ext=ext)


def _decoded(data: bytes) -> _Extract | None:
    try:
        return msgspec.msgpack.decode(data, type=_Extract)
    except msgspec.MsgspecError:
        return None


def _named(item: ContentItem, document: PurePosixPath) -> ContentItem:
    """What has no name of its own in the document is the document."""
    return item if item.name else replace(item, name=document.stem)
