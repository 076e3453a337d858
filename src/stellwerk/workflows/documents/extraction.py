"""Content extraction: a child process reads a stored document and returns content items.

Documents are untrusted and their parsers are large. The child therefore gets a path and resource
limits, and neither our environment nor our descriptors; it may fail, hang or die. Its result is
stored beside the document and can be made again.
"""

import asyncio
import io
import signal
import sys
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import PurePosixPath
from typing import IO
from weakref import WeakValueDictionary

import structlog
from msgspec.structs import replace

from stellwerk.documents.mimes import TYPES, extension
from stellwerk.documents.store import Document, DocumentStore
from stellwerk.errors import ExtractionError, NotFound, StorageFull, StorageGone
from stellwerk.processes.supervised_process import ProcessResult, run_request
from stellwerk.threads import in_thread
from stellwerk.workflows.documents.contents import ContentItem, Outline, TextBudget, items_in, outline_in, packed

logger = structlog.get_logger(__name__)

AT_ONCE = 2
"""Documents read at once. Also per tenant, so that one tenant's backlog cannot starve others."""
_WORKER = "stellwerk.workflows.documents.readers.worker"
_ENVIRONMENT = {"LANG": "C.UTF-8", "MALLOC_ARENA_MAX": "1"}
"""With a malloc arena per thread, half of the memory limit would go to unused address space."""
_PASSING = frozenset({"document_timed_out", "document_needs_package"})
"""Failures that may pass, and are therefore not stored."""
_OUTLINE = 256 * 1024
"""Bytes of an extract that are fetched first: they have most outlines."""
_OUT_OF_MEMORY = ("memory allocation", "MemoryError", "Cannot allocate memory", "bad_alloc")


@dataclass(frozen=True, slots=True)
class Limits:
    document: int = 64 * 1024 * 1024
    """The most bytes of a document."""
    memory: int = 512 * 1024 * 1024
    """Bytes of address space of the child."""
    cpu_seconds: int = 30
    seconds: float = 60
    answer: int = 48 * 1024 * 1024
    """The most bytes of the child's reply."""
    remembered: float = 180
    """Seconds for which a passing failure is reported again before the next attempt."""


LIMITS = Limits()


@dataclass(frozen=True, slots=True)
class _Found:
    outline: Outline
    content: bytes | Callable[[], Awaitable[IO[bytes]]]
    """The bytes with the items, or what opens them where they are stored."""

    async def items(self, room: TextBudget) -> tuple[ContentItem, ...]:
        with io.BytesIO(self.content) if isinstance(self.content, bytes) else await self.content() as file:
            return await in_thread(items_in, file, room)


_Key = tuple[str, str, str]
"""Tenant, document and extension: the same bytes may have several extensions."""


class Extractor:
    """Reads documents; one per store, because it limits how many are read at the same time."""

    def __init__(self, store: DocumentStore, limits: Limits = LIMITS) -> None:
        self._store, self._limits = store, limits
        self._slots = asyncio.Semaphore(AT_ONCE)
        self._tenant_slots: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()
        self._locks: WeakValueDictionary[_Key, asyncio.Lock] = WeakValueDictionary()
        self._failed: dict[_Key, tuple[float, Outline]] = {}

    async def items(
        self, tenant: str, document_id: str, name: str | None = None, *, room: TextBudget | None = None
    ) -> tuple[ContentItem, ...]:
        """The items of a document, completely or as far as the budget allows.

        ``name`` is its name in the caller's message; without it, the last name that it was given.
        The first caller waits for the extraction; a cancelled call leaves no process behind.

        Raises:
            NotFound: this tenant has no such document.
            ExtractionError: it cannot be read.
        """
        found, named = await self._extracted(tenant, document_id, name)
        items = await _items(found, document_id, room or TextBudget())
        return tuple(_named(item, named) for item in items)

    async def outline(self, tenant: str, document_id: str, name: str | None = None) -> tuple[ContentItem, ...]:
        """The items without texts: small, however large the document is."""
        found, named = await self._extracted(tenant, document_id, name)
        return tuple(_named(item, named) for item in found.outline.items())

    async def sum_up(self, tenant: str, document_id: str, name: str, summaries: Mapping[int, str]) -> None:
        """Replace the summaries of items, by their numbers, with those that a model wrote."""
        found, named = await self._extracted(tenant, document_id, name)
        items = list(await _items(found, document_id, TextBudget()))
        for n, item in enumerate(items):
            if summary := summaries.get(item.sequence_nr):
                metadata = replace(item.metadata, ai_processed=True)
                items[n] = replace(item, summary=summary, metadata=metadata)
        data = await in_thread(packed, items)
        with suppress(StorageFull, StorageGone):  # a model can be asked again
            await self._store.derive(*_key(tenant, document_id, named), data)

    async def _extracted(self, tenant: str, document_id: str, name: str | None) -> tuple[_Found, str]:
        document = await self._store.find(tenant, document_id)
        if document is None:
            raise _unknown(document_id)
        named = document.filename if name is None else name
        key = _key(tenant, document_id, named)
        lock = self._locks.setdefault(key, asyncio.Lock())
        async with lock:
            found = await self._stored(key)
            found = found or self._remembered(key) or await self._read(key, document)
        if found.outline.code is not None:
            raise ExtractionError(found.outline.code, message=found.outline.message)
        return found, named

    async def _stored(self, key: _Key) -> _Found | None:
        try:
            for first in (_OUTLINE, None):
                with await self._store.extract(*key, first) as file:
                    if (outline := await in_thread(outline_in, file)) is not None:
                        return _Found(outline, partial(self._store.extract, *key))
        except FileNotFoundError:
            pass
        return None

    def _remembered(self, key: _Key) -> _Found | None:
        until, outline = self._failed.get(key, (0.0, None))
        if outline is None or asyncio.get_running_loop().time() >= until:
            return None
        return _Found(outline, b"")

    async def _read(self, key: _Key, document: Document) -> _Found:
        own = self._tenant_slots.setdefault(key[0], asyncio.Semaphore(AT_ONCE))
        async with own, self._slots:
            made = await self._run_child(key, document)
            outline = made.outline
            if isinstance(made.content, bytes) and outline.peak and outline.code not in _PASSING:
                with suppress(StorageFull, StorageGone):  # it can be made again
                    if await self._store.derive(*key, made.content):
                        return _Found(outline, partial(self._store.extract, *key))
        if outline.code is not None:
            now = asyncio.get_running_loop().time()
            self._failed = {each: known for each, known in self._failed.items() if known[0] > now}
            self._failed[key] = (now + self._limits.remembered, outline)
        return made

    async def _run_child(self, key: _Key, document: Document) -> _Found:
        limits = self._limits
        if document.size > limits.document:
            sizes = f"{document.size:,} bytes, and {limits.document:,} are taken"
            return _refused("document_too_large", sizes)
        tenant, _, ext = key
        request = {
            "module": _WORKER,
            "path": sys.path,
            "ext": ext,
            "memory": limits.memory,
            "seconds": limits.cpu_seconds,
        }
        try:
            async with self._store.as_file(tenant, document) as path, asyncio.timeout(limits.seconds):
                request["file"] = str(path)
                reply = await run_request(request, _ENVIRONMENT, largest=limits.answer)
        except TimeoutError:
            return _refused("document_timed_out")
        made = await in_thread(parsed, reply, limits.answer)
        logger.info(
            "document_read",
            document=document.document_id,
            ended=reply.ending(),
            printed=reply.printed,
            items=len(made.outline.entries),
            code=made.outline.code,
            peak_mib=made.outline.peak >> 10,
        )
        return made


def _unknown(document_id: str) -> NotFound:
    return NotFound("document", document_id, remedy="it was deleted, or belongs to another tenant")


def parsed(reply: ProcessResult, largest: int) -> _Found:
    """The reply of the child, or why it ended without one."""
    if len(reply.answer) > largest:
        return _refused("document_too_large")
    file = io.BytesIO(reply.answer)
    outline = outline_in(file) if reply.answer else None
    # The sizes are the child's: texts are later read and skipped by them.
    if outline is not None and file.tell() + outline.text_size() == len(reply.answer):
        return _Found(outline, reply.answer)
    if reply.ended_by() is signal.SIGXCPU:
        return _refused("document_timed_out")
    if any(words in reply.printed for words in _OUT_OF_MEMORY):
        return _refused("document_too_large", "it needs more memory than one document may have")
    return _refused("document_corrupt", f"what reads it ended with {reply.ending()}")


def _refused(code: str, detail: str = "") -> _Found:
    return _Found(Outline(code=code, message=ExtractionError(code, detail).message), b"")


def _key(tenant: str, document_id: str, named: str) -> _Key:
    ext = extension(named)
    return tenant, document_id, ext if ext in TYPES else ""


async def _items(found: _Found, document_id: str, room: TextBudget) -> tuple[ContentItem, ...]:
    try:
        return await found.items(room)
    except FileNotFoundError as error:
        raise _unknown(document_id) from error


def _named(item: ContentItem, filename: str) -> ContentItem:
    """An item without a name of its own gets that of the document."""
    if item.name:
        return item
    path = PurePosixPath(filename.replace("\\", "/"))
    return replace(item, name=path.stem, ext=item.ext or extension(filename))


def extractor_of(store: DocumentStore) -> Extractor:
    """The extractor of a store, made on first use."""
    if Extractor not in store.extensions:
        store.extensions[Extractor] = Extractor(store)
    found: Extractor = store.extensions[Extractor]
    return found
