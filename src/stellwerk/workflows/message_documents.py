"""Documents of messages for clients: the original if it is small, and its extracted contents.

Extraction takes time and is done once. A request waits for it for up to ten seconds; then the
document is reported as pending, and extraction goes on.
"""

import asyncio
from base64 import b64encode
from collections.abc import Callable, Iterable
from contextlib import suppress

from msgspec import Struct

from stellwerk.documents.store import DocumentStore, FileNumbers
from stellwerk.errors import ExtractionError, StellwerkError
from stellwerk.workflows.documents.contents import INLINE, ContentItem, TextBudget
from stellwerk.workflows.documents.extraction import extractor_of
from stellwerk.workflows.views.workflow import FileReference

_ALL_INLINE = 4 * 1024 * 1024
"""Bytes of originals and extracted texts in one response."""
_ALL_LISTED = 2 * 1024 * 1024
"""Bytes of names and summaries in one response, about."""
_LISTED = 300
"""Bytes that an item takes beside its name and summary."""
_WAIT = 10.0
PENDING = "document_pending"
NOT_SHOWN = "document_not_shown"

_Items = tuple[ContentItem, ...]
_Outline = tuple[_Items, "DocumentProblem | None"]
_Key = tuple[str, str, str | None]
"""Tenant, document, and its name in the message; None for the last name that it was given."""


class DocumentProblem(Struct, frozen=True):
    """Why there are no contents."""

    code: str
    message: str


_FULL = DocumentProblem(NOT_SHOWN, "this answer is full; ask for fewer messages at once, with limit")


class WorkflowDocument(Struct, frozen=True, kw_only=True, rename="camel"):
    id: str
    file_id: int
    name: str
    ext: str
    mime_type: str
    size: int
    data: str | None
    """Base64; null if it is too large to be sent along."""
    data_url: str
    """Where the bytes are, whether they are here or not."""
    contents: tuple[ContentItem, ...]
    error: DocumentProblem | None


class MessageDocuments:
    def __init__(self, store: DocumentStore, numbers: FileNumbers) -> None:
        self._store, self._numbers = store, numbers
        self._extractor = extractor_of(store)
        self._reading: dict[_Key, asyncio.Task[_Outline]] = {}

    def read_ahead(self, tenant: str, document_ids: Iterable[str]) -> None:
        """Start the extraction of documents that will be requested."""
        for document_id in document_ids:
            self._begin((tenant, document_id, None))

    async def shown(
        self, tenant: str, files: Iterable[FileReference], url_of: Callable[[FileReference], str]
    ) -> tuple[dict[FileReference, WorkflowDocument], bool]:
        """The documents under the names of their messages, and whether that is final.

        Outlines, which are small, are read first. Texts are read one document after the other, and
        no more of them than the response has room for.
        """
        wanted = list(dict.fromkeys(files))
        if not wanted:
            return {}, True
        numbers = await self._numbers.of(tenant, list({file.document_id for file in wanted}))
        reading = {file: self._begin((tenant, file.document_id, filename(file))) for file in wanted}
        await asyncio.wait(reading.values(), timeout=_WAIT)
        texts, listed = TextBudget(_ALL_INLINE, INLINE), TextBudget(_ALL_LISTED)
        found = dict[FileReference, WorkflowDocument]()
        for file, task in reading.items():
            data = await self._data(tenant, file, texts)
            items, problem = _outcome(task)
            if not listed.takes(sum(_LISTED + len(item.name) + len(item.summary) for item in items)):
                items, problem = (), _FULL
            elif items and texts.left:
                with suppress(StellwerkError):  # removed meanwhile
                    named = (file.document_id, filename(file))
                    items = await self._extractor.items(tenant, *named, room=texts)
            found[file] = WorkflowDocument(
                id=f"doc_{file.document_id}",
                file_id=numbers.get(file.document_id, 0),
                name=file.name,
                ext=file.ext,
                mime_type=file.mime,
                size=file.size,
                data=data,
                data_url=url_of(file),
                contents=items,
                error=problem,
            )
        is_final = all(each.error is None or each.error.code != PENDING for each in found.values())
        return found, is_final

    async def _data(self, tenant: str, file: FileReference, room: TextBudget) -> str | None:
        if file.size > INLINE or not room.takes(file.size):
            return None
        try:
            return b64encode(await self._store.read(tenant, file.document_id)).decode()
        except StellwerkError:  # removed meanwhile: the link answers 404
            return None

    def _begin(self, key: _Key) -> "asyncio.Task[_Outline]":
        if key not in self._reading:
            self._reading[key] = task = asyncio.create_task(self._outline(key))
            task.add_done_callback(lambda _: self._reading.pop(key))
        return self._reading[key]

    async def _outline(self, key: _Key) -> _Outline:
        try:
            return await self._extractor.outline(*key), None
        except ExtractionError as error:
            return (), DocumentProblem(error.code, error.message)
        except StellwerkError as error:
            return (), DocumentProblem(PENDING, error.message)

    async def close(self) -> None:
        for task in list(self._reading.values()):
            task.cancel()
        await asyncio.gather(*self._reading.values(), return_exceptions=True)


def filename(file: FileReference) -> str:
    return f"{file.name}.{file.ext}" if file.ext else file.name


def _outcome(task: "asyncio.Task[_Outline]") -> _Outline:
    if not task.done():
        return (), DocumentProblem(PENDING, "it is still being read; ask again in a few seconds")
    if task.cancelled():
        return (), DocumentProblem(PENDING, "the server is shutting down; ask again when it is back")
    return task.result()
