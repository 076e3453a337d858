"""The document store on a real database and real files: kept once, for as long as a session refers to it."""

import stat
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from stellwerk.database.port import Database
from stellwerk.documents.files import FolderFiles
from stellwerk.documents.port import extract_name, is_document_id, place_of
from stellwerk.documents.store import DocumentStore
from stellwerk.envelope.introspection import make_blob
from stellwerk.errors import CorruptStore, NotFound, StorageGone
from stellwerk.log.durable import DurableLog
from stellwerk.log.log import CreateSession
from stellwerk.log.notify import WakeUps
from tests.samples import TENANT, SteadyClock

REPORT = make_blob(b"# Report\n", mime="text/markdown", filename="report.md")


@dataclass
class Kept:
    store: DocumentStore
    log: DurableLog
    folder: Path

    async def sessions(self, *ids: str, tenant: str = TENANT) -> None:
        for session_id in ids:
            await self.log.create(CreateSession(tenant, session_id, "demo", 1.0))

    def files(self) -> list[Path]:
        return [path for path in self.folder.rglob("*") if path.is_file()]


@pytest.fixture
async def kept(database: Database, tmp_path: Path) -> Kept:
    folder = tmp_path / "documents"
    return Kept(DocumentStore(database, FolderFiles(folder), SteadyClock()), DurableLog(database, WakeUps()), folder)


async def test_only_its_owner_can_read_the_file(kept: Kept) -> None:
    await kept.sessions("s1")
    await kept.store.keep(TENANT, "s1", [REPORT])
    (file,) = kept.files()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700


async def test_what_a_crash_left_half_written_is_swept_away(kept: Kept, database: Database) -> None:
    await kept.sessions("s1")
    await kept.store.keep(TENANT, "s1", [REPORT])
    half = kept.files()[0].parent / "part-of-a-former-process"
    half.write_bytes(b"#")
    whole = kept.files()[0].parent / ("x" * 22)
    whole.write_bytes(b"written, but never referred to")
    assert await DocumentStore(database, FolderFiles(kept.folder), SteadyClock()).sweep() == 2
    assert [path.read_bytes() for path in kept.files()] == [REPORT.data]


@pytest.mark.parametrize(
    "filename", ["../../etc/passwd", "/etc/passwd", "..", "a\0b", "C:\\x", "x" * 5000, "", "\ud800", "a\nb"]
)
async def test_a_hostile_name_is_only_text(kept: Kept, filename: str) -> None:
    await kept.sessions("s1")
    blob = replace(REPORT, filename=filename)
    await kept.store.keep(TENANT, "s1", [blob])
    assert await kept.store.read(TENANT, REPORT.document_id) == REPORT.data
    (file,) = kept.files()
    assert file.parent.parent == kept.folder


async def test_bytes_that_lie_about_their_id_are_stored_under_their_own(kept: Kept) -> None:
    await kept.sessions("s1")
    await kept.store.keep(TENANT, "s1", [replace(REPORT, document_id="../" * 7 + "x", digest="/")])
    (file,) = kept.files()
    assert file.name == REPORT.document_id


HOSTILE_IDS = [
    "",
    ".",
    "..",
    "../../../etc/passwd",
    "/etc/passwd",
    "a" * 21,
    "a" * 23,
    "a" * 21 + "/",
    "é" * 22,
    "\ud800" * 22,
]


@pytest.mark.parametrize("document_id", HOSTILE_IDS)
async def test_a_hostile_id_leads_nowhere(kept: Kept, document_id: str) -> None:
    assert await kept.store.find(TENANT, document_id) is None
    with pytest.raises(NotFound, match="there is no document"):
        await kept.store.read(TENANT, document_id)


@given(tenant=st.text(), document_id=st.text() | st.from_regex(r"[0-9A-Za-z./]{22}") | st.sampled_from(HOSTILE_IDS))
def test_no_tenant_and_no_id_lead_out_of_the_folder(tenant: str, document_id: str) -> None:
    if is_document_id(document_id):
        path = FolderFiles(Path("/documents")).path(place_of(tenant, document_id))
        assert path.parent.parent == Path("/documents")
        assert ".." not in path.parts
    else:
        with pytest.raises(ValueError, match="is no id of a document"):
            place_of(tenant, document_id)


async def test_a_missing_file_is_reported_as_damage(kept: Kept) -> None:
    await kept.sessions("s1")
    await kept.store.keep(TENANT, "s1", [REPORT])
    kept.files()[0].unlink()
    with pytest.raises(CorruptStore, match="restore it from a backup"):
        await kept.store.read(TENANT, REPORT.document_id)


async def test_a_folder_that_cannot_be_written_is_an_error_and_nothing_is_referred_to(kept: Kept) -> None:
    await kept.sessions("s1")
    kept.folder.write_text("in the way")
    with pytest.raises(StorageGone, match="documents cannot be written"):
        await kept.store.keep(TENANT, "s1", [REPORT])
    assert await kept.store.find(TENANT, REPORT.document_id) is None


async def test_an_extract_that_cannot_be_placed_leaves_no_file(kept: Kept) -> None:
    await kept.sessions("s1")
    await kept.store.keep(TENANT, "s1", [REPORT])
    (file,) = kept.files()
    file.with_name(extract_name(file.name, "md")).mkdir()  # in the way
    with pytest.raises(StorageGone, match="documents cannot be written"):
        await kept.store.derive(TENANT, REPORT.document_id, "md", b"what was read")
    assert [file.name for file in kept.files()] == [REPORT.document_id]


FULL = """
import sys
from pathlib import Path
import asyncio
from stellwerk.documents.files import FolderFiles
from stellwerk.documents.port import place_of
from stellwerk.errors import StorageFull
folder = Path(sys.argv[1])
try:
    asyncio.run(FolderFiles(folder).write(place_of("local", "a" * 22), bytes(2 << 20)))
except StorageFull:
    sys.stdout.write(f"full, {len([path for path in folder.rglob('*') if path.is_file()])} files")
"""


def test_a_full_disk_is_reported_and_leaves_no_partial_file(tmp_path: Path) -> None:
    """On a file system of one mebibyte, in a mount namespace where even an ordinary user may mount one."""
    script = 'mount -t tmpfs -o size=1m none "$1" && exec "$2" -c "$3" "$1"'
    command = ["unshare", "--map-root-user", "--mount", "sh", "-c", script, "sh", str(tmp_path), sys.executable, FULL]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "full, 0 files"
