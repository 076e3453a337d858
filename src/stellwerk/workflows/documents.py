"""The documents of messages, as clients read them: the original if it is small, and what was read out of it.

Reading a document takes time, and is done once. Whoever asks meanwhile waits a
little and is then told that it is not ready; reading goes on.
"""

import asyncio
from base64 import b64encode
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from msgspec import Struct
from msgspec.structs import replace

from stellwerk.documents.contents import ContentItem
from stellwerk.documents.extraction import Extractor
from stellwerk.documents.numbers import FileNumbers
from stellwerk.documents.store import DocumentStore
from stellwerk.errors import ExtractionError, StellwerkError
from stellwerk.views.workflow_shapes import FileNamed

INLINE = 256 * 1024
"""Bytes up to which a document is sent with its message."""
_ALL_INLINE = 4 * 1024 * 1024
"""Bytes of documents and of what was read out of them in one answer."""
_PATIENCE = 10.0
PENDING = "document_pending"


class DocumentProblem(Struct, frozen=True, kw_only=True):
    """Why there are no contents."""

    code: str
    message: str


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


@dataclass
class _Room:
    """What still fits into an answer."""

    left: int = _ALL_INLINE

    def takes(self, size: int) -> bool:
        if size > self.left:
            return False
        self.left -= size
        return True


class Documents:
    def __init__(self, store: DocumentStore, numbers: FileNumbers, extractor: Extractor) -> None:
        self._store, self._numbers, self._extractor = store, numbers, extractor
        self._reading: dict[tuple[str, str], asyncio.Task[tuple[ContentItem, ...]]] = {}

    def read_ahead(self, tenant: str, document_ids: Iterable[str]) -> None:
        """Begin to read documents that somebody will want to see."""
        for document_id in document_ids:
            self._begin(tenant, document_id)

    async def shown(
        self, tenant: str, files: Sequence[FileNamed], url_of: Callable[[str], str]
    ) -> tuple[dict[str, WorkflowDocument], bool]:
        """By their ids; and whether that is how they stay."""
        wanted = {file.document_id: file for file in files}
        numbers = await self._numbers.of(tenant, list(wanted))
        contents = await self._contents(tenant, list(wanted))
        room, found = _Room(), dict[str, WorkflowDocument]()
        for document_id, file in wanted.items():
            items, problem = contents[document_id]
            found[document_id] = WorkflowDocument(
                id=f"doc_{document_id}",
                file_id=numbers.get(document_id, 0),
                name=file.name,
                ext=file.ext,
                mime_type=file.mime,
                size=file.size,
                data=await self._data(tenant, file, room),
                data_url=url_of(document_id),
                contents=tuple(_fitting(item, room) for item in items),
                error=problem,
            )
        return found, all(each.error is None or each.error.code != PENDING for each in found.values())

    async def _data(self, tenant: str, file: FileNamed, room: _Room) -> str | None:
        if file.size > INLINE or not room.takes(file.size):
            return None
        try:
            return b64encode(await self._store.read(tenant, file.document_id)).decode()
        except StellwerkError:  # it was removed while we looked, or its file is gone: whoever follows the link is told
            return None

    async def _contents(
        self, tenant: str, document_ids: Sequence[str]
    ) -> dict[str, tuple[tuple[ContentItem, ...], DocumentProblem | None]]:
        reading = {document_id: self._begin(tenant, document_id) for document_id in document_ids}
        if reading:
            await asyncio.wait(reading.values(), timeout=_PATIENCE)
        return {document_id: _outcome(task) for document_id, task in reading.items()}

    def _begin(self, tenant: str, document_id: str) -> "asyncio.Task[tuple[ContentItem, ...]]":
        key = (tenant, document_id)
        if key not in self._reading:
            self._reading[key] = task = asyncio.create_task(self._extractor.items(tenant, document_id))
            task.add_done_callback(lambda done: self._done(key, done))
        return self._reading[key]

    def _done(self, key: tuple[str, str], task: "asyncio.Task[tuple[ContentItem, ...]]") -> None:
        del self._reading[key]
        if not task.cancelled():
            task.exception()  # looked at, in case that nobody waits for it

    async def close(self) -> None:
        for task in list(self._reading.values()):
            task.cancel()
        await asyncio.gather(*self._reading.values(), return_exceptions=True)


def _outcome(
    task: "asyncio.Task[tuple[ContentItem, ...]]",
) -> tuple[tuple[ContentItem, ...], DocumentProblem | None]:
    if not task.done():
        return (), DocumentProblem(code=PENDING, message="it is still being read; ask again in a few seconds")
    if task.cancelled():
        return (), DocumentProblem(code=PENDING, message="the server is shutting down; ask again when it is back")
    match task.exception():
        case None:
            return task.result(), None
        case ExtractionError() as error:
            return (), DocumentProblem(code=error.code, message=error.message)
        case StellwerkError() as error:
            return (), DocumentProblem(code=PENDING, message=error.message)
        case error:
            raise error


def _fitting(item: ContentItem, room: _Room) -> ContentItem:
    """An item in the room that there is: its own content goes first, then the end of the extract."""
    size = len(item.data or "")
    if item.data is not None and not room.takes(size):
        item = replace(item, data=None)
    letters = min(len(item.data_extracted), INLINE, room.left)
    room.takes(letters)
    if letters < len(item.data_extracted):
        short = item.data_extracted[:letters]
        item = replace(item, data_extracted=short, metadata=replace(item.metadata, truncated=True))
    return item
