"""The copilot by `stellwerk run`: in a pipe, in a terminal, twice, and with names that cannot be."""

import asyncio
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

import httpx2
import pytest

from tests.cli.pseudo_terminal import Terminal
from tests.commands import Command, Done
from tests.crash.waiting import eventually
from tests.examples.idp_system import (
    ENGLISH,
    SYSTEM,
    answers_at,
    assert_clone_works_and_main_is_protected,
    git,
    repositories,
)
from tests.forked import completed

Run = Callable[[str], Done]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: Command) -> Run:
    """What is said to it in this process."""
    monkeypatch.chdir(tmp_path)
    return partial(command, "run", str(SYSTEM))


@pytest.mark.requirement("004.yaml.sample-system")
def test_in_a_pipe_it_takes_the_defaults_and_says_where_all_is(tmp_path: Path) -> None:
    done = completed("run", str(SYSTEM), ENGLISH, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    repository = tmp_path.resolve() / "data/files/workspace/repositories/billing-service.git"
    assert f"private, main is protected): `git clone {repository}`" in done.stdout
    assert "private, python (its default)" in done.stderr
    for number in range(1, 6):
        assert f"☑ t{number} " in done.stderr
    for tool in ("agent_git", "list_templates", "apply_template", "setup_cicd_pipeline", "setup_observability"):
        assert f"✓ {tool} " in done.stderr
    for tool in ("generate_k8s_manifests", "generate_documentation", "search_knowledge_base_for_guidelines"):
        assert f"✓ {tool} " in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["data"]
    assert [path.name for path in (tmp_path / "data").iterdir()] == ["files"]
    address = re.search(r"Address: (http://127\.0\.0\.1:\d+)", done.stdout)
    assert address
    url = address[1]
    asyncio.run(eventually(lambda: not answers_at(url), within=30, what="it has not ended with the command"))
    assert_clone_works_and_main_is_protected(repository, tmp_path)


def test_a_service_with_a_repository_is_a_service_and_german_is_answered_in_german(tmp_path: Path, here: Run) -> None:
    deployed = completed("run", str(SYSTEM), "Create a service some-service with a repository", cwd=tmp_path)
    assert "some-service is on staging" in deployed.stdout  # and ends with the process of the command
    said = here("Erzeuge ein Repository billing-data").stdout
    assert re.fullmatch(r"billing-data ist da, private, und main ist geschützt: `git clone [^`]+`\n", said)
    assert repositories(tmp_path / "data") == ["billing-data.git", "some-service.git"]


def test_the_same_name_a_second_time_is_refused_and_nothing_is_damaged(tmp_path: Path, here: Run) -> None:
    assert here("Create a repository billing-data").returncode == 0
    repository = tmp_path / "data/files/workspace/repositories/billing-data.git"
    before = git("rev-parse", "main", cwd=repository).stdout
    for text in ("Create a repository billing-data", "Create a service billing-data and deploy it"):
        again = here(text)
        assert again.returncode == 0
        assert "there is a repository billing-data.git already" in again.stdout
    assert git("rev-parse", "main", cwd=repository).stdout == before
    assert git("fsck", "--strict", cwd=repository).returncode == 0
    assert repositories(tmp_path / "data") == ["billing-data.git"]


def test_in_a_terminal_it_asks_and_what_it_deployed_lives_until_it_is_undone(tmp_path: Path) -> None:
    with Terminal("run", str(SYSTEM), cwd=tmp_path) as terminal:
        terminal.shows("ends the conversation.\n>")
        terminal.type(ENGLISH)
        terminal.shows("(enter takes private, python)\n>")
        terminal.type("It may be public.")
        terminal.shows("Address: http://127.0.0.1:")
        terminal.shows("completed in")
        terminal.shows("tokens\n>")
        found = re.search(r"Address: (\S+)", terminal.screen())
        assert found and httpx2.get(f"{found[1]}/health", timeout=60).status_code == 200
        assert "It will be public, in python." in terminal.screen()
        terminal.type("Undo the deployment of billing-service")
        terminal.shows("does not run any more")
        terminal.shows("tokens\n>", times=2)
        assert not answers_at(found[1])
        terminal.press("D")
        assert terminal.ended() == 0
