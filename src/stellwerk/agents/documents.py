"""The documents of the session in which a graph runs: what was given to it, and what was made in it.

Whoever drives a run opens them around the graph, as it does with the journal;
tools and workplans find them there. The log says which there are, so they are
the same after a crash, in another process and for every agent of the session.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import PurePosixPath

from stellwerk.agents.journal import current_journal
from stellwerk.database.port import Database
from stellwerk.documents.contents import ContentItem
from stellwerk.documents.extraction import Extractor
from stellwerk.documents.store import DocumentStore
from stellwerk.envelope.model import Document, decode
from stellwerk.envelope.payloads import Filed
from stellwerk.errors import CorruptStore, ExtractionError, InvalidField, NotFound, SettingsError


@dataclass(frozen=True, slots=True)
class Known:
    """A document of the session."""

    document_id: str
    name: str
    mime: str
    size: int
    message_id: str | None = None
    """Of the message that it goes with: the user's, or the one in which a task tells what it did."""

    @property
    def ext(self) -> str:
        return PurePosixPath(self.name).suffix.lstrip(".").lower()


class SessionDocuments:
    """One for each run; it reads only what the log has got since it was last asked."""

    def __init__(
        self, database: Database, store: DocumentStore, extractor: Extractor, *, tenant: str, session_id: str
    ) -> None:
        self._database, self._store, self._extractor = database, store, extractor
        self._tenant, self._session_id = tenant, session_id
        self._read_to = 0
        self._known: list[Known] = []

    async def listed(self) -> Sequence[Known]:
        """In the order in which they came; of several under one name the newest stands last."""
        if (journal := current_journal()) is not None:
            await journal.stored()  # what was made just now is in the log, too
        place = (self._session_id, self._read_to, self._tenant)
        rows = await self._database.read(lambda tx: tx.rows("documents_told", *place))
        for position, body in rows:
            if position > self._read_to:  # somebody else may have asked meanwhile
                self._read_to = position
                told = decode(body)
                assert isinstance(told, Document)
                self._take(told.payload)
        return list(self._known)

    def _take(self, told: Filed) -> None:
        known = Known(told.document_id, told.name, told.mime, told.size, told.message_id)
        gone = [known] if told.action == "added" else [each for each in self._known if _is_taken_back(each, told)]
        self._known = [each for each in self._known if each not in gone]
        if told.action == "added":
            self._known.append(known)

    async def find(self, wanted: str) -> Known:
        """By its id or its name; of several with the same name the newest.

        Raises:
            InvalidField: there is none; names those that there are.
        """
        known = await self.listed()
        for each in reversed(known):
            if wanted in (each.document_id, each.name):
                return each
        for each in reversed(known):
            if wanted.casefold() == each.name.casefold():
                return each
        there = ", ".join(dict.fromkeys(each.name for each in known)) or "none"
        raise InvalidField(f"there is no document {wanted[:80]!r} here; there are: {there}", field="document")

    async def items(self, known: Known) -> Sequence[ContentItem]:
        """What there is to read in it.

        Raises:
            ExtractionError: it cannot be read.
        """
        return await self._extractor.items(self._tenant, known.document_id, known.name)

    async def sum_up(self, known: Known, summaries: Mapping[int, str]) -> None:
        """Let what a model says of its items, by their numbers, be their summaries, for whoever reads it next."""
        await self._extractor.sum_up(self._tenant, known.document_id, known.name, summaries)

    async def data(self, known: Known) -> bytes:
        """The original."""
        return await self._store.read(self._tenant, known.document_id)

    async def size(self, document_id: str) -> int | None:
        """Bytes of a document that a message of this session names; None if it is gone."""
        found = await self._store.find(self._tenant, document_id)
        return None if found is None else found.size

    async def original(self, document_id: str) -> bytes | None:
        """The bytes of a document that a message of this session names; None if they are gone."""
        try:
            return await self._store.read(self._tenant, document_id)
        except (NotFound, CorruptStore):
            return None

    async def summary(self, known: Known) -> str:
        """What it is, in a sentence; also if it cannot be read."""
        try:
            items = await self._extractor.outline(self._tenant, known.document_id, known.name)
        except ExtractionError as error:
            return f"cannot be read: {error.message}"
        more = f" (and {len(items) - 1} more parts)" if len(items) > 1 else ""
        return f"{items[0].summary}{more}" if items else "empty"


def _is_taken_back(known: Known, told: Filed) -> bool:
    return known.document_id == told.document_id and told.message_id in (None, known.message_id)


_documents: ContextVar[SessionDocuments | None] = ContextVar("stellwerk_documents", default=None)


def documents_here() -> SessionDocuments | None:
    """None outside of a server, where there is no session to keep documents."""
    return _documents.get()


def documents_wanted() -> SessionDocuments:
    """
    Raises:
        SettingsError: there is no place for documents.
    """
    found = _documents.get()
    if found is None:
        raise SettingsError(
            "there is no place for documents here: this run has no session in a server; "
            "start one with `stellwerk serve`, or use `stellwerk workflow run`"
        )
    return found


@contextmanager
def offering(documents: SessionDocuments) -> Iterator[None]:
    """Whoever asks inside of the block gets these."""
    token = _documents.set(documents)
    try:
        yield
    finally:
        _documents.reset(token)
