"""A document store with an extractor, for the tests of this folder."""

import io
from dataclasses import dataclass
from pathlib import Path

import pytest

from stellwerk.database.port import Database
from stellwerk.documents.store import DocumentStore
from stellwerk.workflows.documents.contents import ContentItem
from stellwerk.workflows.documents.extraction import LIMITS, Extractor, Limits
from tests.samples import TENANT, SteadyClock


@dataclass
class DocumentReader:
    store: DocumentStore
    folder: Path

    def __post_init__(self) -> None:
        self.extractor = Extractor(self.store)

    def limited(self, limits: Limits = LIMITS) -> "DocumentReader":
        reader = DocumentReader(self.store, self.folder)
        reader.extractor = Extractor(self.store, limits)
        return reader

    async def take(self, name: str, data: bytes) -> str:
        return (await self.store.take(TENANT, io.BytesIO(data), filename=name, mime=None)).document_id

    async def read(self, name: str, data: bytes) -> tuple[ContentItem, ...]:
        return await self.extractor.items(TENANT, await self.take(name, data))

    def files(self) -> list[str]:
        return sorted(path.name for path in self.folder.rglob("*") if path.is_file())


@pytest.fixture
def reader(database: Database, tmp_path: Path) -> DocumentReader:
    folder = tmp_path / "documents"
    return DocumentReader(DocumentStore(database, folder, SteadyClock()), folder)
