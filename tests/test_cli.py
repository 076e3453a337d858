"""The command line as a newcomer meets it: a real process each time."""

import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = ("langchain", "langchain_core", "langgraph", "openai", "pydantic", "fastapi", "uvicorn")


def stellwerk(*arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "stellwerk", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_help_names_the_commands_and_imports_nothing_heavy() -> None:
    probe = (
        "import sys; sys.argv = ['stellwerk', '--help']\n"
        "from stellwerk.cli import app\n"
        "try: app()\n"
        "except SystemExit: pass\n"
        f"sys.exit(','.join(name for name in {HEAVY!r} if name in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, timeout=60, check=False)
    assert "serve" in done.stdout
    assert done.stderr.strip() == "", f"imported by --help: {done.stderr}"


def test_serve_help_says_what_the_defaults_are() -> None:
    text = stellwerk("serve", "--help").stdout
    for word in ("--port", "8000", "--data", "./data", "STELLWERK_PORT"):
        assert word in text


def test_the_version_is_told() -> None:
    done = stellwerk("--version")
    assert (done.returncode, done.stdout.split()[0]) == (0, "stellwerk")


@pytest.mark.parametrize(
    "arguments, complaint",
    [
        (["--host", "0.0.0.0"], "there are no API keys"),
        (["--port", "99999"], "port"),
        (["--colour", "red"], "No such option"),
    ],
    ids=["beyond loopback", "no such port", "no such option"],
)
def test_a_server_that_must_not_start_says_why(arguments: list[str], complaint: str, tmp_path: Path) -> None:
    done = stellwerk("serve", "--data", str(tmp_path / "data"), *arguments)
    assert done.returncode == 2
    assert complaint in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "data").exists()
