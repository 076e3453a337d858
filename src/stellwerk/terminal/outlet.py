"""The outlet: standard output as a pipe that somebody reads, until he has enough."""

import os
from typing import TextIO


class Outlet:
    def __init__(self, file: TextIO) -> None:
        self._file = file
        self.closed = False
        """Nobody reads any more."""

    def write(self, text: str) -> None:
        """
        Raises:
            BrokenPipeError: nobody reads any more; stop.
        """
        try:
            self._file.write(text)
            self._file.flush()
        except BrokenPipeError:
            self.closed = True
            # What is left in the buffer goes nowhere, instead of failing once more when Python ends.
            os.dup2(os.open(os.devnull, os.O_WRONLY), self._file.fileno())
            raise

    def flush(self) -> None:
        self._file.flush()
