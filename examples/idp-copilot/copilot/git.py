"""Git, the program, on bare repositories: with an identity of the copilot's and without anybody's configuration."""

import io
import os
import subprocess
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from .names import Refused

_TIMEOUT = 20.0
_WHO, _MAIL = "IDP Copilot", "copilot@localhost"


def git(repository: Path, *arguments: str, given: str = "", index: Path | None = None) -> str:
    """Run a command in a bare repository; what it printed, without the last line end.

    Raises:
        Refused: there is no Git, or the command failed.
    """
    printed = _run(repository, arguments, given.encode(), index)
    return printed.decode(errors="replace").removesuffix("\n")


def archived(repository: Path, commit: str) -> tarfile.TarFile:
    """All files of a commit."""
    return tarfile.open(fileobj=io.BytesIO(_run(repository, ("archive", "--format=tar", commit))))


def files(repository: Path) -> dict[str, str]:
    """Every file on main as text, by its path."""
    with archived(repository, head(repository)) as archive:
        found = ((member.name, archive.extractfile(member)) for member in archive if member.isfile())
        return {name: file.read().decode(errors="replace") for name, file in found if file}


def head(repository: Path, branch: str = "main") -> str:
    """The commit that a branch is at."""
    return git(repository, "rev-parse", "--verify", "--quiet", f"refs/heads/{branch}^{{commit}}")


def branches(repository: Path) -> list[str]:
    return git(repository, "for-each-ref", "--format=%(refname:short)", "refs/heads").splitlines()


def first_commit(repository: Path, written: Mapping[str, str], title: str) -> None:
    """Begin main with these files."""
    tree = _tree(repository, None, written)
    git(repository, "update-ref", "refs/heads/main", git(repository, "commit-tree", tree, "-m", title))


def merge(repository: Path, branch: str, written: Mapping[str, str], title: str) -> str:
    """Bring files to main like a reviewed change: a commit beside main, merged under the name of a branch.

    Returns main's commit. Nothing is done if main has all of it already. No branch of this name is made or touched,
    so that nothing but main has to move, and that at once.
    """
    base = head(repository)
    tree = _tree(repository, base, written)
    if tree == git(repository, "rev-parse", f"{base}^{{tree}}"):
        return base
    change = git(repository, "commit-tree", tree, "-p", base, "-m", title)
    merged = git(repository, "commit-tree", tree, "-p", base, "-p", change, "-m", f"Merge branch '{branch}'")
    git(repository, "update-ref", "refs/heads/main", merged, base)
    return merged


def _tree(repository: Path, base: str | None, written: Mapping[str, str]) -> str:
    """The tree of ``base`` with these files put in; the index for it is thrown away."""
    index = repository / "copilot-index"
    for left in (index, index.with_suffix(".lock")):  # left by a killed process
        left.unlink(missing_ok=True)
    try:
        if base is not None:
            git(repository, "read-tree", base, index=index)
        blobs = {path: git(repository, "hash-object", "-w", "--stdin", given=text) for path, text in written.items()}
        entries = "".join(f"100644 {blob}\t{path}\n" for path, blob in blobs.items())
        git(repository, "update-index", "--add", "--index-info", given=entries, index=index)
        return git(repository, "write-tree", index=index)
    finally:
        index.unlink(missing_ok=True)


def _run(repository: Path, arguments: Sequence[str], given: bytes = b"", index: Path | None = None) -> bytes:
    command = ["git", f"--git-dir={repository}", *arguments]
    try:
        done = subprocess.run(command, input=given, capture_output=True, env=_environment(index), timeout=_TIMEOUT)
    except FileNotFoundError as error:
        raise Refused("there is no git on this machine; ask its operator to install it") from error
    except subprocess.TimeoutExpired as error:
        raise Refused(f"git {arguments[0]} takes longer than {_TIMEOUT:g} s; try again") from error
    if done.returncode:
        raise Refused(f"git {arguments[0]} failed: {done.stderr.decode(errors='replace').strip()[-300:]}")
    return done.stdout


def _environment(index: Path | None) -> dict[str, str]:
    names = {f"GIT_{role}_{part}": value for role in ("AUTHOR", "COMMITTER") for part, value in _identity()}
    own = {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull, "LC_ALL": "C.UTF-8"}
    chosen = {} if index is None else {"GIT_INDEX_FILE": str(index)}
    return {"PATH": os.pathsep.join(os.get_exec_path()), **names, **own, **chosen}


def _identity() -> tuple[tuple[str, str], ...]:
    return ("NAME", _WHO), ("EMAIL", _MAIL)
