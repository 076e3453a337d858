"""Repositories of the copilot: names, protection, and that a repository is whole or not there."""

import os
import signal
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.examples.idp_tools import TOOLS, call, calling, clone, commit, git, on_main, part, service

BAD_NAMES = [
    *("../x", "..", ".", "", "a b", "a", "ab", "x" * 41, "-abc", "abc-", "Abc", "1abc", "a_b", "a/b", "a\\b"),
    *("abc.git", "abc\n", "\nabc", "abc\0", "~abc", "$HOME", "--bare", "🚀🚀🚀", "bücher", "ａｂｃ", "abc;rm"),
]
CREATING = ["create_repository", "create_git_repository_with_branch_protection"]
USING = [name for name, spec in TOOLS.items() if "repository" in spec.input_schema.get("properties", {})]
REFUSED: type[Exception] = part("names").Refused


def arguments(tool: str, repository: str) -> dict[str, Any]:
    return {"repository": repository} | ({"template": "python"} if tool == "apply_template" else {})


@pytest.mark.parametrize("name", BAD_NAMES)
@pytest.mark.parametrize("tool", CREATING)
def test_a_bad_name_is_refused_and_nothing_is_made(workspace: Path, tool: str, name: str) -> None:
    with pytest.raises(REFUSED, match="cannot be the name of a project; take 3 to 40 small letters"):
        call(tool, name=name)
    assert not workspace.exists()


@pytest.mark.parametrize("tool", USING)
def test_no_tool_reaches_outside_by_the_name_of_a_repository(workspace: Path, tool: str) -> None:
    for name in BAD_NAMES:
        with pytest.raises(REFUSED, match="cannot be the name of a project"):
            call(tool, **arguments(tool, name))
    with pytest.raises(REFUSED, match="there is no repository missing-one; create it first"):
        call(tool, **arguments(tool, "missing-one"))
    assert not workspace.exists()


@pytest.mark.parametrize("name", ["abc", "billing-service", "a--b", "null", "x" * 40, "a1-2"])
@pytest.mark.parametrize("written", ["go", "Go", "golang", "go-service", "Go Service", "GO_SERVICE"])
def test_a_good_name_and_a_type_in_any_writing_are_valid(workspace: Path, name: str, written: str) -> None:
    found = call("validate_project_name_and_type", name=name, project_type=written)
    assert found == {"name": name, "project_type": "go-service", "language": "Go"}
    assert call("validate_project_name_and_type", name=name) == {"name": name}


def test_validation_says_what_is_wrong(workspace: Path) -> None:
    with pytest.raises(REFUSED, match="no project type 'cobol'; take one of python-service, node-service, go-service"):
        call("validate_project_name_and_type", name="ledger", project_type="cobol")
    with pytest.raises(REFUSED, match="cannot be the name"):
        call("validate_project_name_and_type", name="../x", project_type="go")
    call("create_repository", name="ledger")
    with pytest.raises(REFUSED, match=r"there is a repository ledger\.git already"):
        call("validate_project_name_and_type", name="ledger", project_type="go")


@pytest.mark.parametrize("tool", CREATING)
def test_a_name_that_is_taken_is_refused_and_what_has_it_stays(workspace: Path, tool: str) -> None:
    made = call(tool, name="ledger")
    before = git(f"--git-dir={made['path']}", "rev-parse", "main").stdout
    with pytest.raises(REFUSED, match="take another name"):
        call(tool, name="ledger", visibility="public")
    assert git(f"--git-dir={made['path']}", "rev-parse", "main").stdout == before
    file = workspace / "repositories" / "notes.git"
    file.write_text("mine")
    with pytest.raises(REFUSED, match=r"there is a file notes\.git already"):
        call(tool, name="notes")
    assert file.read_text() == "mine"
    link = workspace / "repositories" / "elsewhere.git"
    link.symlink_to("/nowhere")
    with pytest.raises(REFUSED, match="already"):
        call(tool, name="elsewhere")


def test_visibility_is_a_matter_of_rights_and_of_what_git_serves(workspace: Path) -> None:
    private = Path(call("create_repository", name="inside")["path"])
    public = Path(call("create_repository", name="outside", visibility="public")["path"])
    assert (private.stat().st_mode & 0o777, public.stat().st_mode & 0o777) == (0o700, 0o755)
    assert [(each / "git-daemon-export-ok").exists() for each in (private, public)] == [False, True]


def test_git_refuses_each_way_to_push_to_main_and_lets_branches_pass(workspace: Path, tmp_path: Path) -> None:
    address = service("ledger")
    before = git(f"--git-dir={address}", "rev-parse", "main").stdout
    here = clone(address, tmp_path / "here")
    commit(here, "notes.txt", "mine")
    for push in (["main"], ["--force", "HEAD:main"], [":main"], ["--delete", "main"], ["HEAD:refs/heads/main"]):
        refused = git("push", "origin", *push, at=here)
        assert refused.returncode != 0
        assert "The branch main is protected and cannot be" in refused.stderr
        assert "git push origin HEAD:refs/heads/my-change" in refused.stderr
        assert git(f"--git-dir={address}", "rev-parse", "main").stdout == before
    for push in (["HEAD:refs/heads/my-change"], ["HEAD:main-2"], ["HEAD~1:my-change", "--force"], [":my-change"]):
        assert git("push", "origin", *push, at=here).returncode == 0
    assert git(f"--git-dir={address}", "branch", "--format=%(refname:short)").stdout.split() == ["main", "main-2"]


def test_the_hook_holds_against_a_configuration_that_names_other_hooks(
    workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = clone(service("ledger"), tmp_path / "here")
    (tmp_path / "gitconfig").write_text(f"[core]\n\thooksPath = {tmp_path}\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "gitconfig"))
    commit(here, "notes.txt", "mine")
    assert "is protected" in git("push", "origin", "main", at=here).stderr


def test_protection_can_come_later_and_for_any_branch(workspace: Path, tmp_path: Path) -> None:
    address = call("create_repository", name="ledger")["path"]
    here = clone(address, tmp_path / "here")
    commit(here, "notes.txt", "mine")
    assert git("push", "origin", "main", "main:release/1", at=here).returncode == 0
    assert call("setup_branch_protection", repository="ledger")["protected"] == ["main"]
    both = call("setup_branch_protection", repository="ledger", branch="release/1")
    assert both == call("setup_branch_protection", repository="ledger", branch="release/1")
    assert both["protected"] == ["main", "release/1"]
    commit(here, "notes.txt", "more")
    for branch in ("main", "release/1"):
        assert f"The branch {branch} is protected" in git("push", "origin", f"main:{branch}", at=here).stderr
    with pytest.raises(REFUSED, match="no branch 'nope' to protect; there are: main, release/1"):
        call("setup_branch_protection", repository="ledger", branch="nope")


def test_changes_come_to_main_as_merged_branches(workspace: Path) -> None:
    address = service("ledger")
    call("setup_cicd_pipeline", repository="ledger")
    history = git(f"--git-dir={address}", "log", "--first-parent", "--format=%s|%p|%an", "main").stdout.splitlines()
    assert [line.partition("|")[0] for line in history] == [
        "Merge branch 'copilot/ci'",
        "Merge branch 'copilot/template'",
        "Begin ledger",
    ]
    assert all(len(line.split("|")[1].split()) == 2 for line in history[:2])
    assert git(f"--git-dir={address}", "fsck", "--strict").returncode == 0
    assert on_main(address, "service.py").startswith('"""ledger:')


def test_without_git_the_error_says_what_to_install(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(workspace))
    with pytest.raises(REFUSED, match="there is no git on this machine; ask its operator to install it"):
        call("create_repository", name="ledger")
    assert list(workspace.glob("repositories/*")) == []


def test_of_many_who_create_one_name_at_once_one_wins(workspace: Path) -> None:
    def attempt(number: int) -> str:
        try:
            return str(call(CREATING[number % 2], name="ledger")["repository"])
        except REFUSED as error:
            return str(error)

    with ThreadPoolExecutor(8) as pool:
        outcomes = list(pool.map(attempt, range(8)))
    assert outcomes.count("ledger") == 1
    assert sum("already" in outcome for outcome in outcomes) == 7
    assert [each.name for each in workspace.glob("repositories/*")] == ["ledger.git"]


def test_of_two_processes_that_create_one_name_at_once_one_wins(workspace: Path) -> None:
    with calling("create_repository", name="ledger") as one, calling("create_repository", name="ledger") as other:
        told = [process.communicate() for process in (one, other)]
    assert sorted(process.returncode for process in (one, other)) == [0, 1]
    assert sum("Refused: there is a repository ledger.git already" in errors for _, errors in told) == 1


def test_changes_of_one_repository_at_once_all_come_to_main(workspace: Path) -> None:
    address = service("ledger")
    tools = ["setup_cicd_pipeline", "setup_observability", "generate_k8s_manifests", "setup_branch_protection"]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda tool: call(tool, repository="ledger"), tools))
    for path in (".github/workflows/ci.yml", "observability/dashboard.json", "k8s/manifests.yaml", "service.py"):
        assert on_main(address, path)


@pytest.mark.parametrize("step", ["init", "commit-tree", "config"])
def test_who_is_killed_while_he_creates_leaves_no_repository(
    workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """A git that stops in the middle holds the tool there, until both are killed."""
    reached, programs = tmp_path / "reached", tmp_path / "bin"
    os.mkfifo(reached)
    programs.mkdir()
    real = subprocess.run(["sh", "-c", "command -v git"], check=True, capture_output=True, text=True).stdout.strip()
    stopping = f'#!/bin/sh\n[ "$2" = {step} ] && echo $$ > {reached} && kill -STOP $$\nexec {real} "$@"\n'
    (programs / "git").write_text(stopping)
    (programs / "git").chmod(0o755)
    with monkeypatch.context() as patched:
        patched.setenv("PATH", str(programs), prepend=":")
        with calling("create_git_repository_with_branch_protection", name="ledger") as process:
            stopped = int(reached.read_text())
            process.send_signal(signal.SIGKILL)
    os.kill(stopped, signal.SIGKILL)
    assert [each.name for each in workspace.glob("repositories/*")] == [".making-ledger"]
    assert call("create_repository", name="other")["repository"] == "other"
    assert [each.name for each in workspace.glob("repositories/*")] == ["other.git"]
    assert call("create_repository", name="ledger")["protected"] == []


def test_what_somebody_is_making_is_not_swept_away(workspace: Path) -> None:
    made = part("workspace").Workspace(workspace)
    target = made.repository("ledger")
    with made.working_on("ledger"), made.making(target, "ledger") as unfinished:
        call("create_repository", name="other")
        assert unfinished.is_dir()
    assert target.is_dir()
