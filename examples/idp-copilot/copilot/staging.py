"""Staging: main's head of a repository, running on a free loopback port until it is replaced or undone, or we end.

A new release is started beside the old one, and takes its place when it is
healthy; if it never is, the old one stays. Which one runs, a JSON file says.
"""

import json
import os
import shutil
import subprocess
import tarfile
import tempfile
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from . import git
from .names import Refused
from .processes import Unhealthy, end, is_running, start
from .repositories import existing
from .supervisor import APP, LOG, STATE
from .templates import Template, needed
from .workspace import Workspace

_BUILDING = 240.0
"""Seconds for a build; the first one of a language compiles its standard library, too."""
_RELEASES, _FAILED = "releases", "failed.log"
_SHORT = 12
"""How much of a commit's name tells it from others."""


@dataclass(frozen=True)
class Deployment:
    """What the JSON file says."""

    repository: str
    url: str
    port: int
    pid: int
    supervisor: int
    commit: str
    release: str


def deploy(workspace: Workspace, name: str) -> Deployment:
    """Bring main's head to staging.

    Raises:
        Refused: it cannot be started, or is not healthy; what ran before still runs.
    """
    repository = existing(workspace, name)
    template = needed(name, git.files(repository))
    _check_installed(name, template)
    with workspace.working_on(name):
        before = current(workspace, name)
        folder = workspace.deployment(name)
        commit = git.head(repository)
        release = _new_release(folder / _RELEASES, commit)
        try:
            _check_out(repository, commit, release / APP)
            _build(template, release / APP, cache=workspace.root / "cache")
            found = start(release, template.command())
        except Unhealthy as error:
            _set_aside(release, folder / _FAILED)
            raise Refused(f"{name} was not deployed. {_still(before)}. The reason: {error}") from error
        made = Deployment(name, found.url, found.port, found.pid, found.supervisor, commit, release.name)
        _write(folder / STATE, made)
        _end_others(folder / _RELEASES, release)
        return made


def undo(workspace: Workspace, name: str) -> Deployment | None:
    """End what runs of a repository and remove its folder; returns what ran."""
    existing(workspace, name)
    with workspace.working_on(name):
        before, folder = current(workspace, name), workspace.deployment(name)
        _end_others(folder / _RELEASES, None)
        shutil.rmtree(folder, ignore_errors=True)
        return before


def current(workspace: Workspace, name: str) -> Deployment | None:
    """What runs now; the file alone proves nothing."""
    folder = workspace.deployment(name)
    try:
        said = Deployment(**json.loads((folder / STATE).read_text("utf-8")))
    except (FileNotFoundError, ValueError, TypeError):
        return None
    return said if is_running(folder / _RELEASES / said.release) else None


def _check_installed(name: str, template: Template) -> None:
    if not template.installed():
        raise Refused(
            f"{template.language} is not installed on this machine, so {name} cannot run in staging here. "
            f"Its repository is complete; once the operator has put `{template.program}` on the server's PATH, "
            "deploy_to_staging works as it is"
        )


def _new_release(releases: Path, commit: str) -> Path:
    releases.mkdir(parents=True, exist_ok=True)
    return Path(tempfile.mkdtemp(prefix=f"{commit[:_SHORT]}-", dir=releases))


def _check_out(repository: Path, commit: str, app: Path) -> None:
    try:
        with git.archived(repository, commit) as files:
            files.extractall(app, filter="data")
    except tarfile.FilterError as error:
        raise Unhealthy(f"a file in it leads out of its folder: {error}") from error


def _build(template: Template, app: Path, *, cache: Path) -> None:
    if not template.build:
        return
    # Nothing is fetched, and a repository that the data folder may lie in is not asked.
    go = {"GOCACHE": str(cache / "go"), "GOPROXY": "off", "GOTOOLCHAIN": "local", "GOFLAGS": "-buildvcs=false"}
    environment = {"PATH": os.pathsep.join(os.get_exec_path()), "HOME": str(cache), "CGO_ENABLED": "0", **go}
    try:
        done = subprocess.run(template.build, cwd=app, env=environment, capture_output=True, timeout=_BUILDING)
    except subprocess.TimeoutExpired as error:
        raise Unhealthy(
            f"building it takes longer than {_BUILDING:g} s; try again, what is compiled is kept"
        ) from error
    if done.returncode:
        raise Unhealthy(f"it does not build: {done.stderr.decode(errors='replace').strip()[-200:]}")


def _end_others(releases: Path, kept: Path | None) -> None:
    for release in releases.glob("*"):
        if release != kept:
            end(release)
            shutil.rmtree(release, ignore_errors=True)


def _set_aside(release: Path, failed: Path) -> None:
    """Of a release that failed only its log is kept."""
    with suppress(FileNotFoundError):
        (release / LOG).rename(failed)
    shutil.rmtree(release, ignore_errors=True)


def _write(state: Path, deployment: Deployment) -> None:
    written = state.with_suffix(".new")
    written.write_text(json.dumps(asdict(deployment), indent=2) + "\n", "utf-8")
    written.rename(state)


def _still(before: Deployment | None) -> str:
    if before is None:
        return "Nothing ran before, and nothing runs now"
    return f"The version before, commit {before.commit[:_SHORT]}, still serves at {before.url}"
