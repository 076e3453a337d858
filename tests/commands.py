"""A command in this process: the command itself needs no second, and a process of its own two or three."""

import io
import sys
from dataclasses import dataclass

import pytest

from stellwerk.cli import app


@dataclass(frozen=True)
class Done:
    returncode: int
    stdout: str
    stderr: str


class Command:
    """Files in the place of standard input, output and error, as in a pipe."""

    def __init__(self, captured: "pytest.CaptureFixture[str]", monkeypatch: pytest.MonkeyPatch) -> None:
        self._captured, self._monkeypatch = captured, monkeypatch

    def __call__(self, *arguments: str, stdin: str = "") -> Done:
        self._monkeypatch.setattr(sys, "path", [*sys.path])
        self._monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
        self._captured.readouterr()
        with pytest.raises(SystemExit) as ended:
            app(arguments, prog_name="stellwerk")
        code = ended.value.code
        return Done(code if isinstance(code, int) else int(code is not None), *self._captured.readouterr())
