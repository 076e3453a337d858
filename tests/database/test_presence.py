"""A database whose files are deleted or replaced while it is open takes nothing more, and makes no new file."""

import asyncio
import shutil
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

import pytest

from stellwerk.database.port import Transaction
from stellwerk.database.sqlite import Sqlite
from stellwerk.errors import StorageGone

pytestmark = pytest.mark.only_sqlite


def put(tx: Transaction, items: Sequence[str]) -> list[None | Exception]:
    for item in items:
        tx.run("insert_event", item, 1, "log", 0.0, b"{}")
    return [None] * len(items)


def delete_all(path: Path) -> None:
    for each in path.parent.glob(f"{path.name}*"):
        each.unlink()


def delete_log(path: Path) -> None:
    path.with_name(f"{path.name}-wal").unlink()


def delete_folder(path: Path) -> None:
    shutil.rmtree(path.parent)


def replace(path: Path) -> None:
    shutil.copy(path, path.with_name("copy"))
    path.with_name("copy").rename(path)


def move(path: Path) -> None:
    path.parent.rename(path.parent.with_name("elsewhere"))


WAYS = [delete_all, Path.unlink, delete_log, delete_folder, replace, move]


@pytest.mark.parametrize("lose", WAYS, ids=lambda way: way.__name__)
async def test_after_its_files_are_gone_no_write_is_acknowledged(tmp_path: Path, lose: Callable[[Path], None]) -> None:
    path = tmp_path / "data" / "test.db"
    path.parent.mkdir()
    database = Sqlite(path)
    await database.open()
    await database.submit(put, "before")
    lose(path)
    for urgent in (False, True):
        with pytest.raises(StorageGone, match="deleted or replaced"):
            await database.submit(put, f"after {urgent}", urgent=urgent)
    await database.close()


async def test_what_is_committed_while_the_files_go_is_not_acknowledged(tmp_path: Path) -> None:
    path = tmp_path / "test.db"
    database = Sqlite(path)
    await database.open()

    def put_and_lose(tx: Transaction, items: Sequence[str]) -> list[None | Exception]:
        delete_all(path)
        return put(tx, items)

    with pytest.raises(StorageGone):
        await database.submit(put_and_lose, "a")
    await database.close()


async def test_a_file_that_is_moved_back_is_written_again(tmp_path: Path) -> None:
    path, away = tmp_path / "test.db", tmp_path / "away"
    database = Sqlite(path)
    await database.open()
    path.rename(away)
    with pytest.raises(StorageGone):
        await database.submit(put, "refused")
    away.rename(path)
    await database.submit(put, "stored")
    await database.close()
    with closing(sqlite3.connect(path)) as stored:
        assert stored.execute("SELECT session_id FROM event").fetchall() == [("stored",)]


@pytest.mark.parametrize("lose", [delete_all, delete_folder], ids=lambda way: way.__name__)
async def test_reading_makes_no_new_file_in_the_place_of_a_deleted_one(
    tmp_path: Path, lose: Callable[[Path], None]
) -> None:
    """A new file would be a database without keys for the next start."""
    path = tmp_path / "data" / "test.db"
    path.parent.mkdir()
    database = Sqlite(path)
    await database.open()
    lose(path)
    together = [database.read(lambda tx: tx.rows("last_flush")) for _ in range(8)]
    found = await asyncio.gather(*together, return_exceptions=True)
    assert all(isinstance(each, StorageGone) for each in found)  # no reader was connected yet
    assert not path.exists()
    await database.close()
    assert not path.exists()


async def test_files_are_found_by_their_own_place_and_not_by_the_folder_of_the_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    database = Sqlite(Path("test.db"))
    await database.open()
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path / "below")  # as a tool might
    await database.submit(put, "a")
    assert await database.read(lambda tx: tx.rows("last_flush"))
    await database.close()
