"""The copilot as a whole: where it lies, its variants, a server with it, and what it has made."""

import shutil
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import httpx2
import pytest

from tests.api.reading import Event
from tests.crash.process import server_process
from tests.runs.talking import answer, rest_of_run, send

FOLDER = Path(__file__).parents[2] / "examples/idp-copilot"
SYSTEM = FOLDER / "system.yaml"
ENGLISH = "Create a service billing-service and deploy it to staging"
GERMAN = "Erzeuge ein Service 'billing-service' und deploye auf staging"


def variant(folder: Path, text: str, *, operator: str = "") -> Path:
    """The example in a folder of its own, with another text for the system and more in the operator's file."""
    shutil.copytree(FOLDER, folder, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "system.yaml").write_text(text, "utf-8")
    with (folder / "operator.yaml").open("a", encoding="utf-8") as file:
        file.write(operator)
    return folder / "system.yaml"


def with_approvals() -> str:
    """The system as its comments say that it can be: without the marks before the approvals."""
    lines = SYSTEM.read_text("utf-8").splitlines(keepends=True)
    rules = ("    # approvals:", "    #   create_", "    #   deploy_")
    return "".join(line.replace("    # ", "    ", 1) if line.startswith(rules) else line for line in lines)


@asynccontextmanager
async def served(data: Path, system: Path = SYSTEM, *, key: str = "none") -> AsyncIterator[httpx2.AsyncClient]:
    """A client of a server in a process of its own, which is killed at the end, so that deployments end with it."""
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("OPENAI_API_KEY", key)
        with server_process(data, errors=data.parent / "errors.txt", serves=[str(system)]) as server:
            async with httpx2.AsyncClient(base_url=server.address, timeout=60) as client:
                yield client


async def talk(client: httpx2.AsyncClient, sid: str, text: str, *answers: str | Event) -> list[Event]:
    """Send a message, answer each question that comes, and give what was told in all of its runs."""
    told = await rest_of_run(client, sid, (await send(client, sid, text))["after"])
    for given in answers:
        assert told[-1]["payload"]["status"] == "awaiting_user", told[-1]
        body = {"text": given} if isinstance(given, str) else {"data": given}
        told += await rest_of_run(client, sid, (await answer(client, sid, **body))["after"])
    return told


def said(told: list[Event]) -> str:
    """What the agent said last; the run has completed."""
    assert told[-1]["payload"]["status"] == "completed", told[-1]
    return str(told[-1]["payload"]["result"])


def used(told: list[Event], status: str = "ok") -> list[str]:
    """The tools and agents that have ended so, in their order."""
    ends = [event["payload"] for event in told if event["type"] == "tool_end"]
    return [end["tool_name"] for end in ends if end["status"] == status]


def result_of(told: list[Event], tool: str) -> Event:
    ends = [event["payload"] for event in told if event["type"] == "tool_end"]
    (found,) = [end["result"]["data"] for end in ends if end["tool_name"] == tool and end["status"] == "ok"]
    return dict(found)


def git(*arguments: str, cwd: Path) -> "subprocess.CompletedProcess[str]":
    who = ["-c", "user.name=A", "-c", "user.email=a@example.org"]
    return subprocess.run(["git", *who, *arguments], cwd=cwd, capture_output=True, text=True, timeout=240, check=False)


def assert_clone_works_and_main_is_protected(repository: str | Path, folder: Path) -> None:
    """Clone it, run the tests of the Python service in it, and fail to push to main."""
    assert git("clone", str(repository), "clone", cwd=folder).returncode == 0
    clone = folder / "clone"
    tests = [sys.executable, "-m", "unittest"]
    done = subprocess.run(tests, cwd=clone, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    git("commit", "--allow-empty", "-m", "straight to main", cwd=clone)
    pushed = git("push", "origin", "HEAD:main", cwd=clone)
    assert pushed.returncode != 0
    assert "main is protected" in pushed.stderr, pushed.stderr


def repositories(data: Path) -> list[str]:
    """What lies where repositories belong, half-made ones included."""
    folder = data / "files/workspace/repositories"
    return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []


def answers_at(url: str) -> bool:
    place = urlsplit(url)
    with socket.socket() as probe:
        probe.settimeout(5)
        return probe.connect_ex((place.hostname, place.port)) == 0
