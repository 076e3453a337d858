"""Backups: a data folder copied while its server runs, and put into an empty folder again.

First the database, as it is at one moment; then the documents which that copy
names. These never change, but one may be removed in between: then the database
is copied anew. What is derived is left out, and made anew from the log by the
server that starts on it. The master key is left out, too: whoever has it and the
database can read the secrets. Whatever else lies in the folder, such as files of
tools and databases of graphs, is copied as it is found.
"""

import hashlib
import json
import os
import shutil
import sqlite3
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import stellwerk
from stellwerk.client.showing import concluded
from stellwerk.database.folder import DATABASE, DOCUMENTS, begin_for_owner, for_owner, locked
from stellwerk.documents.files import folder_name
from stellwerk.envelope.shapes import document_id_of
from stellwerk.errors import SettingsError
from stellwerk.tenants.master_key import FILE as MASTER_KEY
from stellwerk.tenants.master_key import KeyFile
from stellwerk.terminal.outlet import Outlet

MARK = "backup.json"
"""Written last: a folder without it is no backup, or half of one."""
_LOCK = "lock"
_SQLITE = b"SQLite format 3\x00"
_BESIDE = ("-wal", "-shm", "-journal", ".ballast")
_AGAIN = 20
"""Copies of the database that are made before somebody is told that too much is being deleted."""
_DERIVED = ("standing", "overview")
_PAGES = 1000
_STEPS = 100_000
"""Of a statement, after which Python may hear of Ctrl-C."""


def tell_backup(data: Path, target: Path) -> int:
    """Make a backup and say so; returns the exit code."""

    def work() -> None:
        documents = backup(data, target)
        said = f", but not {MASTER_KEY}: keep that elsewhere" if (data / MASTER_KEY).exists() else ""
        Outlet(sys.stdout).write(f"{target} holds {data} with {documents} documents{said}\n")

    return concluded(work)


def tell_restored(source: Path, data: Path) -> int:
    """Restore a backup and say so; returns the exit code."""

    def work() -> None:
        documents = restore(source, data)
        Outlet(sys.stdout).write(
            f"{data} holds what {source} held, with {documents} documents; start it with --data {data}\n"
        )

    return concluded(work)


def backup(data: Path, target: Path) -> int:
    """Copy a data folder, whose server may be running, and return how many documents it names.

    If it fails, or is ended by Ctrl-C, nothing of it is left.

    Raises:
        SettingsError: there is nothing to copy, nowhere to put it, or it cannot be copied.
    """
    if not (data / DATABASE).is_file():
        raise SettingsError(f"there is no database in {data}; name the data folder with --data")
    _must_be_empty(target, "a backup goes into a folder of its own")
    if data.resolve() in target.resolve().parents:
        raise SettingsError(f"{target} lies in {data}, and would be in every later backup; name a folder elsewhere")
    try:
        held = _held(target)
        target.mkdir(mode=0o700, parents=True, exist_ok=held is not None)
        with _whole(target, held):
            documents = _copy_log(data, target)
            for path in _others(data):
                _copy(path, target / path.relative_to(data), _as_of_a_moment)
            made = {"stellwerk": stellwerk.__version__, "documents": len(documents)}
            os.sync()
            with open(target / MARK, "x", encoding="utf-8", opener=for_owner) as mark:
                mark.write(json.dumps(made) + "\n")
    except (OSError, sqlite3.Error) as error:
        raise SettingsError(f"cannot copy {data} to {target}: {error}; there is no backup") from error
    return len(documents)


def restore(source: Path, data: Path) -> int:
    """Put a backup into an empty folder and return how many documents it names; each is compared with its digest.

    The backup stays as it is. If it fails, or is ended by Ctrl-C, nothing of it is left in the folder.

    Raises:
        SettingsError: it is no backup, it is damaged, or there is something in the folder already.
    """
    if not (source / MARK).is_file():
        raise SettingsError(f"{source} is no backup, or one that was not finished: it has no {MARK}")
    _must_be_empty(data, "a backup is restored into an empty folder, so that nothing is lost or mixed")
    if source.resolve() in data.resolve().parents:
        raise SettingsError(f"{data} lies in the backup {source}, which stays as it is; name a folder elsewhere")
    try:
        documents = _named(source / DATABASE)
        for place in documents:
            _check(source / DOCUMENTS / place)
        held = _held(data)
        with locked(data), _whole(data, held):
            for path in _walk(source):
                if path.name not in (MARK, DATABASE) or path.parent != source:
                    _copy(path, data / path.relative_to(source), _as_it_is)
            # The database last, and whole: without it the folder is nothing that a server would go on with.
            _copy(source / DATABASE, data / f"{DATABASE}.part", _for_owner)
            os.sync()
            (data / f"{DATABASE}.part").rename(data / DATABASE)
    except (OSError, sqlite3.Error) as error:
        raise SettingsError(f"cannot restore {source} to {data}: {error}; nothing is in {data}") from error
    return len(documents)


def _copy_log(data: Path, target: Path) -> list[str]:
    """The database, and every document that it names."""
    for _ in range(_AGAIN):
        _copy_database(data / DATABASE, target / DATABASE)
        named = _named(target / DATABASE)
        lost = [place for place in named if not _copied(data, target, place)]
        if not lost:
            _drop_what_is_derived(target / DATABASE)
            _keep_only(target / DOCUMENTS, set(named))
            return named
    raise SettingsError(f"so much is deleted in {data} that no copy is whole; try again later")


def _named(database: Path) -> list[str]:
    with _opened(database, "immutable=1") as connection:  # nobody else has it open, and nothing is put beside it
        broken = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
        if broken != "ok":
            raise SettingsError(f"the database {database} is damaged: {broken}")
        rows = connection.execute("SELECT DISTINCT tenant, document_id FROM document").fetchall()
    return [f"{folder_name(tenant)}/{document_id}" for tenant, document_id in rows]


def _copied(data: Path, target: Path, place: str) -> bool:
    """True if the document is in the backup, with what was read in it; False if it is gone."""
    original, copy = data / DOCUMENTS / place, target / DOCUMENTS / place
    if not copy.exists():
        for path in (*original.parent.glob(f"{original.name}.*"), original):  # the document last: then all is there
            _copy(path, copy.with_name(path.name), _as_it_is)
    return copy.exists()


def _keep_only(folder: Path, named: set[str]) -> None:
    """What was deleted while it was copied is in no backup."""
    for path in folder.glob("*/*"):
        if f"{path.parent.name}/{path.name.partition('.')[0]}" not in named:
            path.unlink()


def _drop_what_is_derived(database: Path) -> None:
    """The files of to-do lists are written with it: both follow from this log, and not from a later one."""
    with _opened(database, "mode=rw") as connection:
        connection.execute("PRAGMA journal_mode=DELETE")  # one file, which nothing lies beside
        for table in _DERIVED:
            connection.execute(f"DROP TABLE IF EXISTS {table}")
        connection.commit()


def _others(data: Path) -> Iterator[Path]:
    ours = (data / DATABASE, data / _LOCK, *KeyFile(data / MASTER_KEY).places())  # who has both reads the secrets
    for path in _walk(data):
        inside = path.relative_to(data).parts[0] == DOCUMENTS
        beside = path.name.endswith(_BESIDE) and not path.is_symlink()
        if path not in ours and not inside and not beside:
            yield path


def _walk(folder: Path) -> Iterator[Path]:
    """Files and links below a folder; no link is followed, and neither sockets nor pipes are files."""
    for root, folders, files in os.walk(folder):
        for name in (*files, *(name for name in folders if (Path(root) / name).is_symlink())):
            path = Path(root) / name
            if path.is_symlink() or path.is_file():
                yield path


def _copy(path: Path, copy: Path, how: Callable[[Path, Path], None]) -> None:
    """Whole or not at all: a file that is removed meanwhile is left out."""
    copy.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    part = copy.with_name(f".{copy.name}.part")
    try:
        how(path, part)
    except FileNotFoundError:
        part.unlink(missing_ok=True)
        return
    part.rename(copy)


def _for_owner(path: Path, copy: Path) -> None:
    begin_for_owner(copy)
    shutil.copyfile(path, copy)


def _as_it_is(path: Path, copy: Path) -> None:
    """Others may read what they may read where it comes from, but not before it is whole."""
    if not path.is_symlink():
        begin_for_owner(copy)
    shutil.copy2(path, copy, follow_symlinks=False)


def _as_of_a_moment(path: Path, copy: Path) -> None:
    """Somebody may be writing to it, which a database can be told apart from."""
    if not (_is_database(path) and _copied_database(path, copy)):
        _as_it_is(path, copy)


def _is_database(path: Path) -> bool:
    if path.is_symlink():
        return False
    with path.open("rb") as file:
        return file.read(len(_SQLITE)) == _SQLITE


def _copied_database(path: Path, copy: Path) -> bool:
    """False for what only looks like one, or cannot be read as one: some tool's, and no reason to give up."""
    try:
        _copy_database(path, copy)
        shutil.copymode(path, copy)
    except sqlite3.DatabaseError:
        copy.unlink(missing_ok=True)
        return False
    return True


def _copy_database(path: Path, copy: Path) -> None:
    """Page by page, as it is at one moment. Not by VACUUM: that would number rows anew, and some go by their number."""
    copy.unlink(missing_ok=True)
    begin_for_owner(copy)
    with _opened(path, "mode=ro") as connection, closing(sqlite3.connect(copy)) as made:
        connection.execute("BEGIN")
        connection.execute("SELECT 1 FROM sqlite_schema").fetchone()  # the moment; who writes need not wait
        connection.backup(made, pages=_PAGES, progress=lambda *_: None)  # in between, Python hears of Ctrl-C


@contextmanager
def _opened(path: Path, how: str) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?{how}", uri=True)) as connection:
        connection.set_progress_handler(lambda: 0, _STEPS)
        try:
            yield connection
        except sqlite3.OperationalError as error:
            code = getattr(error, "sqlite_errorcode", None)
            if code == sqlite3.SQLITE_INTERRUPT:  # Ctrl-C, of which nothing else is left
                raise KeyboardInterrupt from error
            raise


@contextmanager
def _whole(folder: Path, held: set[Path] | None) -> Iterator[None]:
    """Unless all could be done, what is put into a folder is gone again, and so is the folder if there was none."""
    _must_be_empty(folder, "somebody else has begun to use it")
    with ExitStack() as undo:
        if held is None:
            undo.callback(folder.rmdir)
        undo.callback(_remove_new, folder, held or set())
        yield
        undo.pop_all()


def _held(folder: Path) -> set[Path] | None:
    """What is in a folder that is called empty; None if there is no folder."""
    return set(folder.iterdir()) if folder.exists() else None


def _remove_new(folder: Path, held: set[Path]) -> None:
    for path in set(folder.iterdir()) - held:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


def _check(path: Path) -> None:
    with path.open("rb") as file:
        if document_id_of(hashlib.file_digest(file, "sha256").digest()) != path.name:
            raise SettingsError(f"the document {path} is damaged; restore another backup")


def _must_be_empty(folder: Path, why: str) -> None:
    if folder.exists() and (not folder.is_dir() or not all(map(_is_lock, folder.iterdir()))):
        raise SettingsError(f"{folder} is not empty; {why}")


def _is_lock(path: Path) -> bool:
    return path.name == _LOCK and path.is_file() and path.stat().st_size == 0
