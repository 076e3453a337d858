"""/files over real HTTP."""

import errno
import os
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from stellwerk.app import Parts
from stellwerk.documents.files import not_written
from stellwerk.errors import StorageFull, StorageGone
from stellwerk.settings import Settings
from stellwerk.timings import Timings
from tests.api.reading import whole_round
from tests.conftest import own_server, running_server
from tests.crash.many_readers import connect_and_never_read
from tests.crash.waiting import eventually

CSV = b"a,b\n1,2\n"


@pytest.fixture
def address(shared_address: str) -> str:
    return shared_address


async def upload(
    client: httpx2.AsyncClient, name: str = "a.csv", data: bytes = CSV, mime: str = "text/csv"
) -> dict[str, Any]:
    answer = await client.post("/files", files={"file": (name, data, mime)})
    assert answer.status_code == 201, answer.text
    return dict(answer.json())


def stored(data: Path) -> list[Path]:
    return [path for path in (data / "documents").rglob("*") if path.is_file()]


async def test_a_file_comes_back_as_it_was_sent(client: httpx2.AsyncClient) -> None:
    sent = CSV + b"5,6\n"  # no other test sends these bytes
    kept = await upload(client, data=sent)
    assert (kept["filename"], kept["mime"], kept["size"]) == ("a.csv", "text/csv", len(sent))
    found = await client.get(kept["href"])
    assert (found.status_code, found.content) == (200, sent)
    assert found.headers["content-type"] == "text/csv; charset=utf-8"
    assert found.headers["content-disposition"].startswith('attachment; filename="a.csv"')
    assert found.headers["x-content-type-options"] == "nosniff"


async def test_a_client_that_takes_nothing_of_a_download_is_disconnected(tmp_path: Path) -> None:
    timings = Timings(reader_check=0.5, tcp_keepalive={})  # a kernel may also give up, later
    async with (
        running_server(Settings(data=tmp_path), parts=Parts(timings=timings)) as address,
        httpx2.AsyncClient(base_url=address, timeout=60) as client,
    ):
        kept = await upload(client, data=bytes(16 * 1024 * 1024))
        with connect_and_never_read(address, f"/files/{kept['id']}", buffer=4096):
            await eventually(lambda: is_open(kept["id"]), within=20, what="the file is not read")
            await eventually(lambda: not is_open(kept["id"]), within=20, what="the file is still open")


def is_open(name: str) -> bool:
    """Whether this process, in which the server runs as well, has the file open."""
    return any(os.path.realpath(held).endswith(name) for held in Path("/proc/self/fd").iterdir())


@pytest.mark.parametrize("mime", ["text/html", "image/svg+xml", "application/xhtml+xml", "no type"])
async def test_nothing_that_a_browser_would_run_is_sent_as_what_it_says(client: httpx2.AsyncClient, mime: str) -> None:
    kept = await upload(client, "page.html", b"<script>alert(1)</script>\xff", mime)
    found = await client.get(kept["href"])
    assert found.headers["content-type"] == "application/octet-stream"
    assert "sandbox" in found.headers["content-security-policy"]


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("../../etc/passwd", "passwd"),
        ("C:\\temp\\a.txt", "a.txt"),
        ("..", "file"),
        ("Übung „eins“.txt", "Übung „eins“.txt"),
        ("\u202egpj.exe", "gpj.exe"),
        ("x" * 300 + ".txt", "x" * 196 + ".txt"),
    ],
)
async def test_a_name_is_text_to_show_and_nothing_else(client: httpx2.AsyncClient, name: str, shown: str) -> None:
    kept = await upload(client, name)
    assert kept["filename"] == shown
    found = await client.get(kept["href"])
    assert found.content == CSV
    assert "\n" not in found.headers["content-disposition"]


async def test_the_same_bytes_are_stored_once_and_go_with_the_last_reference(tmp_path: Path) -> None:
    async with own_server(Settings(data=tmp_path)) as client:
        first, second = await upload(client, "one.csv"), await upload(client, "two.csv")
        assert (first["fileId"], second["fileId"]) == (1, 1)
        assert (first["id"], second["filename"], len(stored(tmp_path))) == (second["id"], "two.csv", 1)
        assert (await client.delete(first["href"])).status_code == 204
        assert stored(tmp_path) == []
        for answer in (await client.get(first["href"]), await client.delete(first["href"])):
            assert (answer.status_code, answer.json()["code"]) == (404, "unknown_file")


async def test_an_upload_outlives_a_restart(tmp_path: Path) -> None:
    settings = Settings(data=tmp_path)
    async with own_server(settings) as client:
        kept = await upload(client)
    async with own_server(settings) as client:
        assert (await client.get(kept["href"])).content == CSV


async def test_a_file_of_a_session_goes_with_the_session_and_not_before(client: httpx2.AsyncClient, sid: str) -> None:
    await whole_round(client, sid, "file please")
    artifact = (await client.get(f"/sessions/{sid}/artifacts")).json()["artifacts"][-1]
    assert (await client.get(artifact["href"])).content.startswith(b"# Report")
    refused = await client.delete(artifact["href"])
    assert (refused.status_code, refused.json()["code"]) == (409, "file_in_use")
    await upload(client, "mine.md", (await client.get(artifact["href"])).content)
    await client.delete(f"/sessions/{sid}")
    assert (await client.get(artifact["href"])).status_code == 200
    assert (await client.delete(artifact["href"])).status_code == 204
    assert (await client.get(artifact["href"])).status_code == 404


async def test_an_empty_file_is_a_file(client: httpx2.AsyncClient) -> None:
    kept = await upload(client, "empty", b"", "application/octet-stream")
    assert (await client.get(kept["href"])).content == b""


async def test_a_missing_type_is_guessed_for_the_label_only(client: httpx2.AsyncClient) -> None:
    text = "ä".encode() * 200_000
    assert (await upload(client, "a", text, "application/octet-stream"))["mime"] == "text/plain"
    assert (await upload(client, "b", b"%PDF-1.7", ""))["mime"] == "application/pdf"
    sheet = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
    for sent in ("application/zip", "application/octet-stream", "application/x-zip-compressed"):
        assert (await upload(client, "c.xlsx", b"PK\x03\x04", sent))["mime"] == sheet


async def test_only_text_that_is_utf8_is_said_to_be(client: httpx2.AsyncClient) -> None:
    kept = await upload(client, "a.md", "Grüße\n".encode("latin-1"), "text/markdown")
    assert (await client.get(kept["href"])).headers["content-type"] == "text/markdown"


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_file_that_is_too_large_is_refused_and_leaves_nothing(tmp_path: Path, streamed: bool) -> None:
    boundary = b"--x\r\n"
    head = b'Content-Disposition: form-data; name="file"; filename="big"\r\n\r\n'

    async def body() -> AsyncIterator[bytes]:
        yield boundary + head
        for _ in range(40):
            yield b"x" * 64 * 1024
        yield b"\r\n--x--\r\n"

    settings = Settings(data=tmp_path, file_limit=2 * 1024 * 1024)
    headers = {"Content-Type": "multipart/form-data; boundary=x"}
    async with own_server(settings) as client:
        content = body() if streamed else b"".join([piece async for piece in body()])
        answer = await client.post("/files", content=content, headers=headers)
        assert (answer.status_code, answer.json()["code"]) == (413, "too_large")
        assert stored(tmp_path) == []
        assert (await upload(client, "ok", b"y" * 1_900_000))["size"] == 1_900_000


MULTIPART = "multipart/form-data; boundary=x"


@pytest.mark.parametrize(
    ("kind", "content", "status"),
    [
        ("application/json", b"{}", 415),
        (MULTIPART, b"", 422),
        (MULTIPART, b"garbage", 400),
        (MULTIPART, b'--x\r\nContent-Disposition: form-data; name="file"\r\n\r\nno name\r\n--x--\r\n', 422),
        (MULTIPART, b"--x\r\n" + b"A: b\r\n" * 100_000 + b"\r\n\r\n--x--\r\n", 400),
        (MULTIPART, b'--x\r\nContent-Disposition: form-data; name="a"\r\n\r\nb\r\n' * 20 + b"--x--\r\n", 400),
        ("multipart/form-data", b"--x\r\n", 400),
    ],
)
async def test_a_form_without_a_file_is_refused(
    client: httpx2.AsyncClient, kind: str, content: bytes, status: int
) -> None:
    answer = await client.post("/files", content=content, headers={"Content-Type": kind})
    assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json"), answer.text
    assert "JSON" not in answer.json()["detail"]


@pytest.mark.parametrize("name", ["x", "..%2f..%2fstellwerk.db", "%00", "a" * 22])
async def test_an_unknown_file_is_404(client: httpx2.AsyncClient, name: str) -> None:
    assert (await client.get(f"/files/{name}")).status_code == 404


async def test_a_form_that_cannot_be_written_is_not_reported_as_a_full_disk(
    client: httpx2.AsyncClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
    refused = await client.post("/files", files={"file": ("a.bin", b"x" * 2**21)})
    assert (refused.status_code, refused.json()["code"]) == (503, "storage_gone")
    assert "No such file or directory; look at the folder for temporary files" in refused.json()["detail"]


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_only_a_full_disk_is_called_one(number: int) -> None:
    assert isinstance(not_written(OSError(number, "no"), "here"), StorageFull)
    assert isinstance(not_written(OSError(errno.EACCES, "no"), "here"), StorageGone)
