"""`stellwerk …` with streams that are closed, in a process forked from one that has imported everything."""

import os
import sys
from collections.abc import Sequence
from multiprocessing import get_context
from pathlib import Path

import tests.forked  # noqa: F401 - it says what is imported before the fork

_FORKS = get_context("forkserver")
_PATIENCE = 240
_NAMES = ("stdin", "stdout", "stderr")


def ended_without(closed: Sequence[int], arguments: Sequence[str], folder: Path) -> tuple[int, str]:
    """How it ended, and what it complained of, if it could. What Python finds closed at its start is None to it."""
    errors = folder / "errors.txt"
    process = _FORKS.Process(target=_become, args=(closed, arguments, folder, errors))
    process.start()
    process.join(_PATIENCE)
    process.kill()
    assert process.exitcode is not None
    return process.exitcode, errors.read_text("utf-8")


def _become(closed: Sequence[int], arguments: Sequence[str], folder: Path, errors: Path) -> None:
    from stellwerk.cli import app

    os.chdir(folder)
    for number, path in enumerate((os.devnull, os.devnull, str(errors))):
        file = os.open(path, os.O_RDWR | os.O_CREAT)
        os.dup2(file, number)
        os.close(file)
    for number, name in enumerate(_NAMES):
        stream = None if number in closed else open(number, "w" if number else "r")
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    for number in closed:
        os.close(number)
    app(arguments, prog_name="stellwerk")
