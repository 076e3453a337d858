"""What every place for documents must do: the data folder's own, a folder that machines share, and an object store."""

import asyncio
import io
import os
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from stellwerk.database.locks import NamedLocks
from stellwerk.database.port import Database
from stellwerk.documents.places import files_at
from stellwerk.documents.port import folder_name
from stellwerk.documents.store import Document, DocumentStore, FileNumbers
from stellwerk.envelope.introspection import Blob, make_blob
from stellwerk.errors import CorruptStore, NotFound, SettingsError, StorageGone
from stellwerk.ids import SystemClock
from stellwerk.workflows.documents.extraction import Extractor
from tests.crash.waiting import eventually
from tests.documents.conftest import Kept
from tests.documents.object_store import BUCKET, ObjectStore, User, line_to
from tests.samples import TENANT, SteadyClock

REPORT = make_blob(b"# Report\n", mime="text/markdown", filename="report.md")
EVERYWHERE = pytest.mark.parametrize("place", ["folder", "shared", "s3"], indirect=True)
SHARED = pytest.mark.parametrize("place", ["shared", "s3"], indirect=True)
FOLDER = folder_name(TENANT)


class Held(io.BytesIO):
    """A file that is not to be had before somebody lets it go."""

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self.begun, self.go_on = threading.Event(), threading.Event()

    def read(self, size: int | None = -1, /) -> bytes:
        self.begun.set()
        assert self.go_on.wait(60)
        return super().read(size)


@EVERYWHERE
async def test_what_was_kept_can_be_found_and_read(kept: Kept) -> None:
    await kept.sessions("s1")
    await kept.store.keep(TENANT, "s1", [REPORT])
    found = await kept.store.find(TENANT, REPORT.document_id)
    assert found == Document(REPORT.document_id, "report.md", "text/markdown", 9, created_at=1.0)
    assert await kept.store.read(TENANT, REPORT.document_id) == REPORT.data


@EVERYWHERE
async def test_a_large_one_comes_in_pieces(kept: Kept) -> None:
    await kept.sessions("s1")
    large = make_blob(os.urandom(2_500_000), mime="application/octet-stream", filename="large.bin")
    await kept.store.keep(TENANT, "s1", [large])
    pieces = [piece async for piece in kept.store.pieces(TENANT, large.document_id)]
    assert max(map(len, pieces)) <= 1 << 20
    assert b"".join(pieces) == large.data


@EVERYWHERE
async def test_the_same_bytes_of_two_sessions_are_one_file_until_the_last_session_is_deleted(kept: Kept) -> None:
    await kept.sessions("s1", "s2", "s3")
    another = make_blob(b"another", mime="text/plain", filename="another.txt")
    await kept.store.keep(TENANT, "s3", [another])
    for session_id in ("s1", "s2", "s2"):
        await kept.store.keep(TENANT, session_id, [REPORT])
    assert await kept.stored() == sorted([REPORT.document_id, another.document_id])
    await kept.log.delete(TENANT, "s1", at=2.0)
    assert await kept.later.sweep() == 0
    assert await kept.store.read(TENANT, REPORT.document_id) == REPORT.data
    await kept.log.delete(TENANT, "s2", at=3.0)
    assert await kept.store.find(TENANT, REPORT.document_id) is None
    assert await kept.later.sweep() == 1
    assert await kept.stored() == [another.document_id]


@EVERYWHERE
async def test_a_tenant_sees_only_its_own(kept: Kept) -> None:
    await kept.sessions("s1")
    await kept.sessions("s2", tenant="other")
    await kept.store.keep(TENANT, "s1", [REPORT])
    assert await kept.store.find("other", REPORT.document_id) is None
    with pytest.raises(NotFound, match="there is no document"):
        await kept.store.read("other", REPORT.document_id)
    await kept.store.keep("other", "s2", [REPORT])
    await kept.log.delete(TENANT, "s1", at=2.0)
    assert await kept.later.sweep() == 1, "the same bytes of another tenant are another file"
    assert await kept.store.read("other", REPORT.document_id) == REPORT.data


@EVERYWHERE
async def test_a_deleted_session_cannot_get_documents_any_more(kept: Kept) -> None:
    await kept.sessions("s1")
    await kept.log.delete(TENANT, "s1", at=2.0)
    with pytest.raises(NotFound, match="there is no session 's1'"):
        await kept.store.keep(TENANT, "s1", [REPORT])
    assert await kept.store.find(TENANT, REPORT.document_id) is None
    assert await kept.stored() == [], "what was written for it is gone at once"


@EVERYWHERE
async def test_a_deleted_session_takes_no_number(kept: Kept, database: Database) -> None:
    await kept.sessions("s1", "s2")
    await kept.log.delete(TENANT, "s1", at=2.0)
    with pytest.raises(NotFound):
        await kept.store.keep(TENANT, "s1", [make_blob(b"late", mime="text/plain", filename="late.txt")])
    await kept.store.keep(TENANT, "s2", [REPORT])
    assert await FileNumbers(database).of(TENANT, [REPORT.document_id]) == {REPORT.document_id: 1}


@EVERYWHERE
async def test_a_session_that_comes_too_late_takes_nothing_from_others(kept: Kept) -> None:
    await kept.sessions("s1", "s2")
    await kept.log.delete(TENANT, "s1", at=2.0)
    await kept.store.keep(TENANT, "s2", [REPORT])
    with pytest.raises(NotFound):
        await kept.store.keep(TENANT, "s1", [REPORT])
    assert await kept.store.read(TENANT, REPORT.document_id) == REPORT.data


@EVERYWHERE
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
            await kept.later.sweep()

    broom = asyncio.create_task(sweep())
    await asyncio.gather(*(come_and_go(number) for number in range(4)))
    broom.cancel()
    with pytest.raises(asyncio.CancelledError):
        await broom
    await kept.store.release(TENANT, [blob.document_id for blob in blobs])
    assert await kept.stored() == []


@EVERYWHERE
async def test_many_are_kept_at_once(kept: Kept) -> None:
    await kept.sessions(*(f"s{n}" for n in range(10)))
    blobs: Sequence[Blob] = [make_blob(bytes([n]) * 99, mime="text/plain", filename=f"{n}.txt") for n in range(10)]
    await asyncio.gather(*(kept.store.keep(TENANT, f"s{n}", blobs) for n in range(10)))
    assert [await kept.store.read(TENANT, blob.document_id) for blob in blobs] == [blob.data for blob in blobs]
    assert len(await kept.stored()) == 10


@EVERYWHERE
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


@EVERYWHERE
async def test_a_large_upload_is_stored_in_pieces_and_read_by_a_process_from_a_file(kept: Kept) -> None:
    data = os.urandom(20_000_000)
    taken = await kept.store.take(TENANT, io.BytesIO(data), filename="large.bin", mime=None)
    again = await kept.store.take(TENANT, io.BytesIO(data), filename="same.bin", mime=None)
    assert again.document_id == taken.document_id
    assert await kept.store.read(TENANT, taken.document_id) == data
    async with kept.store.as_file(TENANT, taken) as path:
        assert path.read_bytes() == data


@EVERYWHERE
async def test_an_empty_upload_is_a_document(kept: Kept) -> None:
    taken = await kept.store.take(TENANT, io.BytesIO(b""), filename="empty.txt", mime=None)
    assert await kept.store.read(TENANT, taken.document_id) == b""


@EVERYWHERE
async def test_what_is_read_in_a_document_is_stored_beside_it_and_goes_with_it(kept: Kept) -> None:
    text = "The signal box sets the routes.\n" * 40_000
    taken = await kept.store.take(TENANT, io.BytesIO(text.encode()), filename="long.txt", mime=None)
    (item,) = await Extractor(kept.store).items(TENANT, taken.document_id)
    with await kept.store.extract(TENANT, taken.document_id, "txt") as whole:
        assert item.data_extracted.encode() in whole.read()
    (outline,) = await Extractor(kept.store).outline(TENANT, taken.document_id)
    assert outline.summary == item.summary
    assert await kept.store.is_utf8(TENANT, taken)
    await kept.store.drop(TENANT, taken.document_id)
    assert await kept.stored() == []
    with pytest.raises(FileNotFoundError):
        await kept.store.extract(TENANT, taken.document_id, "txt")


@EVERYWHERE
async def test_no_extract_is_stored_for_a_document_that_is_gone(kept: Kept) -> None:
    taken = await kept.store.take(TENANT, io.BytesIO(b"text"), filename="a.txt", mime=None)
    await kept.store.drop(TENANT, taken.document_id)
    assert not await kept.store.derive(TENANT, taken.document_id, "txt", b"late")
    assert await kept.stored() == []


@EVERYWHERE
async def test_bytes_that_are_lost_are_reported_and_come_back_with_the_next_upload(kept: Kept) -> None:
    await kept.sessions("s1")
    await kept.store.keep(TENANT, "s1", [REPORT])
    await kept.files.remove([some async for places in kept.files.stored(float("inf")) for some in places])
    with pytest.raises(CorruptStore, match="restore it from a backup"):
        await kept.store.read(TENANT, REPORT.document_id)
    await kept.store.keep(TENANT, "s1", [REPORT])
    assert await kept.store.read(TENANT, REPORT.document_id) == REPORT.data


@SHARED
async def test_what_another_node_may_be_writing_is_not_swept_for_a_day(kept: Kept) -> None:
    await kept.sessions("s1")
    await kept.store.keep(TENANT, "s1", [REPORT])
    await kept.files.write((FOLDER, "x" * 22), b"not referred to yet")
    now = DocumentStore(kept.database, kept.files, SystemClock())
    assert await now.sweep() == 0
    assert len(await kept.stored()) == 2
    assert await kept.later.sweep() == 1
    assert await kept.stored() == [REPORT.document_id]


@SHARED
async def test_a_new_database_sweeps_nothing_that_another_one_may_refer_to(kept: Kept) -> None:
    await kept.files.write((FOLDER, "x" * 22), b"of another server")
    assert await kept.later.sweep() == 0
    assert await kept.stored() == ["x" * 22]


@SHARED
async def test_a_server_does_not_start_where_its_documents_are_not(kept: Kept, tmp_path: Path) -> None:
    await kept.store.open()
    await kept.store.take(TENANT, io.BytesIO(b"text"), filename="a.txt", mime=None)
    await kept.store.open()
    elsewhere = DocumentStore(kept.database, files_at(str(tmp_path / "elsewhere"), tmp_path), SteadyClock())
    with pytest.raises(SettingsError, match="there are none in the folder .*elsewhere; copy them there"):
        await elsewhere.open()


def test_other_files_in_a_shared_folder_are_left_alone(tmp_path: Path) -> None:
    async def swept() -> int:
        files = files_at(str(tmp_path), tmp_path)
        return await files.remove_parts(float("inf")) + len([some async for some in files.stored(float("inf"))])

    for name in ("lost+found/x", f"{FOLDER}/.nfs0001", f"{FOLDER}/notes.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("not ours")
    assert asyncio.run(swept()) == 0


async def test_locks_by_name_are_held_by_one_caller_at_a_time_in_whatever_order_they_are_named() -> None:
    locks, holders = NamedLocks(), 0

    async def hold(*names: str) -> None:
        nonlocal holders
        async with locks.locked(*names):
            holders += 1
            assert holders == 1
            await asyncio.sleep(0)
            holders -= 1

    async with asyncio.timeout(60):
        await asyncio.gather(*(hold(*names) for names in (("a", "b"), ("b", "a"), ("a", "a")) * 5))


async def test_documents_wait_for_an_object_store_that_is_away(
    object_store: ObjectStore, database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with line_to(object_store.address) as line:
        object_store.show(monkeypatch, address=line.address)
        files = files_at(f"s3://{BUCKET}/{tmp_path.name}", tmp_path)
        store = DocumentStore(database, files, SteadyClock())
        await store.open()
        old = await store.take(TENANT, io.BytesIO(b"old"), filename="old.txt", mime=None)
        await line.cut()
        with pytest.raises(StorageGone, match=f"cannot be reached in s3://{BUCKET}/.*the store does not answer"):
            await store.take(TENANT, io.BytesIO(b"new"), filename="new.txt", mime=None)
        with pytest.raises(StorageGone):
            await store.read(TENANT, old.document_id)
        assert await FileNumbers(database).documents(TENANT, range(9)) == {1: old.document_id}
        await store.drop(TENANT, old.document_id)  # the row goes at once, the bytes when the store is back
        with pytest.raises(StorageGone):
            await store.remove_left()
        await line.mend()
        new = await store.take(TENANT, io.BytesIO(b"new"), filename="new.txt", mime=None)
        await store.remove_left()
        assert await store.find(TENANT, old.document_id) is None
        assert [place async for some in files.stored(float("inf")) for _, place in some] == [new.document_id]


async def test_an_object_store_that_cannot_be_used_is_refused_with_what_to_do(
    object_store: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key, secret = object_store.writer

    async def refusal(bucket: str, user: User | None = None, address: str | None = None) -> str:
        object_store.show(monkeypatch, user, address)
        with pytest.raises(SettingsError) as refused:
            await files_at(f"s3://{bucket}/documents", tmp_path).open()
        assert key not in str(refused.value) and secret not in str(refused.value)
        assert refused.value.__suppress_context__ or refused.value.__cause__ is None
        return str(refused.value)

    assert "in s3://nobody-made-it/documents: there is no such bucket; create it" in await refusal("nobody-made-it")
    assert "these credentials need s3:GetObject, s3:PutObject" in await refusal(BUCKET, user=object_store.reader)
    assert "look at AWS_SECRET_ACCESS_KEY" in await refusal(BUCKET, user=(key, "wrong"))
    assert "look at AWS_ACCESS_KEY_ID" in await refusal(BUCKET, user=("AKIANOBODY", secret))
    assert "the store does not answer; look at AWS_ENDPOINT_URL" in await refusal(BUCKET, address="http://127.0.0.1:1")
    for address in ("nonsense", "ftp://example.org", f"http://user:{secret}@127.0.0.1", "http://[::1"):
        assert "AWS_ENDPOINT_URL is no address" in await refusal(BUCKET, address=address)


@pytest.mark.parametrize(
    "place",
    ["s3://", "s3:///a", "s3://a", "s3://bucket/../x", "s3://key:secret@bucket", "s3://bucket?x=y", "gs://bucket"],
)
def test_what_is_no_place_for_documents_is_refused(place: str, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="a folder, or an address such as s3://bucket/prefix") as refused:
        files_at(place, tmp_path)
    assert "secret" not in str(refused.value)


async def test_a_shared_folder_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(SettingsError, match="documents cannot be kept in the folder .*file.*; name another place"):
        await files_at(str(tmp_path / "file"), tmp_path).open()


def test_without_the_extra_it_says_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "obstore.py").write_text("raise ImportError")
    text = "from pathlib import Path; from stellwerk.documents.places import files_at; "
    folder = "files_at('a-folder', Path()); "
    command = [sys.executable, "-c", f"{text}{folder}files_at('s3://bucket', Path())"]
    done = subprocess.run(command, env={"PYTHONPATH": str(tmp_path)}, capture_output=True, text=True)
    assert "pip install 'path/to/stellwerk[s3]'" in done.stderr
