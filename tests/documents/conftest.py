"""A store, and what reads its documents, for the tests of this folder."""

import io
from dataclasses import dataclass
from pathlib import Path

import pytest

from stellwerk.database.sqlite import Sqlite
from stellwerk.documents.contents import ContentItem
from stellwerk.documents.extraction import LIMITS, Extractor, Limits
from stellwerk.documents.store import DocumentStore
from tests.samples import TENANT, SteadyClock


@dataclass
class Desk:
    store: DocumentStore
    folder: Path

    def __post_init__(self) -> None:
        self.extractor = Extractor(self.store)

    def limited(self, limits: Limits = LIMITS) -> "Desk":
        desk = Desk(self.store, self.folder)
        desk.extractor = Extractor(self.store, limits)
        return desk

    async def take(self, name: str, data: bytes) -> str:
        return (await self.store.take(TENANT, io.BytesIO(data), filename=name, mime=None)).document_id

    async def read(self, name: str, data: bytes) -> tuple[ContentItem, ...]:
        return await self.extractor.items(TENANT, await self.take(name, data))

    def files(self) -> list[str]:
        return sorted(path.name for path in self.folder.rglob("*") if path.is_file())


@pytest.fixture
def desk(database: Sqlite, tmp_path: Path) -> Desk:
    folder = tmp_path / "documents"
    return Desk(DocumentStore(database, folder, SteadyClock()), folder)
