"""Documents of a graph's session, given by the user or made by tools, with their contents.

The log says which there are, so they are the same after a crash, in another process and for
every agent of the session.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from stellwerk.agents.runtime.context import SessionDocuments, run_context
from stellwerk.envelope.model import Document, decode
from stellwerk.envelope.payloads import Filed
from stellwerk.errors import ExtractionError, InvalidField, SettingsError
from stellwerk.workflows.documents.contents import ContentItem
from stellwerk.workflows.documents.extraction import extractor_of


@dataclass(frozen=True, slots=True)
class SessionDocument:
    """A document of the session."""

    document_id: str
    name: str
    mime: str
    size: int
    message_id: str | None = None
    """The message that it belongs to: the user's, or the result of a task."""

    @property
    def ext(self) -> str:
        return PurePosixPath(self.name).suffix.lstrip(".").lower()


class ReadableDocuments:
    def __init__(self, session: SessionDocuments) -> None:
        self._session, self._tenant = session, session.tenant
        self._extractor = extractor_of(session.store)

    async def listed(self) -> list[SessionDocument]:
        """In the order of the log; of several under one name the newest is last."""
        if (journal := run_context().journal) is not None:
            await journal.stored()  # so that documents made just now are in the log
        place = (self._session.session_id, 0, self._tenant)
        rows = await self._session.database.read(lambda tx: tx.rows("documents_told", *place))
        known = dict[SessionDocument, None]()
        for _, body in rows:
            envelope = decode(body)
            assert isinstance(envelope, Document)
            filed = envelope.payload
            if filed.action == "added":
                about = (filed.name, filed.mime, filed.size, filed.message_id)
                added = SessionDocument(filed.document_id, *about)
                known.pop(added, None)
                known[added] = None
            else:
                known = {each: None for each in known if not _is_taken_back(each, filed)}
        return list(known)

    async def find(self, wanted: str) -> SessionDocument:
        return find_in(await self.listed(), wanted)

    async def items(self, known: SessionDocument) -> Sequence[ContentItem]:
        return await self._extractor.items(self._tenant, known.document_id, known.name)

    async def sum_up(self, known: SessionDocument, summaries: Mapping[int, str]) -> None:
        """Store the summaries of items, by their numbers, that a model wrote."""
        await self._extractor.sum_up(self._tenant, known.document_id, known.name, summaries)

    async def data(self, known: SessionDocument) -> bytes:
        """The original."""
        return await self._session.store.read(self._tenant, known.document_id)

    async def summaries(self, some: Iterable[SessionDocument]) -> list[tuple[SessionDocument, str]]:
        """Each document once under each of its names, with its summary."""
        unique = list({(each.document_id, each.name): each for each in some}.values())
        return list(zip(unique, await asyncio.gather(*map(self.summary, unique)), strict=True))

    async def summary(self, known: SessionDocument) -> str:
        """A sentence about the document, also if it cannot be read."""
        try:
            items = await self._extractor.outline(self._tenant, known.document_id, known.name)
        except ExtractionError as error:
            return f"cannot be read: {error.message}"
        more = f" (and {len(items) - 1} more parts)" if len(items) > 1 else ""
        return f"{items[0].summary}{more}" if items else "empty"


def find_in(known: Sequence[SessionDocument], wanted: str) -> SessionDocument:
    """A document by id or name; of several with the same name the newest.

    Raises:
        InvalidField: there is none; names those that there are.
    """
    exact = [each for each in known if wanted in (each.document_id, each.name)]
    fitting = exact or [each for each in known if wanted.casefold() == each.name.casefold()]
    if fitting:
        return fitting[-1]
    there = ", ".join(dict.fromkeys(each.name for each in known)) or "none"
    raise InvalidField(f"there is no document {wanted[:80]!r} here; there are: {there}", field="document")


def listed(known: SessionDocument, summary: str) -> str:
    """A document in one line, as agents read it."""
    return f"- {' '.join(known.name.split())} ({known.document_id}): {' '.join(summary.split())}"


def _is_taken_back(known: SessionDocument, filed: Filed) -> bool:
    return known.document_id == filed.document_id and filed.message_id in (None, known.message_id)


def current_documents() -> ReadableDocuments | None:
    """The documents of the current session; None outside of a server."""
    session = run_context().documents
    return None if session is None else ReadableDocuments(session)


def required_documents() -> ReadableDocuments:
    """Like ``current_documents``; raises SettingsError outside of a server."""
    found = current_documents()
    if found is None:
        raise SettingsError(
            "there is no place for documents here: this run has no session in a server; "
            "start one with `stellwerk serve`, or use `stellwerk workflow run`"
        )
    return found
