"""A backup taken under load restores to a server in which every session is complete up to a position."""

import asyncio
import os
import shutil
import signal
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

import httpx2
import pytest

from stellwerk.documents.port import folder_name
from stellwerk.errors import SettingsError
from stellwerk.ops.backup import MARK, _opened, backup, restore
from stellwerk.ops.offline import make_key
from stellwerk.settings import Settings
from tests.commands import Command
from tests.conftest import own_server, server_beside

pytestmark = pytest.mark.only_sqlite

Log = dict[str, list[tuple[int, bytes]]]


def log_of(data: Path) -> Log:
    found: Log = {}
    with closing(sqlite3.connect(data / "stellwerk.db")) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        connection.execute("BEGIN")  # a server may write meanwhile
        for (sid,) in connection.execute("SELECT id FROM session").fetchall():
            found[sid] = connection.execute(
                "SELECT position, body FROM event WHERE session_id = ? ORDER BY position", (sid,)
            ).fetchall()
        heads = dict(connection.execute("SELECT id, last_position FROM session").fetchall())
    assert {sid: [position for position, _ in envelopes] for sid, envelopes in found.items()} == {
        sid: list(range(1, head + 1)) for sid, head in heads.items()
    }
    return found


async def talking(client: httpx2.AsyncClient, words: str, rounds: int) -> None:
    sid = (await client.post("/sessions", json={"agent_system_id": "demo"})).json()["id"]
    for n in range(rounds):
        upload = (await client.post("/files", files={"file": ("a.txt", f"{sid} {n}".encode())})).json()
        sent = await client.post(f"/sessions/{sid}/messages", json={"text": words, "documents": [upload["id"]]})
        assert sent.status_code == 202, sent.text
        if words != "slow":
            after = {"until": "run_end", "after": str(sent.json()["after"])}
            await client.get(f"/sessions/{sid}/stream", params=after)
    if words == "table":  # deleted while others are copied
        await client.delete(f"/sessions/{sid}")


async def loaded(client: httpx2.AsyncClient, data: Path, folder: Path) -> list[Path]:
    """Backups that were made one after the other, all of them while runs were under way."""
    await client.post("/sessions", json={"agent_system_id": "demo"})
    load = [
        asyncio.create_task(talking(client, words, rounds))
        for words, rounds in (("slow", 1), ("file", 2), ("table", 1), ("plan", 1), ("weather", 2))
    ]
    made = [folder / str(n) for n in range(2)]
    for target in made:
        await asyncio.to_thread(backup, data, target)
    await asyncio.gather(*load)
    return made


async def test_a_backup_under_load_restores_to_sessions_that_are_complete_up_to_a_position(tmp_path: Path) -> None:
    data, again = tmp_path / "data", tmp_path / "again"
    async with own_server(Settings(data=data)) as client:
        backups = await loaded(client, data, tmp_path / "backups")
        await asyncio.to_thread(backup, data, tmp_path / "last")
        for sid in log_of(data):
            await stopped(client, sid)
    whole = log_of(data)
    for made in (*backups, tmp_path / "last"):
        for sid, envelopes in log_of(made).items():
            assert sid not in whole or envelopes == whole[sid][: len(envelopes)]
    assert log_of(tmp_path / "last").keys() == whole.keys()

    await asyncio.to_thread(restore, tmp_path / "last", again)
    under_way = {
        sid
        for sid, envelopes in log_of(again).items()
        if envelopes and not envelopes[-1][1].startswith(b'{"type":"run_end"')
    }
    assert under_way
    async with own_server(Settings(data=again)) as client:
        for sid in whole:
            await stopped(client, sid)
        await every_document_can_be_read(client, again)
    for sid, envelopes in log_of(again).items():
        kept = log_of(tmp_path / "last")[sid]
        assert envelopes[: len(kept)] == kept
        assert not envelopes or envelopes[-1][1].startswith(b'{"type":"run_end"')


async def stopped(client: httpx2.AsyncClient, sid: str) -> None:
    """What was cut off goes on at the start; half a minute of it need not be awaited."""
    assert (await client.post(f"/sessions/{sid}/stop")).json()["status"] in ("idle", "completed", "stopped")


async def every_document_can_be_read(client: httpx2.AsyncClient, data: Path) -> None:
    with closing(sqlite3.connect(data / "stellwerk.db")) as connection:
        named = connection.execute("SELECT DISTINCT document_id, size FROM document").fetchall()
    assert len(named) >= 6
    for document_id, size in named:
        answer = await client.get(f"/files/{document_id}")
        assert (answer.status_code, len(answer.content)) == (200, size)


async def test_what_tools_and_graphs_keep_is_in_it_and_neither_locks_nor_deleted_documents_are(tmp_path: Path) -> None:
    data, made, again = tmp_path / "data", tmp_path / "made", tmp_path / "again"
    async with own_server(Settings(data=data)) as client:
        await client.post("/files", files={"file": ("a.txt", b"kept")})
        gone = (await client.post("/files", files={"file": ("b.txt", b"gone")})).json()["id"]
        await client.delete(f"/files/{gone}")
        (data / "tenants/acme").mkdir(parents=True)
        (data / "tenants/acme/notes.txt").write_text("a tool's own")
        (data / "tenants/acme/fake.db").write_bytes(b"SQLite format 3\x00 it is not")
        (data / "link").symlink_to("/etc/hostname")
        with closing(sqlite3.connect(data / "tool.db")) as tool:
            tool.execute("PRAGMA journal_mode=WAL")
            tool.execute("CREATE TABLE t (x)")
            tool.execute("INSERT INTO t VALUES (1)")
            tool.commit()  # in its WAL, and not in the file itself
            assert await asyncio.to_thread(backup, data, made) == 1
    assert (data / "master.key").is_file(), "which must not lie beside what it opens"
    in_it = set(made.rglob("*"))
    assert restore(made, again) == 1
    assert set(made.rglob("*")) == in_it, "which stays as it is, also where a graph's store was open"
    names = {path.relative_to(again).as_posix() for path in again.rglob("*") if not path.is_dir()}
    kept = {name for name in names if name.startswith("documents/")}
    assert len(kept) == 1 and all(name.startswith(f"documents/{folder_name('local')}/") for name in kept)
    others = {"stellwerk.db", "lock", "store.db", "tool.db", "link", "tenants/acme/notes.txt", "tenants/acme/fake.db"}
    assert names - kept == others
    assert (again / "link").is_symlink()
    assert again.stat().st_mode & 0o777 == 0o700
    with closing(sqlite3.connect(again / "tool.db")) as tool:
        assert tool.execute("SELECT x FROM t").fetchall() == [(1,)]


@pytest.fixture
def open_umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def seen_by_others(folder: Path) -> set[str]:
    """Files that other users may read."""
    files = [path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()]
    assert files
    return {path.relative_to(folder).as_posix() for path in files if path.stat().st_mode & 0o077}


async def test_serve_backup_and_restore_make_files_for_their_owner_alone_also_in_a_folder_of_others(
    tmp_path: Path, open_umask: None, command: Command
) -> None:
    data, made, again = (tmp_path / name for name in ("data", "made", "again"))
    for folder in (data, made, again):
        folder.mkdir(mode=0o755)
    with server_beside(Settings(data=data)) as address:
        async with httpx2.AsyncClient(base_url=address, timeout=60) as client:
            await client.post("/files", files={"file": ("a.txt", b"kept")})
            await client.put("/secrets/token", json={"value": "sk-Canary-7"})
            await talking(client, "weather", 1)
        assert {"stellwerk.db", "stellwerk.db-wal", "lock"} <= {path.name for path in data.iterdir()}
        assert seen_by_others(data) == set()
        (data / "report.html").write_text("a tool's own, for all to read")
        (data / "report.html").chmod(0o644)
        assert command("backup", str(made), "--data", str(data)).returncode == 0
    assert {path.name for path in made.iterdir()} >= {"stellwerk.db", "store.db", MARK}
    assert seen_by_others(made) == {"report.html"}
    (made / "stellwerk.db").chmod(0o644)  # as an earlier version made it
    assert command("restore", str(made), "--data", str(again)).returncode == 0
    assert seen_by_others(again) == {"report.html"}


async def test_what_is_no_backup_or_damaged_is_refused_and_nothing_is_overwritten(
    tmp_path: Path, command: Command
) -> None:
    data, made = tmp_path / "data", tmp_path / "made"
    assert "no database" in (await asyncio.to_thread(command, "backup", str(made), "--data", str(data))).stderr
    async with own_server(Settings(data=data)) as client:
        await client.post("/files", files={"file": ("a.txt", b"bytes")})
    done = await asyncio.to_thread(command, "backup", str(made), "--data", str(data))
    assert (done.returncode, done.stderr) == (0, "") and "1 documents" in done.stdout
    again = await asyncio.to_thread(command, "restore", str(made), "--data", str(tmp_path / "again"))
    assert (again.returncode, again.stderr) == (0, "")
    for refused, why in (
        (("backup", str(made), "--data", str(data)), "is not empty"),
        (("restore", str(made), "--data", str(data)), "is not empty"),
        (("restore", str(data), "--data", str(tmp_path / "new")), "is no backup"),
    ):
        done = await asyncio.to_thread(command, *refused)
        assert done.returncode == 2 and why in done.stderr
    with pytest.raises(SettingsError, match="in every later backup"):
        backup(data, data / "backups" / "monday")
    with pytest.raises(SettingsError, match="lies in the backup"):
        restore(made, made / "again")
    (tmp_path / "theirs" / "lock").mkdir(parents=True)
    for use in (partial(backup, data), partial(restore, made)):
        with pytest.raises(SettingsError, match="is not empty"):
            use(tmp_path / "theirs")
    (document,) = (made / "documents").glob("*/*")
    document.write_bytes(b"other")
    with pytest.raises(SettingsError, match="damaged"):
        restore(made, tmp_path / "new")
    document.unlink()
    with pytest.raises(SettingsError, match="cannot restore"):
        restore(made, tmp_path / "newer")
    (made / MARK).unlink()
    with pytest.raises(SettingsError, match="is no backup"):
        restore(made, tmp_path / "newest")


def _press_ctrl_c(*_copied: Path, **_wished: bool) -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)  # the test runner may ignore it
    signal.raise_signal(signal.SIGINT)


@pytest.mark.parametrize("there", [False, True], ids=["a new folder", "an empty folder"])
def test_ctrl_c_leaves_neither_half_a_backup_nor_half_a_restored_folder(
    there: bool, tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, made, again = tmp_path / "data", tmp_path / "made", tmp_path / "again"
    asyncio.run(make_key(data, {"name": "me", "role": "admin"}))
    (data / "tenants" / "acme").mkdir(parents=True)
    (data / "tenants" / "acme" / "notes.txt").write_text("a tool's own")
    if there:
        made.mkdir()
        again.mkdir()

    def interrupted(*arguments: str, place: Path) -> None:
        with monkeypatch.context() as patched:
            patched.setattr(shutil, "copy2", _press_ctrl_c)
            done = command(*arguments, "--data", str(data if place == made else again))
        assert (done.returncode, done.stdout, done.stderr) == (130, "", "")
        assert place.exists() == there and not (there and list(place.iterdir()))

    interrupted("backup", str(made), place=made)
    backup(data, made)
    held = {path: path.stat().st_mtime_ns for path in made.rglob("*")}
    interrupted("restore", str(made), place=again)
    restore(made, again)
    assert {path: path.stat().st_mtime_ns for path in made.rglob("*")} == held


def test_ctrl_c_ends_a_statement_that_takes_long(tmp_path: Path) -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)  # the test runner may ignore it
    long = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 30000000) SELECT count(*) FROM n"
    with pytest.raises(KeyboardInterrupt) as raised, _opened(tmp_path / "any.db", "mode=rwc") as connection:
        threading.Timer(0.1, signal.raise_signal, [signal.SIGINT]).start()
        connection.execute(long).fetchone()
    assert isinstance(raised.value.__cause__, sqlite3.OperationalError), "it ended before the key was looked at"
