"""Staging: real processes on free ports, that end by the undo tool, or with the process that started them."""

import json
import os
import select
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.examples.idp_tools import SERVED, call, calling, clone, commit, get, git, is_up, part, service

REFUSED: type[Exception] = part("names").Refused


def push_to_main(address: str, here: Path) -> None:
    """Merge on the server's side, where no hook is asked."""
    assert git("push", "origin", "HEAD:refs/heads/change", at=here).returncode == 0
    assert git(f"--git-dir={address}", "update-ref", "refs/heads/main", "change").returncode == 0


def await_end(pid: int) -> None:
    """Returns when the process is gone; pytest's timeout is the bound."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    select.select([handle], [], [])
    os.close(handle)


def said(workspace: Path, name: str) -> Any:
    return json.loads((workspace / "deployments" / name / "deployment.json").read_text())


@pytest.mark.parametrize("kind", SERVED)
def test_a_service_is_deployed_healthy_and_undone_without_a_trace(workspace: Path, kind: str) -> None:
    address = service("billing-service", kind)
    made = call("deploy_to_staging", repository="billing-service")
    assert made == said(workspace, "billing-service")
    assert made["commit"] == git(f"--git-dir={address}", "rev-parse", "main").stdout.strip()
    assert made["url"] == f"http://127.0.0.1:{made['port']}"
    assert json.loads(get(made["url"]))["service"] == "billing-service"
    assert json.loads(get(made["url"] + "/health")) == {"status": "ok"}
    assert 'http_requests_total{path="/",status="200"} 1' in get(made["url"] + "/metrics")
    assert call("undo_deployment", repository="billing-service") == {"repository": "billing-service", "ended": made}
    await_end(made["pid"])
    await_end(made["supervisor"])
    assert not is_up(made["url"])
    assert list(workspace.glob("deployments/*")) == []
    assert call("undo_deployment", repository="billing-service")["ended"] is None


def test_two_services_run_side_by_side(workspace: Path) -> None:
    names = ["one-service", "two-service"]
    for name in names:
        service(name)
    made = {name: call("deploy_to_staging", repository=name) for name in names}
    assert [json.loads(get(made[name]["url"]))["service"] for name in names] == names
    call("undo_deployment", repository=names[0])
    assert [is_up(made[name]["url"]) for name in names] == [False, True]


def test_a_new_version_takes_the_place_of_the_old_one(workspace: Path, tmp_path: Path) -> None:
    address = service("ledger")
    old = call("deploy_to_staging", repository="ledger")
    here = clone(address, tmp_path / "here")
    commit(here, "service.py", (here / "service.py").read_text().replace("Hello from", "Greetings from"))
    push_to_main(address, here)
    new = call("deploy_to_staging", repository="ledger")
    await_end(old["pid"])
    assert json.loads(get(new["url"]))["message"] == "Greetings from ledger"
    assert (new["commit"] != old["commit"], said(workspace, "ledger")) == (True, new)
    assert [each.name for each in workspace.glob("deployments/ledger/releases/*")] == [new["release"]]


@pytest.mark.parametrize(
    ("broken", "seconds", "reason"),
    [
        ("raise SystemExit('no database')", 60.0, "it ended by itself; its log ends: no database"),
        ("import time\ntime.sleep(600)", 0.5, "it never said where it listens within 0.5 s"),
        # On a machine that is very busy it does not come to say anything.
        (
            "import time\nprint('listening on http://127.0.0.1:1', flush=True)\ntime.sleep(600)",
            1.0,
            "(200 at /health|never said)",
        ),
    ],
)
def test_a_version_that_is_not_healthy_leaves_the_one_before(
    workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: str, seconds: float, reason: str
) -> None:
    address = service("ledger")
    old = call("deploy_to_staging", repository="ledger")
    here = clone(address, tmp_path / "here")
    commit(here, "service.py", broken)
    push_to_main(address, here)
    monkeypatch.setattr(part("processes"), "_HEALTHY", seconds)
    with pytest.raises(REFUSED, match=reason) as refused:
        call("deploy_to_staging", repository="ledger")
    assert f"commit {old['commit'][:12]}, still serves at {old['url']}" in str(refused.value)
    assert len(f"Refused: {refused.value}") <= 500  # what a model gets to read
    assert is_up(old["url"]) and said(workspace, "ledger") == old
    assert [each.name for each in workspace.glob("deployments/ledger/releases/*")] == [old["release"]]


def test_a_first_version_that_fails_leaves_its_log_and_nothing_that_runs(workspace: Path, tmp_path: Path) -> None:
    address = service("ledger")
    here = clone(address, tmp_path / "here")
    commit(here, "service.py", "raise SystemExit('no database')")
    push_to_main(address, here)
    with pytest.raises(REFUSED, match="Nothing ran before, and nothing runs now. The reason: it ended by itself"):
        call("deploy_to_staging", repository="ledger")
    folder = workspace / "deployments" / "ledger"
    assert (folder / "failed.log").read_text() == "no database\n"
    assert list(folder.glob("releases/*")) == []
    call("undo_deployment", repository="ledger")
    assert not folder.exists()


def test_the_service_ends_with_the_process_that_deployed_it_even_if_that_is_killed(workspace: Path) -> None:
    service("ledger")
    with calling("deploy_to_staging", repository="ledger") as server:
        assert server.stdout is not None
        made = json.loads(server.stdout.readline())
        assert is_up(made["url"])
        server.send_signal(signal.SIGKILL)
    await_end(made["pid"])
    await_end(made["supervisor"])
    assert not is_up(made["url"])
    assert not (workspace / "deployments" / "ledger" / "deployment.json").exists()
    assert is_up(call("deploy_to_staging", repository="ledger")["url"])


def test_another_process_can_undo_it(workspace: Path) -> None:
    service("ledger")
    with calling("deploy_to_staging", repository="ledger") as server:
        assert server.stdout is not None
        made = json.loads(server.stdout.readline())
        assert call("undo_deployment", repository="ledger")["ended"] == made
        await_end(made["pid"])
        assert not is_up(made["url"])


def test_the_service_ends_even_if_its_supervisor_is_killed(workspace: Path) -> None:
    service("ledger")
    made = call("deploy_to_staging", repository="ledger")
    os.kill(made["supervisor"], signal.SIGKILL)
    await_end(made["pid"])
    assert call("undo_deployment", repository="ledger")["ended"] is None


def test_a_service_that_ends_by_itself_is_no_longer_said_to_run(workspace: Path) -> None:
    service("ledger")
    made = call("deploy_to_staging", repository="ledger")
    os.kill(made["pid"], signal.SIGKILL)
    await_end(made["supervisor"])
    assert not (workspace / "deployments" / "ledger" / "deployment.json").exists()
    assert call("undo_deployment", repository="ledger")["ended"] is None


def test_who_was_killed_while_he_deployed_leaves_nothing_that_runs(workspace: Path, tmp_path: Path) -> None:
    address = service("ledger")
    here = clone(address, tmp_path / "here")
    reached = tmp_path / "reached"
    os.mkfifo(reached)
    tell = f"import os, time\nopen({str(reached)!r}, 'w').write(str(os.getpid()))\ntime.sleep(600)\n"
    commit(here, "service.py", tell)
    push_to_main(address, here)
    with calling("deploy_to_staging", repository="ledger") as server:
        pid = int(reached.read_text())
        server.send_signal(signal.SIGKILL)
    await_end(pid)
    commit(here, "service.py", git(f"--git-dir={address}", "show", "main~1:service.py").stdout)
    push_to_main(address, here)
    made = call("deploy_to_staging", repository="ledger")
    assert [each.name for each in workspace.glob("deployments/ledger/releases/*")] == [made["release"]]


def test_without_the_toolchain_the_refusal_says_what_is_done_and_what_to_install(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    service("ledger", "go")
    call("setup_cicd_pipeline", repository="ledger")
    git_alone = workspace / "bin"
    git_alone.mkdir()
    real = next(path for path in map(Path, os.get_exec_path()) if (path / "git").exists()) / "git"
    (git_alone / "git").symlink_to(real)
    monkeypatch.setenv("PATH", str(git_alone))
    with pytest.raises(REFUSED) as refused:
        call("deploy_to_staging", repository="ledger")
    assert "Go is not installed" in str(refused.value)
    assert "Its repository is complete" in str(refused.value) and "`go`" in str(refused.value)
    assert not (workspace / "deployments").exists()


def test_a_link_that_leads_out_of_the_folder_is_not_deployed(workspace: Path, tmp_path: Path) -> None:
    address = service("ledger")
    here = clone(address, tmp_path / "here")
    (here / "out").symlink_to("../../../../../escape")
    commit(here, "notes.txt", "a link")
    push_to_main(address, here)
    with pytest.raises(REFUSED, match="a file in it leads out of its folder"):
        call("deploy_to_staging", repository="ledger")


def test_the_service_sees_no_secret_of_the_server(
    workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = service("ledger")
    here = clone(address, tmp_path / "here")
    told = (here / "service.py").read_text().replace("import argparse\n", "import argparse\nimport os\n")
    commit(here, "service.py", told.replace('"message": f"Hello from {NAME}"', '"message": str(dict(os.environ))'))
    push_to_main(address, here)
    monkeypatch.setenv("OPENAI_API_KEY", "canary")
    made = call("deploy_to_staging", repository="ledger")
    assert "PATH" in get(made["url"]) and "canary" not in get(made["url"])
