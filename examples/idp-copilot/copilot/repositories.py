"""Bare repositories: made whole or not at all, and protected by a hook that Git itself asks."""

from pathlib import Path

from . import git
from .names import Refused
from .workspace import Workspace

_HOOK = Path(__file__).parent / "hooks" / "update"
_PROTECTED = "copilot.protected"
_README = "# {name}\n\nA new project. Apply a template to it, or clone it and begin on a branch of your own.\n"


def create(workspace: Workspace, name: str, visibility: str, *, protected: bool) -> Path:
    """A new repository with a first commit on main; nothing of it can be seen before it is complete.

    Raises:
        Refused: the name cannot be one, or is taken.
    """
    target = workspace.repository(name)
    with workspace.working_on(name):
        refuse_if_taken(workspace, name)
        with workspace.making(target, name) as unfinished:
            _begin(unfinished, name, visibility)
            if protected:
                protect(unfinished, "main")
    return target


def refuse_if_taken(workspace: Workspace, name: str) -> None:
    target = workspace.repository(name)
    if target.is_symlink() or target.exists():
        what = "a repository" if (target / "HEAD").is_file() else "a file"
        raise Refused(f"there is {what} {name}.git already, and it stays as it is; take another name")


def existing(workspace: Workspace, name: str) -> Path:
    """Where the repository of this name is.

    Raises:
        Refused: there is none.
    """
    found = workspace.repository(name)
    if not (found / "HEAD").is_file():
        raise Refused(f"there is no repository {name}; create it first, with create_repository")
    return found


def protect(repository: Path, branch: str) -> None:
    """From now on no push reaches the branch, neither a new commit nor a forced one nor its deletion.

    Raises:
        Refused: there is no such branch.
    """
    if branch not in (known := git.branches(repository)):
        raise Refused(f"there is no branch {branch[:60]!r} to protect; there are: {', '.join(known)}")
    hooks = repository / "hooks"
    hooks.mkdir(exist_ok=True)
    written = hooks / ".update"
    written.write_text(_HOOK.read_text("utf-8"), "utf-8")
    written.chmod(0o755)
    written.rename(hooks / "update")
    # A user's own core.hooksPath would bypass this hook.
    git.git(repository, "config", "core.hooksPath", "hooks")
    if branch not in protected_branches(repository):
        git.git(repository, "config", "--add", _PROTECTED, branch)
    if branch == "main":  # else Git itself refuses its deletion, and does not say what to do
        git.git(repository, "config", "receive.denyDeleteCurrent", "ignore")


def protected_branches(repository: Path) -> list[str]:
    """Those that the hook keeps pushes away from."""
    settings = git.git(repository, "config", "--list", "--local", "-z").split("\0")
    return [value for name, _, value in (each.partition("\n") for each in settings) if name == _PROTECTED]


def _begin(repository: Path, name: str, visibility: str) -> None:
    git.git(repository, "init", "--quiet", "--bare", "--template=", "--initial-branch=main", str(repository))
    git.git(repository, "config", "copilot.visibility", visibility)
    git.first_commit(repository, {"README.md": _README.format(name=name)}, f"Begin {name}")
    if visibility == "public":
        (repository / "git-daemon-export-ok").touch()
    repository.chmod(0o755 if visibility == "public" else 0o700)
