"""A line buffer for NDJSON: splits a stream into lines, however its bytes were cut. A line ends at LF only."""

from collections.abc import Iterator

MAX_LINE = 4 * 1024 * 1024

_BLANK = b" \t\r"


class LineTooLong(ValueError):
    """A line of the stream exceeds the limit; perhaps the stream is not NDJSON."""


class LineBuffer:
    """Splits a stream into lines, however its bytes were cut.

    Blank lines are heartbeats and are skipped. Every byte is looked at once.
    """

    def __init__(self, *, max_line: int = MAX_LINE) -> None:
        self._max_line = max_line
        self._rest = bytearray()

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """Take in ``chunk`` and iterate over the lines it completed, without their line ends.

        Raises:
            LineTooLong: while iterating, after the lines before it; the stream cannot go on.
        """
        *lines, rest = chunk.split(b"\n")
        if lines:
            lines[0] = bytes(self._rest + lines[0])
            self._rest.clear()
        self._rest += rest
        return self._checked(lines)

    def close(self) -> bytes | None:
        """Return the last line if the stream ended without LF after it, else None."""
        rest = bytes(self._rest)
        self._rest.clear()
        return rest if rest.strip(_BLANK) else None

    def _checked(self, lines: list[bytes]) -> Iterator[bytes]:
        for line in lines:
            self._measure(line)
            if line.strip(_BLANK):
                yield line
        self._measure(self._rest)

    def _measure(self, line: bytes | bytearray) -> None:
        if len(line) > self._max_line:
            self._rest.clear()
            raise LineTooLong(f"a line is longer than {self._max_line} bytes; is the other side sending NDJSON?")
