"""The document store: bytes in files, and rows that say which session refers to them.

Bytes are written first and referred to afterwards; they go with the last session that refers to
them. The database's one writer decides both, so that neither can overtake the other.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Coroutine, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from stellwerk.database.port import Database, Operation, R, Transaction
from stellwerk.documents import files
from stellwerk.documents.files import Files, derived_from, document_of, folder_name, is_document_id
from stellwerk.documents.mimes import label
from stellwerk.envelope.introspection import Blob
from stellwerk.envelope.to_json import clean_text
from stellwerk.errors import Conflict, CorruptStore, LimitReached, NotFound
from stellwerk.ids import Clock
from stellwerk.threads import in_thread

Listener = Callable[[str, str], Awaitable[None]]  # gets tenant and session of what was stored
Admission = Callable[[Transaction, int], None]  # raises LimitReached if these bytes are too many
_PIECE = 64 * 1024
_UPLOADED = ""
"""In the place of a session id: an upload."""
_SLICE = 100
"""Files checked in one transaction."""


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
    path: Path
    admit: Admission | None = None


_Extract = tuple[str, str, Path, Path]
"""Tenant and document, the file that was written, and its final path."""


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
    def __init__(self, database: Database, folder: Path, clock: Clock, when_kept: Listener | None = None) -> None:
        self._database, self._clock, self._when_kept = database, clock, when_kept
        self._files = Files(folder)
        self._keeping: set[asyncio.Task[Any]] = set()
        self.extensions: dict[type, Any] = {}
        """One object of each type that plug-ins keep for as long as the store."""

    async def keep(self, tenant: str, session_id: str, blobs: Sequence[Blob]) -> None:
        """Store bytes for a session; durable when it returns. Repeating it changes nothing.

        Raises:
            NotFound: there is no such session.
            StorageFull, StorageGone: nothing refers to them.
        """
        await self._whole(self._keep(tenant, session_id, blobs))

    async def _whole(self, writing: Coroutine[Any, Any, R]) -> R:
        """In a task of its own: a cancelled caller must not leave bytes without a reference."""
        keeping = asyncio.create_task(writing)
        self._keeping.add(keeping)
        keeping.add_done_callback(self._kept)
        return await asyncio.shield(keeping)

    def _kept(self, keeping: "asyncio.Task[Any]") -> None:
        self._keeping.discard(keeping)
        if not keeping.cancelled():
            keeping.exception()  # retrieved, so that asyncio does not report it

    async def _keep(self, tenant: str, session_id: str, blobs: Sequence[Blob]) -> None:
        for blob in blobs:
            referred = False
            while not referred:  # the last session with these bytes may be deleted just now
                path = await in_thread(self._files.write, tenant, blob)
                about = (clean_text(blob.filename), clean_text(blob.mime), len(blob.data))
                document = Document(path.name, *about, self._clock.now())
                reference = _Reference(tenant, session_id, document, path)
                referred = await self._refer(_refer_many, reference)
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
        while True:  # the last reference to these bytes may be removed at this very moment
            await in_thread(source.seek, 0)
            copied = await in_thread(self._files.copy, tenant, source)
            called = mime or label(filename, copied.mime)
            taken = Document(copied.path.name, filename, called, copied.size, self._clock.now())
            reference = _Reference(tenant, _UPLOADED, taken, copied.path, admit)
            if await self._refer(upload_many, reference):
                return taken

    async def _refer(self, operation: Operation[_Reference, bool], reference: _Reference) -> bool:
        """False if the bytes were removed meanwhile; if they are refused, they are removed."""
        try:
            return await self._database.submit(operation, reference)
        except (NotFound, LimitReached):
            await self.release(reference.tenant, [reference.path.name])
            raise

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
        if await self.find(tenant, document_id) is None:
            raise NotFound("document", document_id, remedy="it was deleted, or belongs to another tenant")
        try:
            # Not in a thread: a cancelled caller would leave it open.
            file = self.path(tenant, document_id).open("rb")
        except FileNotFoundError as error:
            problem = f"the file of the document {document_id} is gone; restore it from a backup"
            raise CorruptStore(problem) from error
        with file:
            while piece := await in_thread(file.read, _PIECE):
                yield piece

    def path(self, tenant: str, document_id: str) -> Path:
        """The path of a document that was found, for a process that reads it."""
        return self._files.path(tenant, document_id)

    async def is_utf8(self, tenant: str, document_id: str) -> bool:
        """Whether the bytes of a document that was found can be read as UTF-8, all of them."""
        return await in_thread(files.is_utf8, self.path(tenant, document_id))

    def derived(self, tenant: str, document_id: str, ext: str) -> Path:
        """The path of the extract of a document under this extension."""
        return derived_from(self.path(tenant, document_id), ext)

    async def derive(self, tenant: str, document_id: str, ext: str, data: bytes) -> bool:
        """Store an extract for as long as its document; False if the document is gone."""
        return await self._whole(self._derive(tenant, document_id, ext, data))

    async def _derive(self, tenant: str, document_id: str, ext: str, data: bytes) -> bool:
        part = await in_thread(self._files.part, tenant, data)
        try:
            target = self.derived(tenant, document_id, ext)
            return await self._database.submit(_place_many, (tenant, document_id, part, target))
        finally:
            part.unlink(missing_ok=True)  # it was renamed, or is not needed

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
        await self._remove([self.path(tenant, document_id) for document_id in document_ids])

    async def sweep(self) -> int:
        """Remove bytes that no session refers to, and half-written files; returns how many."""
        return await self._remove(await in_thread(lambda: list(self._files.everything())))

    async def _remove(self, paths: Iterable[Path]) -> int:
        left = iter(paths)
        removed = 0
        while some := list(islice(left, _SLICE)):
            removed += await self._database.submit(_remove_unreferred, some, urgent=True)
        return removed


def unknown_file(document_id: str) -> NotFound:
    return NotFound("file", document_id, remedy="it was deleted, or never there")


# On the writer's thread.


def _place_many(tx: Transaction, items: Sequence[_Extract]) -> list[bool | Exception]:
    """True if the extract is stored beside its document; False if that was removed."""
    placed = list[bool | Exception]()
    for tenant, document_id, part, target in items:
        is_there = tx.row("document", tenant, document_id) is not None
        if is_there:
            part.rename(target)
        placed.append(is_there)
    return placed


def _documents_of(tx: Transaction, sessions: Sequence[tuple[str, str]]) -> list[list[str] | Exception]:
    return [[document_id for (document_id,) in tx.rows("documents_of", *session)] for session in sessions]


def _refer_many(tx: Transaction, references: Sequence[_Reference]) -> list[bool | Exception]:
    return [_refer(tx, reference) for reference in references]


def _refer(tx: Transaction, item: _Reference) -> bool | Exception:
    if not item.path.exists():
        return False
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


def upload_many(tx: Transaction, uploads: Sequence[_Reference]) -> list[bool | Exception]:
    return [_upload(tx, upload) for upload in uploads]


def _upload(tx: Transaction, item: _Reference) -> bool | Exception:
    if not item.path.exists():
        return False
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


def _give_up_many(tx: Transaction, sessions: Sequence[tuple[str, str]]) -> list[int | Exception]:
    return [tx.run("give_up_uploads", *session) for session in sessions]


def drop_many(tx: Transaction, items: Sequence[tuple[str, str]]) -> list[bool | Exception]:
    return [tx.run("drop_document", *item, _UPLOADED) > 0 for item in items]


def _remove_unreferred(tx: Transaction, batches: Sequence[list[Path]]) -> list[int | Exception]:
    owners = {folder_name(tenant): tenant for (tenant,) in tx.rows("tenants_of_documents")}
    removed = list[int | Exception]()
    for paths in batches:
        removed.append(sum(_removed(tx, path, owners.get(path.parent.name)) for path in paths))
    return removed


def _removed(tx: Transaction, path: Path, tenant: str | None) -> bool:
    if tenant is not None and tx.row("document", tenant, document_of(path)) is not None:
        return False
    files.remove(path)
    tx.run("unnumber_document", document_of(path))
    return True
