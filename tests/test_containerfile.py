"""examples/deploy/Containerfile: what it copies is enough, and what it installs is locked. `make image` performs it."""

import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from stellwerk.api.routes.pages import BUILT
from tests.container import copied, parsed

ROOT = Path(__file__).parents[1]
DEPLOY = ROOT / "examples/deploy"


def pins(path: Path) -> dict[str, str]:
    """Names and versions of a lock file; every one of them with digests."""
    entries = re.split(r"\n(?=\S)", path.read_text("utf-8").replace("\\\n", " "))
    found = {}
    for entry in filter(None, (entry.partition("#")[0].strip() for entry in entries)):
        name, version = re.match(r"([a-z0-9-]+)==([^ ;]+)", entry).groups()  # type: ignore[union-attr]
        assert "--hash=sha256:" in entry, f"{path.name}: {name} has no digest"
        found[name] = version
    return found


def test_what_the_stages_copy_is_enough_to_build_the_wheel_with_the_console_in_it(tmp_path: Path) -> None:
    stages = {stage.name: stage for stage in parsed((DEPLOY / "Containerfile").read_text("utf-8"))}
    assert stages["wheel"].base == "console"
    for stage in (stages["console"], stages["wheel"]):
        copied(stage, ROOT, tmp_path)
    assert {"package-lock.json", "tsconfig.base.json", "clients/typescript/src/index.ts"} <= names(tmp_path)
    if not (BUILT / "index.html").is_file():
        pytest.skip("the console is not built; `make console` builds it")
    assert subprocess.run([sys.executable, ROOT / "console/build.py"], check=False).returncode == 0
    for name in ("src/stellwerk/console", "console/.built"):  # what the stage before has made of these very files
        subprocess.run(["cp", "-a", ROOT / name, tmp_path / name], check=True)
    build = [sys.executable, "-m", "uv", "build", "--quiet", "--offline", "--wheel", "--no-build-isolation"]
    made = subprocess.run(
        [*build, "--python", sys.executable, "--out-dir", tmp_path / "wheels", tmp_path],
        check=False,
        capture_output=True,
        text=True,
    )
    assert made.returncode == 0, made.stderr
    assert "Node is not installed" not in made.stderr
    with zipfile.ZipFile(next((tmp_path / "wheels").glob("*.whl"))) as files:
        assert {"stellwerk/app.py", "stellwerk/console/index.html"} <= set(files.namelist())


def names(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def test_packages_come_with_digests_and_in_the_versions_that_are_tested() -> None:
    tested = pins(ROOT / "requirements.lock") | pins(ROOT / "tests/node.lock")
    locked = pins(DEPLOY / "runtime.lock") | pins(DEPLOY / "build.lock")
    assert {name: tested[name] for name in locked} == locked
    needed = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["dependencies"]
    assert {re.split(r"[<>=]", each)[0].replace(".", "-") for each in needed} <= set(pins(DEPLOY / "runtime.lock"))
    assert not {"pytest", "ruff", "hatchling", "uv"} & set(pins(DEPLOY / "runtime.lock"))
    commands = [
        part
        for stage in parsed((DEPLOY / "Containerfile").read_text("utf-8"))
        for _, rest in stage.steps
        for part in rest.split("&&")
    ]
    for command in (each for each in commands if "pip install" in each):
        assert "--require-hashes" in command or "--no-deps --no-index" in command, command
