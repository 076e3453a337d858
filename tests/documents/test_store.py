"""The document store on a real database and real files: kept once, for as long as a session refers to it."""

import asyncio
import io
import os
import stat
import subprocess
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from stellwerk.database.port import Database
from stellwerk.documents.files import Files, is_document_id
from stellwerk.documents.store import Document, DocumentStore, FileNumbers
from stellwerk.envelope.introspection import Blob, make_blob
from stellwerk.errors import CorruptStore, NotFound, StorageGone
from stellwerk.log.durable import DurableLog
from stellwerk.log.log import CreateSession
from stellwerk.log.notify import WakeUps
from tests.crash.waiting import eventually
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
    return Kept(DocumentStore(database, folder, SteadyClock()), DurableLog(database, WakeUps()), folder)


async def test_what_was_kept_can_be_found_and_read(kept: Kept) -> None:
    await kept.sessions("s1")
    await kept.store.keep(TENANT, "s1", [REPORT])
    found = await kept.store.find(TENANT, REPORT.document_id)
    assert found == Document(REPORT.document_id, "report.md", "text/markdown", 9, created_at=1.0)
    assert await kept.store.read(TENANT, REPORT.document_id) == REPORT.data


async def test_a_large_one_comes_in_pieces(kept: Kept) -> None:
    await kept.sessions("s1")
    large = make_blob(os.urandom(1_000_000), mime="application/octet-stream", filename="large.bin")
    await kept.store.keep(TENANT, "s1", [large])
    pieces = [piece async for piece in kept.store.pieces(TENANT, large.document_id)]
    assert len(pieces) == 16
    assert b"".join(pieces) == large.data


async def test_only_its_owner_can_read_the_file(kept: Kept) -> None:
    await kept.sessions("s1")
    await kept.store.keep(TENANT, "s1", [REPORT])
    (file,) = kept.files()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700


async def test_the_same_bytes_of_two_sessions_are_one_file_until_the_last_session_is_deleted(kept: Kept) -> None:
    await kept.sessions("s1", "s2")
    for session_id in ("s1", "s2", "s2"):
        await kept.store.keep(TENANT, session_id, [REPORT])
    assert len(kept.files()) == 1
    await kept.log.delete(TENANT, "s1", at=2.0)
    assert await kept.store.sweep() == 0
    assert await kept.store.read(TENANT, REPORT.document_id) == REPORT.data
    await kept.log.delete(TENANT, "s2", at=3.0)
    assert await kept.store.find(TENANT, REPORT.document_id) is None
    assert await kept.store.sweep() == 1
    assert kept.files() == []


async def test_a_tenant_sees_only_its_own(kept: Kept) -> None:
    await kept.sessions("s1")
    await kept.sessions("s2", tenant="other")
    await kept.store.keep(TENANT, "s1", [REPORT])
    assert await kept.store.find("other", REPORT.document_id) is None
    with pytest.raises(NotFound, match="there is no document"):
        await kept.store.read("other", REPORT.document_id)
    await kept.store.keep("other", "s2", [REPORT])
    await kept.log.delete(TENANT, "s1", at=2.0)
    assert await kept.store.sweep() == 1, "the same bytes of another tenant are another file"
    assert await kept.store.read("other", REPORT.document_id) == REPORT.data


async def test_a_deleted_session_cannot_get_documents_any_more(kept: Kept) -> None:
    await kept.sessions("s1")
    await kept.log.delete(TENANT, "s1", at=2.0)
    with pytest.raises(NotFound, match="there is no session 's1'"):
        await kept.store.keep(TENANT, "s1", [REPORT])
    assert await kept.store.find(TENANT, REPORT.document_id) is None
    assert kept.files() == [], "what was written for it is gone at once"


async def test_a_deleted_session_takes_no_number(kept: Kept, database: Database) -> None:
    await kept.sessions("s1", "s2")
    await kept.log.delete(TENANT, "s1", at=2.0)
    with pytest.raises(NotFound):
        await kept.store.keep(TENANT, "s1", [make_blob(b"late", mime="text/plain", filename="late.txt")])
    await kept.store.keep(TENANT, "s2", [REPORT])
    assert await FileNumbers(database).of(TENANT, [REPORT.document_id]) == {REPORT.document_id: 1}


async def test_a_session_that_comes_too_late_takes_nothing_from_others(kept: Kept) -> None:
    await kept.sessions("s1", "s2")
    await kept.log.delete(TENANT, "s1", at=2.0)
    await kept.store.keep(TENANT, "s2", [REPORT])
    with pytest.raises(NotFound):
        await kept.store.keep(TENANT, "s1", [REPORT])
    assert await kept.store.read(TENANT, REPORT.document_id) == REPORT.data


async def test_sweeping_while_others_keep_takes_nothing_from_them(kept: Kept) -> None:
    """The same bytes are forgotten by one session and kept by the next, again and again, while the broom goes round."""
    blobs = [make_blob(str(n).encode(), mime="text/plain", filename="n.txt") for n in range(3)]

    async def come_and_go(number: int) -> None:
        for turn in range(4):
            session_id = f"s{number}-{turn}"
            await kept.sessions(session_id)
            await kept.store.keep(TENANT, session_id, blobs)
            for blob in blobs:
                assert await kept.store.read(TENANT, blob.document_id) == blob.data
            await kept.log.delete(TENANT, session_id, at=2.0)

    async def sweep() -> None:
        while True:
            await kept.store.sweep()

    broom = asyncio.create_task(sweep())
    await asyncio.gather(*(come_and_go(number) for number in range(4)))
    broom.cancel()
    with pytest.raises(asyncio.CancelledError):
        await broom
    await kept.store.sweep()
    assert kept.files() == []


async def test_what_a_crash_left_half_written_is_swept_away(kept: Kept, database: Database) -> None:
    await kept.sessions("s1")
    await kept.store.keep(TENANT, "s1", [REPORT])
    half = kept.files()[0].parent / "part-of-a-former-process"
    half.write_bytes(b"#")
    whole = kept.files()[0].parent / ("x" * 22)
    whole.write_bytes(b"written, but never referred to")
    assert await DocumentStore(database, kept.folder, SteadyClock()).sweep() == 2
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
        path = Files(Path("/documents")).path(tenant, document_id)
        assert path.parent.parent == Path("/documents")
        assert ".." not in path.parts
    else:
        with pytest.raises(ValueError, match="is no id of a document"):
            Files(Path("/documents")).path(tenant, document_id)


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


async def test_many_are_kept_at_once(kept: Kept) -> None:
    await kept.sessions(*(f"s{n}" for n in range(10)))
    blobs: Sequence[Blob] = [make_blob(bytes([n]) * 99, mime="text/plain", filename=f"{n}.txt") for n in range(10)]
    await asyncio.gather(*(kept.store.keep(TENANT, f"s{n}", blobs) for n in range(10)))
    assert [await kept.store.read(TENANT, blob.document_id) for blob in blobs] == [blob.data for blob in blobs]
    assert len(kept.files()) == 10


async def test_an_extract_that_cannot_be_placed_leaves_no_file(kept: Kept) -> None:
    await kept.sessions("s1")
    await kept.store.keep(TENANT, "s1", [REPORT])
    kept.store.derived(TENANT, REPORT.document_id, "md").mkdir()  # in the way
    with pytest.raises(IsADirectoryError):
        await kept.store.derive(TENANT, REPORT.document_id, "md", b"what was read")
    assert [file.name for file in kept.files()] == [REPORT.document_id]


class Held(io.BytesIO):
    """A file that is not to be had before somebody lets it go."""

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self.begun, self.go_on = threading.Event(), threading.Event()

    def read(self, size: int | None = -1, /) -> bytes:
        self.begun.set()
        assert self.go_on.wait(60)
        return super().read(size)


async def test_an_upload_whose_sender_gives_up_is_whole_and_referred_to_all_the_same(kept: Kept) -> None:
    source = Held(REPORT.data)
    taking = asyncio.create_task(kept.store.take(TENANT, source, filename="report.md", mime=None))
    assert await asyncio.to_thread(source.begun.wait, 60)
    taking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await taking
    source.go_on.set()

    async def is_there() -> bool:
        return await kept.store.find(TENANT, REPORT.document_id) is not None

    await eventually(is_there, within=60, what="nobody refers to it")
    assert await kept.store.read(TENANT, REPORT.document_id) == REPORT.data


FULL = """
import sys
from pathlib import Path
from stellwerk.documents.files import Files
from stellwerk.envelope.introspection import make_blob
from stellwerk.errors import StorageFull
folder = Path(sys.argv[1])
try:
    Files(folder).write("local", make_blob(bytes(2 << 20), mime="text/plain", filename="a.txt"))
except StorageFull:
    sys.stdout.write(f"full, {len([path for path in folder.rglob('*') if path.is_file()])} files")
"""


def test_a_full_disk_is_reported_and_leaves_no_partial_file(tmp_path: Path) -> None:
    """On a file system of one mebibyte, in a mount namespace where even an ordinary user may mount one."""
    script = 'mount -t tmpfs -o size=1m none "$1" && exec "$2" -c "$3" "$1"'
    command = ["unshare", "--map-root-user", "--mount", "sh", "-c", script, "sh", str(tmp_path), sys.executable, FULL]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "full, 0 files"
