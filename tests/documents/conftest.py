"""Document stores for the tests of this folder: in a folder, and in an object store."""

import io
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from stellwerk.database.port import Database
from stellwerk.documents.files import FolderFiles
from stellwerk.documents.places import files_at
from stellwerk.documents.port import Files
from stellwerk.documents.store import DocumentStore
from stellwerk.ids import SystemClock
from stellwerk.log.durable import DurableLog
from stellwerk.log.log import CreateSession
from stellwerk.log.notify import WakeUps
from stellwerk.workflows.documents.contents import ContentItem
from stellwerk.workflows.documents.extraction import LIMITS, Extractor, Limits
from tests.documents.object_store import BUCKET, ObjectStore, running_object_store
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
    return DocumentReader(DocumentStore(database, FolderFiles(folder), SteadyClock()), folder)


class DayAfterTomorrow(SystemClock):
    """What was written just now is old for this clock."""

    def now(self) -> float:
        return super().now() + 2 * 86_400


@dataclass
class Kept:
    store: DocumentStore
    log: DurableLog
    files: Files
    database: Database

    def __post_init__(self) -> None:
        self.later = DocumentStore(self.database, self.files, DayAfterTomorrow())
        """The same store two days later, for which nothing is young."""

    async def sessions(self, *ids: str, tenant: str = TENANT) -> None:
        for session_id in ids:
            await self.log.create(CreateSession(tenant, session_id, "demo", 1.0))

    async def stored(self) -> list[str]:
        """The ids of all documents whose bytes are there."""
        after_all = SystemClock().now() + 86_400
        return sorted({document_id async for some in self.files.stored(after_all) for _, document_id in some})


@pytest.fixture(scope="session")
def object_store() -> Iterator[ObjectStore]:
    with running_object_store() as found:
        yield found


@pytest.fixture
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str | None:
    """The setting of a place: none, a folder that machines share, or an object store."""
    match request.param:
        case "folder":
            return None
        case "shared":
            return str(tmp_path / "shared")
    request.getfixturevalue("object_store").show(monkeypatch)
    return f"s3://{BUCKET}/{tmp_path.name}"


@pytest.fixture
async def kept(place: str | None, database: Database, tmp_path: Path) -> Kept:
    files = files_at(place, tmp_path / "documents")
    return Kept(DocumentStore(database, files, SteadyClock()), DurableLog(database, WakeUps()), files, database)
