"""Extraction: a stored document becomes content items, in a process of its own that may fail, hang or die.

What the child was given to read was written by strangers, and what reads it is
large: so it gets a path and limits, and neither environment nor descriptors of
ours. What it found is kept beside the document, and can be made again.
"""

import asyncio
import io
import signal
import sys
from collections import OrderedDict
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO
from weakref import WeakValueDictionary

import msgspec
import structlog
from msgspec.structs import replace

from stellwerk.documents.contents import ContentItem
from stellwerk.documents.extracts import Outline, Room, items_in, outline_in, packed, packed_outline, without_texts
from stellwerk.documents.mimes import TYPES, extension
from stellwerk.documents.store import Document, DocumentStore
from stellwerk.errors import ExtractionError, NotFound, StorageFull, StorageGone
from stellwerk.processes.asking import Told, asked
from stellwerk.threads import in_thread

logger = structlog.get_logger(__name__)

AT_ONCE = 2
"""Documents that are read at one time in one server; others wait. A tenant that wants more waits for itself first, so
that whoever comes next is behind one or two of its documents, and not behind all."""
_WORKER = "stellwerk.documents.reading.worker"
_ENVIRONMENT = {"LANG": "C.UTF-8", "MALLOC_ARENA_MAX": "1"}
"""With an arena for each thread, half of the memory limit would be spent on addresses that nobody uses."""
_PASSING = frozenset({"document_timed_out", "document_needs_package"})
"""What may go better next time, and is therefore not kept."""
_FAILURES = 256
"""Failures that are remembered, because they are not kept."""
_ALL = 1 << 62
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
    remembered: float = 180
    """Seconds for which a failure that may pass is told again to whoever asks, before anybody tries again."""


LIMITS = Limits()


class _Answer(msgspec.Struct, frozen=True):
    """What the child says: items, or why there are none."""

    items: tuple[ContentItem, ...] = ()
    code: str | None = None
    message: str = ""
    peak: int = 0
    """KiB of memory that the child had at most; 0 if it is not the child who says this, and that is not kept."""


@dataclass(frozen=True, slots=True)
class _Found:
    outline: Outline
    open: Callable[[], BinaryIO]


_Key = tuple[str, str, str]
"""Tenant, document and extension: the same bytes may have several."""


class Extractor:
    """One for each server process: how many documents are read at once is counted here."""

    def __init__(self, store: DocumentStore, limits: Limits = LIMITS) -> None:
        self._store, self._limits = store, limits
        self._places = asyncio.Semaphore(AT_ONCE)
        self._own_places: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()
        self._locks: WeakValueDictionary[_Key, asyncio.Lock] = WeakValueDictionary()
        self._failed: OrderedDict[_Key, tuple[float, Outline]] = OrderedDict()

    async def items(
        self, tenant: str, document_id: str, name: str | None = None, *, room: Room | None = None
    ) -> tuple[ContentItem, ...]:
        """What is in a document, all of it or as much as there is room for.

        ``name`` is that under which it is known to whoever asks; without it, the last that it was given. The first
        who asks pays for reading it; whoever is cancelled leaves no process behind.

        Raises:
            NotFound: this tenant has no such document.
            ExtractionError: it cannot be read.
        """
        found, named = await self._asked(tenant, document_id, name)
        items = await _all_of(found, document_id, Room(_ALL, _ALL) if room is None else room)
        return tuple(_named(item, named) for item in items)

    async def outline(self, tenant: str, document_id: str, name: str | None = None) -> tuple[ContentItem, ...]:
        """The same without any text: little, however much is in the document."""
        found, named = await self._asked(tenant, document_id, name)
        return tuple(_named(item, named) for item in without_texts(found.outline))

    async def sum_up(self, tenant: str, document_id: str, name: str, summaries: Mapping[int, str]) -> None:
        """Keep what a model says of items, by their numbers, in place of the summaries that were made without one.

        Raises:
            NotFound: this tenant has no such document.
            ExtractionError: it cannot be read.
        """
        found, named = await self._asked(tenant, document_id, name)
        items = await _all_of(found, document_id, Room(_ALL, _ALL))
        summed = [_summed_up(item, summaries.get(item.sequence_nr)) for item in items]
        _, data = await in_thread(packed, summed)
        with suppress(StorageFull, StorageGone):  # a model can be asked again
            await self._store.derive(*_key(tenant, document_id, named), data)

    async def _asked(self, tenant: str, document_id: str, name: str | None) -> tuple[_Found, str]:
        document = await self._store.find(tenant, document_id)
        if document is None:
            raise _unknown(document_id)
        named = document.filename if name is None else name
        key = _key(tenant, document_id, named)
        lock = self._locks.setdefault(key, asyncio.Lock())
        async with lock:
            found = await self._kept(key) or self._remembered(key) or await self._read(key, document)
        if found.outline.code is not None:
            raise ExtractionError.told(found.outline.code, found.outline.message)
        return found, named

    async def _kept(self, key: _Key) -> _Found | None:
        path = self._store.derived(*key)
        outline = await in_thread(_outline, path)
        return None if outline is None else _Found(outline, lambda: path.open("rb"))

    def _remembered(self, key: _Key) -> _Found | None:
        until, outline = self._failed.get(key, (0.0, None))
        if outline is None or asyncio.get_running_loop().time() >= until:
            return None
        return _Found(outline, io.BytesIO)

    async def _read(self, key: _Key, document: Document) -> _Found:
        own = self._own_places.setdefault(key[0], asyncio.Semaphore(AT_ONCE))
        async with own, self._places:
            made = await self._made(key, document)
            if made.code is not None:
                outline = Outline(code=made.code, message=made.message)
                data = packed_outline(outline)
            else:
                outline, data = await in_thread(packed, made.items)
            if made.peak and made.code not in _PASSING:
                with suppress(StorageFull, StorageGone):  # it can be made again
                    if await self._store.derive(*key, data):
                        return _Found(outline, lambda: self._store.derived(*key).open("rb"))
        if made.code is not None:
            self._remember(key, outline)
        return _Found(outline, partial(io.BytesIO, data))

    def _remember(self, key: _Key, outline: Outline) -> None:
        self._failed.pop(key, None)
        self._failed[key] = (asyncio.get_running_loop().time() + self._limits.remembered, outline)
        while len(self._failed) > _FAILURES:
            self._failed.popitem(last=False)

    async def _made(self, key: _Key, document: Document) -> _Answer:
        if document.size > self._limits.document:
            limit = f"{document.size:,} bytes, and {self._limits.document:,} are taken"
            return _refused(ExtractionError("document_too_large", limit))
        tenant, document_id, ext = key
        request = self._request(str(self._store.path(tenant, document_id).absolute()), ext)
        try:
            async with asyncio.timeout(self._limits.seconds):
                told = await asked(request, _ENVIRONMENT, largest=self._limits.answer)
        except TimeoutError:
            return _refused(ExtractionError("document_timed_out"))
        made = await in_thread(self._understood, told)
        about = {"items": len(made.items), "code": made.code, "peak_mib": made.peak >> 10, "printed": told.printed}
        logger.info("document_read", document=document_id, ended=told.ending(), **about)
        return made

    def _request(self, file: str, ext: str) -> dict[str, Any]:
        limits = {"memory": self._limits.memory, "seconds": self._limits.cpu_seconds}
        return {"module": _WORKER, "path": sys.path, "file": file, "ext": ext, **limits}

    def _understood(self, told: Told) -> _Answer:
        if len(told.answer) > self._limits.answer:
            return _refused(ExtractionError("document_too_large"))
        return (_decoded(told.answer) if told.answer else None) or _refused(_why(told))


def _outline(path: Path) -> Outline | None:
    try:
        with path.open("rb") as file:
            return outline_in(file)
    except FileNotFoundError:
        return None


def _texts(found: _Found, room: Room) -> tuple[ContentItem, ...]:
    with found.open() as file:
        outline = outline_in(file)
        return () if outline is None else items_in(file, outline, room)


def _unknown(document_id: str) -> NotFound:
    return NotFound("document", document_id, remedy="it was deleted, or is somebody else's")


def _why(told: Told) -> ExtractionError:
    """Why a child that says nothing has ended."""
    if told.ended_by() is signal.SIGXCPU:
        return ExtractionError("document_timed_out")
    if any(words in told.printed for words in _OUT_OF_MEMORY):
        return ExtractionError("document_too_large", "it needs more memory than one document may have")
    return ExtractionError("document_corrupt", f"what reads it ended with {told.ending()}")


def _refused(error: ExtractionError) -> _Answer:
    return _Answer(code=error.code, message=error.message)


def _decoded(data: bytes) -> _Answer | None:
    try:
        return msgspec.msgpack.decode(data, type=_Answer)
    except msgspec.MsgspecError:
        return None


def _key(tenant: str, document_id: str, named: str) -> _Key:
    ext = extension(named)
    return tenant, document_id, ext if ext in TYPES else ""


async def _all_of(found: _Found, document_id: str, room: Room) -> tuple[ContentItem, ...]:
    try:
        return await in_thread(_texts, found, room)
    except FileNotFoundError as error:
        raise _unknown(document_id) from error


def _summed_up(item: ContentItem, summary: str | None) -> ContentItem:
    return item if not summary else replace(item, summary=summary, metadata=replace(item.metadata, ai_processed=True))


def _named(item: ContentItem, filename: str) -> ContentItem:
    """What has no name of its own in the document is the document."""
    if item.name:
        return item
    path = PurePosixPath(filename.replace("\\", "/"))
    return replace(item, name=path.stem, ext=item.ext or extension(filename))
