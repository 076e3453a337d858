"""The outlet: standard output as a pipe that somebody reads, until he has enough."""

import io
import os
import sys
from typing import TextIO

from stellwerk.errors import StellwerkError


def attach() -> None:
    """Standard streams take any text: closed ones become empty, and letters that an encoding lacks are spelled out."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


class Outlet:
    def __init__(self, file: TextIO) -> None:
        self._file = file
        self.closed = False
        """Nobody reads any more."""

    def write(self, text: str) -> None:
        """
        Raises:
            BrokenPipeError: nobody reads any more; stop.
            StellwerkError: it cannot be written.
        """
        try:
            self._file.write(text)
            self._file.flush()
        except BrokenPipeError:
            self.closed = True
            self.abandon()
            raise
        except OSError as error:
            self.abandon()
            raise StellwerkError(f"cannot write to standard output: {error.strerror}") from error

    def abandon(self) -> None:
        """What is left in the buffer goes nowhere, instead of failing once more when Python ends."""
        os.dup2(os.open(os.devnull, os.O_WRONLY), self._file.fileno())

    def flush(self) -> None:
        self._file.flush()
