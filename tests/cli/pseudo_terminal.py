"""A terminal for tests: a real pty around a real process, and a screen that shows what was written to it."""

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.forked import Forked

PATIENCE = 240.0
_CONTROL = re.compile(r"\x1b\[([?0-9;]*)([A-Za-z])")
_SECONDS = re.compile(r"\b\d+\.\d s\b")


class TerminalEmulator:
    """What a terminal shows: rows, a cursor, and as many escape codes as we use. Any other one is an error."""

    def __init__(self) -> None:
        self._rows, self._row, self._column, self._rest = [""], 0, 0, ""

    def write(self, text: str) -> None:
        text, self._rest = self._rest + text, ""
        while text:
            found = _CONTROL.match(text)
            if found:
                self._control(*found.groups())
                text = text[found.end() :]
            elif text[0] == "\x1b" and len(text) < 12:
                self._rest, text = text, ""
            else:
                self._put(text[0])
                text = text[1:]

    def _control(self, numbers: str, letter: str) -> None:
        if letter == "J":
            del self._rows[self._row + 1 :]
        if letter in "JK":
            self._rows[self._row] = self._rows[self._row][: self._column]
        elif letter == "A":
            self._row -= int(numbers or 1)
        else:
            assert letter in "mhl", f"the terminal was sent {numbers}{letter}"

    def _put(self, char: str) -> None:
        if char == "\n":
            self._row += 1
            if self._row == len(self._rows):
                self._rows.append("")
        elif char == "\r":
            self._column = 0
        elif char == "\b":
            self._column -= 1
        elif char != "\a":
            line = self._rows[self._row].ljust(self._column)
            self._rows[self._row] = line[: self._column] + char + line[self._column + 1 :]
            self._column += 1

    def text(self) -> str:
        return "\n".join(row.rstrip() for row in self._rows)


def timeless(text: str) -> str:
    """Every duration as 0.0 s."""
    return _SECONDS.sub("0.0 s", text)


def _executed(
    command: Sequence[str], terminal: int, cwd: Path, environment: dict[str, str]
) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        command,
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        cwd=cwd,
        env=environment,
        # So that the terminal is its own, and Ctrl-C on it reaches it.
        preexec_fn=lambda: (os.setsid(), fcntl.ioctl(0, termios.TIOCSCTTY, 0)),  # type: ignore[func-returns-value]
    )


class Terminal:
    """`stellwerk …`, or another command, in a terminal of so many columns."""

    def __init__(
        self, *arguments: str, cwd: Path, columns: int = 80, command: Sequence[str] = (), **environment: str
    ) -> None:
        self._leader, follower = pty.openpty()
        fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        given = {"PATH": os.defpath, "LANG": "C.UTF-8", "TERM": "xterm-256color", **environment}
        self._process: subprocess.Popen[bytes] | Forked
        if command:
            self._process = _executed([*command, *arguments], follower, cwd, given)
        else:
            self._process = Forked(arguments, files=[follower] * 3, cwd=cwd, environment=given)
        os.close(follower)
        self._emulator = TerminalEmulator()
        self.raw = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._leader)

    @property
    def pid(self) -> int:
        return self._process.pid

    def shows(self, text: str, *, times: int = 1) -> None:
        """Wait until it does. Behind a prompt nothing may be typed before it is there."""
        self.until(lambda: self._emulator.text().count(text) >= times)

    def until(self, condition: Callable[[], bool]) -> None:
        ends = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < ends, f"waited in vain:\n{self._emulator.text()}"
            assert self._read(0.2) or self._process.poll() is None, f"ended too early:\n{self._emulator.text()}"

    def is_over(self) -> bool:
        """It has ended, or does so within a moment."""
        self._read(0.2)
        return self._process.poll() is not None

    def type(self, text: str) -> None:
        os.write(self._leader, text.encode() + b"\r")

    def press(self, key: str) -> None:
        """A letter together with Ctrl."""
        os.write(self._leader, bytes([ord(key) - 64]))

    def ended(self) -> int:
        """Wait for the end, and give the exit code."""
        ends = time.monotonic() + PATIENCE
        while (code := self._process.poll()) is None:
            assert time.monotonic() < ends, f"never ended:\n{self._emulator.text()}"
            self._read(0.1)
        while self._read(0):
            pass
        return code

    def screen(self) -> str:
        return timeless(self._emulator.text()).strip("\n")

    def echoes(self) -> bool:
        """The terminal was given back as it was."""
        return bool(termios.tcgetattr(self._leader)[3] & termios.ECHO)

    def _read(self, timeout: float) -> bool:
        if not select.select([self._leader], [], [], timeout)[0]:
            return False
        try:
            piece = os.read(self._leader, 65536).decode("utf-8", "replace")
        except OSError:  # Linux raises it when the last writer has gone
            return False
        self.raw += piece
        self._emulator.write(piece)
        return bool(piece)
