"""The document store: bytes in files, and rows that say which session refers to them.

Bytes are written first and referred to afterwards; they go with the last session that refers to
them. Both happen under a lock on the document, which all processes of a database share, so that
neither can overtake the other. No transaction waits for the bytes.
"""

import asyncio
import codecs
import hashlib
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Collection, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, BinaryIO

import msgspec
import structlog

from stellwerk.database.port import DOCUMENTS, Database, Lock, R, Transaction, locking, session_lock
from stellwerk.documents.mimes import label
from stellwerk.documents.port import Files, Place, folder_name, is_document_id, place_of
from stellwerk.envelope.introspection import Blob, document_id_of
from stellwerk.envelope.to_json import clean_text
from stellwerk.errors import Conflict, CorruptStore, LimitReached, NotFound, SettingsError, StorageFull, StorageGone
from stellwerk.ids import Clock
from stellwerk.threads import in_thread

Listener = Callable[[str, str], Awaitable[None]]  # gets tenant and session of what was stored
Admission = Callable[[Transaction, int], None]  # raises LimitReached if these bytes are too many
_UPLOADED = ""
"""In the place of a session id: an upload."""
_SLICE = 100
"""Documents removed under one lock."""
_YOUNG = 86_400.0
"""Seconds for which bytes that no session refers to are left alone where other processes may be writing them."""
_SWEEP = 6 * 3600.0
_CLOSING = 10.0

logger = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Document:
    document_id: str
    filename: str
    """As its author named it: text to show, never part of a path."""
    mime: str
    size: int
    created_at: float


@dataclass(frozen=True, slots=True)
class _Reference:
    tenant: str
    session_id: str
    document: Document
    admit: Admission | None = None


class FileNumbers:
    """A whole number for each document of a tenant, for clients that name their files by numbers.

    A number is a name and grants nothing: it is looked up among the caller's own documents.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    async def of(self, tenant: str, document_ids: Collection[str]) -> dict[str, int]:
        names = msgspec.json.encode(list(document_ids)).decode()
        return dict(await self._database.read(lambda tx: tx.rows("numbers_of_documents", tenant, names)))

    async def documents(self, tenant: str, numbers: Collection[int]) -> dict[int, str]:
        """Those numbers that are documents of this tenant."""
        named = msgspec.json.encode(list(numbers)).decode()
        return dict(await self._database.read(lambda tx: tx.rows("documents_of_numbers", tenant, named)))


class DocumentStore:
    def __init__(self, database: Database, files: Files, clock: Clock, when_kept: Listener | None = None) -> None:
        self._database, self._files, self._clock, self._when_kept = database, files, clock, when_kept
        self._working: set[asyncio.Task[Any]] = set()
        self._left = set[Place]()
        """Documents that no session refers to, and that could not be removed."""
        self.extensions: dict[type, Any] = {}
        """One object of each type that plug-ins keep for as long as the store."""

    async def open(self) -> None:
        """
        Raises:
            SettingsError: documents cannot be kept here, or those of the database are elsewhere.
        """
        await self._files.open()
        if not self._files.is_shared or await self._database.read(_has_none) or not await self._files.is_empty():
            return
        raise SettingsError(
            f"the database refers to documents, and there are none in {self._files}; copy them there as they are, "
            "or name the place where they are with --documents"
        )

    async def close(self) -> None:
        """Finish what is under way."""
        if self._working:
            await asyncio.wait(self._working, timeout=_CLOSING)

    async def keep(self, tenant: str, session_id: str, blobs: Sequence[Blob]) -> None:
        """Store bytes for a session; durable when it returns. Repeating it changes nothing.

        Raises:
            NotFound: there is no such session.
            StorageFull, StorageGone: nothing refers to them.
        """
        await self._whole(self._keep(tenant, session_id, blobs))

    async def _whole(self, work: Coroutine[Any, Any, R]) -> R:
        """In a task of its own: a cancelled caller must not leave bytes without a reference, nor a lock."""
        working = asyncio.create_task(work)
        self._working.add(working)
        working.add_done_callback(self._worked)
        return await asyncio.shield(working)

    def _worked(self, working: "asyncio.Task[Any]") -> None:
        self._working.discard(working)
        if not working.cancelled():
            working.exception()  # retrieved, so that asyncio does not report it

    async def _keep(self, tenant: str, session_id: str, blobs: Sequence[Blob]) -> None:
        for blob in blobs:
            # By what is in it, not by what it says about itself.
            document_id = document_id_of((await in_thread(hashlib.sha256, blob.data)).digest())
            about = (clean_text(blob.filename), clean_text(blob.mime), len(blob.data))
            document = Document(document_id, *about, self._clock.now())
            place = place_of(tenant, document_id)
            async with self._refused_are_removed(place), self._locked(place):
                await self._files.write(place, blob.data)
                await self._database.submit(_refer_many, _Reference(tenant, session_id, document))
        if self._when_kept is not None:
            await self._when_kept(tenant, session_id)

    async def take(
        self, tenant: str, source: BinaryIO, *, filename: str, mime: str | None, admit: Admission | None = None
    ) -> Document:
        """Store an upload, which belongs to no session; durable when it returns.

        ``mime`` is the declared type; without it, the type follows from the bytes and the name. The
        same bytes are one document, and the last name they were given counts. A caller that gives
        up may close ``source``. ``admit`` is asked in the transaction that stores it, where no
        other upload can come in between.

        Raises:
            LimitReached: by ``admit``; the bytes are removed again.
            StorageFull, StorageGone: nothing refers to them.
        """
        return await self._whole(self._take(tenant, source, filename, mime, admit))

    async def _take(
        self, tenant: str, source: BinaryIO, filename: str, mime: str | None, admit: Admission | None
    ) -> Document:
        await in_thread(source.seek, 0)
        new = await self._files.prepare(tenant, source)
        try:
            measured = new.measured
            about = (filename, mime or label(filename, measured.mime), measured.size)
            taken = Document(measured.document_id, *about, self._clock.now())
            place = place_of(tenant, taken.document_id)
            async with self._refused_are_removed(place), self._locked(place):
                await new.place()
                await self._database.submit(upload_many, _Reference(tenant, _UPLOADED, taken, admit))
        finally:
            await new.discard()
        return taken

    @asynccontextmanager
    async def _refused_are_removed(self, place: Place) -> AsyncIterator[None]:
        try:
            yield
        except (NotFound, LimitReached):
            await self._release([place])
            raise

    def _locked(self, *places: Place) -> AbstractAsyncContextManager[None]:
        return self._database.locked(*(f"document:{folder}/{document_id}" for folder, document_id in places))

    async def drop(self, tenant: str, document_id: str) -> None:
        """Give up an upload; its bytes stay for as long as a session refers to them.

        Raises:
            Conflict: only sessions refer to it.
        """
        if not await self._database.submit(drop_many, (tenant, document_id), urgent=True):
            problem = "this file belongs to a session and goes with it: delete the session"
            raise Conflict(problem, code="file_in_use")
        await self.release(tenant, [document_id])

    async def find(self, tenant: str, document_id: str) -> Document | None:
        """The row of a document of this tenant; None if there is none."""
        return await self._database.read(lambda tx: find_document(tx, tenant, document_id))

    async def read(self, tenant: str, document_id: str) -> bytes:
        """All of it at once.

        Raises:
            NotFound: this tenant has no such document.
            CorruptStore: its file is gone.
        """
        return b"".join([piece async for piece in self.pieces(tenant, document_id)])

    async def pieces(self, tenant: str, document_id: str) -> AsyncIterator[bytes]:
        """The same, piece by piece, for what is sent on."""
        found = await self.find(tenant, document_id)
        if found is None:
            raise NotFound("document", document_id, remedy="it was deleted, or belongs to another tenant")
        async with aclosing(self._pieces(tenant, found)) as pieces:
            async for piece in pieces:
                yield piece

    async def _pieces(self, tenant: str, document: Document) -> AsyncGenerator[bytes, None]:
        try:
            async with aclosing(self._files.pieces(place_of(tenant, document.document_id), document.size)) as pieces:
                async for piece in pieces:
                    yield piece
        except FileNotFoundError as error:
            raise _lost(document) from error

    @asynccontextmanager
    async def as_file(self, tenant: str, document: Document) -> AsyncIterator[Path]:
        """A file for a process that reads the document, for as long as the block lasts."""
        try:
            async with self._files.as_file(place_of(tenant, document.document_id), document.size) as path:
                yield path
        except FileNotFoundError as error:
            raise _lost(document) from error

    async def is_utf8(self, tenant: str, document: Document) -> bool:
        """Whether the bytes of a document can be read as UTF-8, all of them."""
        decoder = codecs.getincrementaldecoder("utf-8")()
        try:
            async with aclosing(self._pieces(tenant, document)) as pieces:
                async for piece in pieces:
                    decoder.decode(piece)
            decoder.decode(b"", final=True)
        except (UnicodeDecodeError, CorruptStore):
            return False
        return True

    async def extract(self, tenant: str, document_id: str, ext: str, first: int | None = None) -> IO[bytes]:
        """What was read in a document under this extension: at least ``first`` bytes, or all.

        Raises:
            FileNotFoundError: nothing was read in it, or it was removed.
        """
        return await self._files.open_extract(place_of(tenant, document_id), ext, first)

    async def derive(self, tenant: str, document_id: str, ext: str, data: bytes) -> bool:
        """Store an extract for as long as its document; False if the document is gone."""
        return await self._whole(self._derive(tenant, document_id, ext, data))

    async def _derive(self, tenant: str, document_id: str, ext: str, data: bytes) -> bool:
        place = place_of(tenant, document_id)
        async with self._locked(place):
            if await self.find(tenant, document_id) is None:
                return False
            await self._files.write_extract(place, ext, data)
        return True

    def of(self, tenant: str, session_id: str) -> "asyncio.Future[list[str]]":
        """The documents that a session refers to at the moment when the writer comes to this.

        What is submitted directly after it, such as a deletion, finds no others.
        """
        return self._database.submit(_documents_of, (tenant, session_id), urgent=True)

    async def give_up_uploads(self, tenant: str, session_id: str) -> None:
        """Uploads that only this session uses belong to it alone from now on."""
        await self._database.submit(_give_up_many, (tenant, session_id), urgent=True)

    async def release(self, tenant: str, document_ids: Sequence[str]) -> None:
        """Remove the bytes of these documents, as far as no session refers to them any more."""
        await self._whole(self._release([place_of(tenant, document_id) for document_id in document_ids]))

    async def _release(self, places: Sequence[Place]) -> None:
        """The rows are gone: bytes that cannot be removed now are removed later."""
        try:
            await self._remove(places)
        except (StorageFull, StorageGone) as error:
            self._left.update(places)
            logger.warning("documents_left", documents=len(places), error=error.message)

    async def remove_left(self) -> None:
        """Remove what could not be removed."""
        if left := [*self._left]:
            await self._whole(self._remove(left))
            self._left.difference_update(left)

    async def keep_swept(self) -> None:
        """Where other processes write, too: sweep now and then."""
        while self._files.is_shared:
            try:
                await self.sweep()
            except (StorageFull, StorageGone) as error:
                logger.warning("documents_not_swept", error=error.message)
            await asyncio.sleep(_SWEEP)

    async def sweep_own(self) -> None:
        """Where no other process writes: what an earlier one left is removed at once."""
        if not self._files.is_shared:
            await self.sweep()

    async def sweep(self) -> int:
        """Remove bytes that no session refers to, and half-written files; returns how many.

        A database without any document sweeps no shared place: it may be a new one at the place of another.
        """
        if self._files.is_shared and await self._database.read(_has_none):
            return 0
        before = self._clock.now() - _YOUNG
        removed = await self._files.remove_parts(before)
        async for some in self._files.stored(before):
            removed += await self._whole(self._remove(some))
        return removed

    async def _remove(self, places: Sequence[Place]) -> int:
        removed = 0
        unused = sorted(set(await self._database.read(lambda tx: _unreferred(tx, places))))
        for start in range(0, len(unused), _SLICE):
            some = unused[start : start + _SLICE]
            async with self._locked(*some):
                gone = await self._database.submit(_unnumber_unreferred, some, urgent=True)
                if gone:
                    await self._files.remove(gone)
            removed += len(gone)
        return removed


def _lost(document: Document) -> CorruptStore:
    return CorruptStore(f"the file of the document {document.document_id} is gone; restore it from a backup")


def unknown_file(document_id: str) -> NotFound:
    return NotFound("file", document_id, remedy="it was deleted, or never there")


# On the writer's thread.


def _documents_of(tx: Transaction, sessions: Sequence[tuple[str, str]]) -> list[list[str] | Exception]:
    return [[document_id for (document_id,) in tx.rows("documents_of", *session)] for session in sessions]


@locking(lambda reference: [DOCUMENTS, session_lock(reference.session_id)])
def _refer_many(tx: Transaction, references: Sequence[_Reference]) -> list[bool | Exception]:
    return [_refer(tx, reference) for reference in references]


def _refer(tx: Transaction, item: _Reference) -> bool | Exception:
    _store_reference(tx, "refer_to_document", item.tenant, item.session_id, item.document)
    place = (item.tenant, item.document.document_id, item.session_id)
    if tx.row("session_of_document", *place) is None:
        return NotFound("session", item.session_id, remedy="it was deleted, and so were its documents")
    tx.run("number_document", item.tenant, item.document.document_id)
    return True


def _store_reference(tx: Transaction, statement: str, tenant: str, session_id: str, named: Document) -> None:
    about = (named.filename, named.mime, named.size, named.created_at)
    tx.run(statement, tenant, named.document_id, session_id, *about)


def find_document(tx: Transaction, tenant: str, document_id: str) -> Document | None:
    """What is known of a document of this tenant; None for everything that is not one."""
    row = tx.row("document", tenant, document_id) if is_document_id(document_id) else None
    return None if row is None else Document(*row)


def refuse_lost(tx: Transaction, tenant: str, documents: Sequence[Document]) -> None:
    """Raise NotFound if one of them was removed meanwhile."""
    for named in documents:
        if tx.row("document", tenant, named.document_id) is None:
            raise unknown_file(named.document_id)


def refer_all(tx: Transaction, tenant: str, session_id: str, documents: Sequence[Document]) -> None:
    """Let a session refer to files that are there: their bytes stay as long as it does."""
    for named in documents:
        _store_reference(tx, "refer_to_document", tenant, session_id, named)
        tx.run("number_document", tenant, named.document_id)


@locking(lambda reference: [DOCUMENTS, Lock("limits", reference.tenant)])
def upload_many(tx: Transaction, uploads: Sequence[_Reference]) -> list[bool | Exception]:
    return [_upload(tx, upload) for upload in uploads]


def _upload(tx: Transaction, item: _Reference) -> bool | Exception:
    named = item.document
    is_new = tx.row("document", item.tenant, named.document_id) is None
    if item.admit is not None and is_new:  # equal files count once
        try:
            item.admit(tx, named.size)
        except LimitReached as refusal:
            return refusal
    _store_reference(tx, "upload_document", item.tenant, item.session_id, named)
    tx.run("number_document", item.tenant, named.document_id)
    return True


@locking(lambda _: [DOCUMENTS])
def _give_up_many(tx: Transaction, sessions: Sequence[tuple[str, str]]) -> list[int | Exception]:
    return [tx.run("give_up_uploads", *session) for session in sessions]


@locking(lambda _: [DOCUMENTS])
def drop_many(tx: Transaction, items: Sequence[tuple[str, str]]) -> list[bool | Exception]:
    return [tx.run("drop_document", *item, _UPLOADED) > 0 for item in items]


def _has_none(tx: Transaction) -> bool:
    return not tx.rows("tenants_of_documents")


def _unreferred(tx: Transaction, places: Sequence[Place]) -> list[Place]:
    tenants = {folder_name(tenant): tenant for (tenant,) in tx.rows("tenants_of_documents")}

    def is_referred(folder: str, document_id: str) -> bool:
        return folder in tenants and tx.row("document", tenants[folder], document_id) is not None

    return [place for place in places if not is_referred(*place)]


@locking(lambda _: [DOCUMENTS])
def _unnumber_unreferred(tx: Transaction, batches: Sequence[list[Place]]) -> list[list[Place] | Exception]:
    unreferred = list[list[Place] | Exception]()
    for places in batches:
        unreferred.append(gone := _unreferred(tx, places))
        for _, document_id in gone:
            tx.run("unnumber_document", document_id)
    return unreferred
