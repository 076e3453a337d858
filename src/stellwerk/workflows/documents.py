"""The documents of messages, as clients read them: the original if it is small, and what was read out of it.

Reading a document takes time, and is done once. Whoever asks meanwhile waits a
little and is then told that it is not ready; reading goes on.
"""

import asyncio
from base64 import b64encode
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial

from msgspec import Struct

from stellwerk.documents.contents import INLINE, ContentItem
from stellwerk.documents.extraction import Extractor
from stellwerk.documents.extracts import Room
from stellwerk.documents.numbers import FileNumbers
from stellwerk.documents.store import DocumentStore
from stellwerk.errors import ExtractionError, StellwerkError
from stellwerk.views.workflow_shapes import FileNamed

_ALL_INLINE = 4 * 1024 * 1024
"""Bytes of documents and of what was read out of them in one answer."""
_ALL_LISTED = 2 * 1024 * 1024
"""Bytes of names and summaries in one answer, about."""
_LISTED = 300
"""Bytes that an item takes beside its name and summary."""
_PATIENCE = 10.0
PENDING = "document_pending"
NOT_SHOWN = "document_not_shown"

_Items = tuple[ContentItem, ...]
_Key = tuple[str, str, str | None]
"""Tenant, document and the name that it is asked for by; None for the last that it was given."""


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
class _Page:
    """What still fits into an answer."""

    texts: Room = field(default_factory=lambda: Room(_ALL_INLINE, INLINE))
    listed: Room = field(default_factory=lambda: Room(_ALL_LISTED, 0))

    def lists(self, items: _Items) -> bool:
        return self.listed.takes(sum(_LISTED + len(item.name) + len(item.summary) for item in items))


class Documents:
    def __init__(self, store: DocumentStore, numbers: FileNumbers, extractor: Extractor) -> None:
        self._store, self._numbers, self._extractor = store, numbers, extractor
        self._reading: dict[_Key, asyncio.Task[_Items]] = {}

    def read_ahead(self, tenant: str, document_ids: Iterable[str]) -> None:
        """Begin to read documents that somebody will want to see."""
        for document_id in document_ids:
            self._begin((tenant, document_id, None))

    async def shown(
        self, tenant: str, files: Iterable[FileNamed], url_of: Callable[[FileNamed], str]
    ) -> tuple[dict[FileNamed, WorkflowDocument], bool]:
        """Each under the name that its message has for it; and whether that is how they stay.

        What there is in each is known first, which is little. Texts are read one document after the other, and no
        more of them than is shown.
        """
        wanted = list(dict.fromkeys(files))
        numbers = await self._numbers.of(tenant, list({file.document_id for file in wanted}))
        outlines = await self._outlines(tenant, wanted)
        page, found = _Page(), dict[FileNamed, WorkflowDocument]()
        for file in wanted:
            data = await self._data(tenant, file, page.texts)
            items, problem = await self._contents(tenant, file, outlines[file], page)
            named = _named(file, numbers.get(file.document_id, 0))
            found[file] = named(data=data, data_url=url_of(file), contents=items, error=problem)
        return found, all(each.error is None or each.error.code != PENDING for each in found.values())

    async def _data(self, tenant: str, file: FileNamed, room: Room) -> str | None:
        if file.size > INLINE or not room.takes(file.size):
            return None
        try:
            return b64encode(await self._store.read(tenant, file.document_id)).decode()
        except StellwerkError:  # it was removed while we looked, or its file is gone: whoever follows the link is told
            return None

    async def _contents(
        self, tenant: str, file: FileNamed, reading: "asyncio.Task[_Items]", page: _Page
    ) -> tuple[_Items, DocumentProblem | None]:
        items, problem = _outcome(reading)
        if not page.lists(items):
            told = "this answer is full; ask for fewer messages at once, with limit"
            return (), DocumentProblem(code=NOT_SHOWN, message=told)
        if not items or not page.texts.left:
            return items, problem
        try:
            return await self._extractor.items(tenant, file.document_id, filename(file), room=page.texts), None
        except StellwerkError:  # it was removed while we looked
            return items, None

    async def _outlines(self, tenant: str, files: Iterable[FileNamed]) -> "dict[FileNamed, asyncio.Task[_Items]]":
        reading = {file: self._begin((tenant, file.document_id, filename(file))) for file in files}
        if reading:
            await asyncio.wait(reading.values(), timeout=_PATIENCE)
        return reading

    def _begin(self, key: _Key) -> "asyncio.Task[_Items]":
        if key not in self._reading:
            self._reading[key] = task = asyncio.create_task(self._extractor.outline(*key))
            task.add_done_callback(lambda done: self._done(key, done))
        return self._reading[key]

    def _done(self, key: _Key, task: "asyncio.Task[_Items]") -> None:
        del self._reading[key]
        if not task.cancelled():
            task.exception()  # looked at, in case that nobody waits for it

    async def close(self) -> None:
        for task in list(self._reading.values()):
            task.cancel()
        await asyncio.gather(*self._reading.values(), return_exceptions=True)


def _named(file: FileNamed, number: int) -> partial[WorkflowDocument]:
    """Without what is in it."""
    return partial(
        WorkflowDocument,
        id=f"doc_{file.document_id}",
        file_id=number,
        name=file.name,
        ext=file.ext,
        mime_type=file.mime,
        size=file.size,
    )


def filename(file: FileNamed) -> str:
    return f"{file.name}.{file.ext}" if file.ext else file.name


def _outcome(task: "asyncio.Task[_Items]") -> tuple[_Items, DocumentProblem | None]:
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
