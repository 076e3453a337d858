"""Backup and restore of a data folder; the server may run during a backup.

The database is copied first, as of one moment, then the documents that the copy names. Documents
never change, but one may be deleted in between: then the database is copied again. Derived tables
are left out; the server rebuilds them from the log. The master key is left out, because with the
database it opens the secrets. Other files in the folder, such as those of tools and the databases
of graphs, are copied as they are.
"""

import hashlib
import json
import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path

import stellwerk
from stellwerk.database.folder import DATABASE, DOCUMENTS, MASTER_KEY, begin_for_owner, for_owner, locked
from stellwerk.documents.port import folder_name
from stellwerk.envelope.introspection import document_id_of
from stellwerk.errors import SettingsError
from stellwerk.settings import in_home
from stellwerk.tenants.master_key import KeyFile

MARK = "backup.json"
"""Written last: a folder without it is not a complete backup."""
_LOCK = "lock"
_SQLITE = b"SQLite format 3\x00"
_BESIDE = ("-wal", "-shm", "-journal", ".ballast")
_AGAIN = 20
"""Attempts before the backup gives up because too much is being deleted."""
_DERIVED = ("standing", "overview")
_PAGES = 1000
_STEPS = 100_000
"""Steps of a statement between two checks for Ctrl-C."""


def backup(data: Path, target: Path, documents: str | None = None) -> int | None:
    """Copy a data folder, whose server may be running, and return how many documents it has.

    ``documents`` is the setting of this name; the result is None if they stay in an object store.
    A backup that fails or is interrupted leaves nothing behind.
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
            copied = _copy_log(data, target, documents)
            for path in _others(data):
                _copy(path, target / path.relative_to(data), _as_of_a_moment)
            made = {"stellwerk": stellwerk.__version__, "documents": copied}
            os.sync()
            with open(target / MARK, "x", encoding="utf-8", opener=for_owner) as mark:
                mark.write(json.dumps(made) + "\n")
    except (OSError, sqlite3.Error) as error:
        problem = f"cannot copy {data} to {target}: {error}"
        raise SettingsError(f"{problem}; there is no backup") from error
    return copied


def restore(source: Path, data: Path) -> int | None:
    """Restore a backup into an empty folder and return how many documents it has, as ``backup`` does.

    Each document is checked by its digest. The backup is not changed. A restore that fails or is
    interrupted leaves nothing in the folder.
    """
    if not (source / MARK).is_file():
        raise SettingsError(f"{source} is no backup, or one that was not finished: it has no {MARK}")
    _must_be_empty(data, "a backup is restored into an empty folder, so that nothing is lost or mixed")
    if source.resolve() in data.resolve().parents:
        raise SettingsError(f"{data} lies in the backup {source}, which stays as it is; name a folder elsewhere")
    try:
        documents = _named(source / DATABASE)
        has_documents = json.loads((source / MARK).read_text("utf-8"))["documents"] is not None
        for place in documents if has_documents else ():
            _check(source / DOCUMENTS / place)
        held = _held(data)
        with locked(data), _whole(data, held):
            for path in _walk(source):
                if path.name not in (MARK, DATABASE) or path.parent != source:
                    _copy(path, data / path.relative_to(source), _as_it_is)
            # The database comes last, by a rename: without it no server starts on the folder.
            _copy(source / DATABASE, data / f"{DATABASE}.part", _for_owner)
            os.sync()
            (data / f"{DATABASE}.part").rename(data / DATABASE)
    except (OSError, sqlite3.Error) as error:
        problem = f"cannot restore {source} to {data}: {error}"
        raise SettingsError(f"{problem}; nothing is in {data}") from error
    return len(documents) if has_documents else None


def _copy_log(data: Path, target: Path, documents: str | None) -> int | None:
    """Copy the database, and every document that it names if they are in a folder."""
    stay = documents is not None and "://" in documents
    folder = data / DOCUMENTS if documents is None else in_home(Path(documents))
    for _ in range(_AGAIN):
        _copy_database(data / DATABASE, target / DATABASE)
        named = [] if stay else _named(target / DATABASE)
        lost = [place for place in named if not _copied(folder, target, place)]
        if not lost:
            _drop_what_is_derived(target / DATABASE)
            _keep_only(target / DOCUMENTS, set(named))
            return None if stay else len(named)
    raise SettingsError(
        f"documents are missing in {folder}: so much is deleted that no copy is whole, and you try again later, "
        "or they are kept elsewhere, and you name the place with --documents"
    )


def _named(database: Path) -> list[str]:
    with _opened(database, "immutable=1") as connection:  # no other process uses it: no WAL is written
        broken = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
        if broken != "ok":
            raise SettingsError(f"the database {database} is damaged: {broken}")
        rows = connection.execute("SELECT DISTINCT tenant, document_id FROM document").fetchall()
    return [f"{folder_name(tenant)}/{document_id}" for tenant, document_id in rows]


def _copied(folder: Path, target: Path, place: str) -> bool:
    """Copy a document and its extracted text; False if it was deleted."""
    original, copy = folder / place, target / DOCUMENTS / place
    if not copy.exists():
        for path in (*original.parent.glob(f"{original.name}.*"), original):  # the document last
            _copy(path, copy.with_name(path.name), _as_it_is)
    return copy.exists()


def _keep_only(folder: Path, named: set[str]) -> None:
    """Remove documents that were deleted while they were copied."""
    for path in folder.glob("*/*"):
        if f"{path.parent.name}/{path.name.partition('.')[0]}" not in named:
            path.unlink()


def _drop_what_is_derived(database: Path) -> None:
    """Drop derived tables: the server rebuilds them, and to-do list files, from this log."""
    with _opened(database, "mode=rw") as connection:
        connection.execute("PRAGMA journal_mode=DELETE")  # one file, without a WAL beside it
        for table in _DERIVED:
            connection.execute(f"DROP TABLE IF EXISTS {table}")
        connection.commit()


def _others(data: Path) -> Iterator[Path]:
    ours = (data / DATABASE, data / _LOCK, *KeyFile(data / MASTER_KEY).places())
    for path in _walk(data):
        inside = path.relative_to(data).parts[0] == DOCUMENTS
        beside = path.name.endswith(_BESIDE) and not path.is_symlink()
        if path not in ours and not inside and not beside:
            yield path


def _walk(folder: Path) -> Iterator[Path]:
    """Files and links below a folder, without sockets and pipes; links are not followed."""
    for root, folders, files in os.walk(folder):
        for name in (*files, *(name for name in folders if (Path(root) / name).is_symlink())):
            path = Path(root) / name
            if path.is_symlink() or path.is_file():
                yield path


def _copy(path: Path, copy: Path, how: Callable[[Path, Path], None]) -> None:
    """Copy a file completely or not at all; one that is deleted meanwhile is left out."""
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
    """Copy with the original permissions, which are set once the copy is complete."""
    if not path.is_symlink():
        begin_for_owner(copy)
    shutil.copy2(path, copy, follow_symlinks=False)


def _as_of_a_moment(path: Path, copy: Path) -> None:
    """Copy a file that may be in use: a database as of one moment, others as they are."""
    if _is_database(path):
        with suppress(sqlite3.DatabaseError):  # it only begins like one
            _copy_database(path, copy)
            shutil.copymode(path, copy)
            return
    copy.unlink(missing_ok=True)
    _as_it_is(path, copy)


def _is_database(path: Path) -> bool:
    if path.is_symlink():
        return False
    with path.open("rb") as file:
        return file.read(len(_SQLITE)) == _SQLITE


def _copy_database(path: Path, copy: Path) -> None:
    """Copy page by page, as of one moment. VACUUM would renumber rows that are referred to."""
    copy.unlink(missing_ok=True)
    begin_for_owner(copy)
    with _opened(path, "mode=ro") as connection, closing(sqlite3.connect(copy)) as made:
        connection.execute("BEGIN")
        connection.execute("SELECT 1 FROM sqlite_schema").fetchone()  # fixes the moment
        # Between two calls of ``progress`` Python checks for Ctrl-C.
        connection.backup(made, pages=_PAGES, progress=lambda *_: None)


@contextmanager
def _opened(path: Path, how: str) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?{how}", uri=True)) as connection:
        connection.set_progress_handler(lambda: 0, _STEPS)
        try:
            yield connection
        except sqlite3.OperationalError as error:
            if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_INTERRUPT:  # by Ctrl-C
                raise KeyboardInterrupt from error
            raise


@contextmanager
def _whole(folder: Path, held: set[Path] | None) -> Iterator[None]:
    """Undo on failure: remove what was put into the folder, and the folder if it did not exist."""
    _must_be_empty(folder, "another process has begun to use it")
    with ExitStack() as undo:
        if held is None:
            undo.callback(folder.rmdir)
        undo.callback(_remove_new, folder, held or set())
        yield
        undo.pop_all()


def _held(folder: Path) -> set[Path] | None:
    """The content of a folder that counts as empty; None if there is no folder."""
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
