"""Prints: what graphs and tools write to standard output and standard error of their own accord.

Standard output is for the answer, so it goes to the view as whole lines: it can
neither tear a line that is being written, nor get among the envelopes.
"""

import asyncio
import io
import logging
import sys
import traceback
from collections.abc import Callable, Iterator, MutableMapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from functools import partial
from typing import Any, TextIO

import structlog


class _Diverted(io.TextIOBase):
    """``fileno`` is the real one, because ``input`` looks there for a terminal."""

    def __init__(self, instead_of: TextIO, say: Callable[[str], None], loop: asyncio.AbstractEventLoop) -> None:
        self._file, self._say, self._loop = instead_of, say, loop
        self._rest = ""

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self._file.encoding

    @property
    def errors(self) -> str | None:  # type: ignore[override]
        return self._file.errors

    @property
    def buffer(self) -> io.RawIOBase:
        return _Bytes(self)

    def fileno(self) -> int:
        return self._file.fileno()

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        *lines, self._rest = (self._rest + text).split("\n")
        with suppress(RuntimeError):  # the loop is closed; nothing is shown any more
            for line in lines:
                self._loop.call_soon_threadsafe(self._say, line)
        return len(text)

    def end(self) -> None:
        """A last line without its line end."""
        if self._rest:
            self.write("\n")


class _Bytes(io.RawIOBase):
    def __init__(self, text: _Diverted) -> None:
        self._text = text

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        return self._text.write(bytes(data).decode("utf-8", "replace"))


@contextmanager
def diverted(say: Callable[[str], None], *, debug: bool = False) -> Iterator[None]:
    """Also our own warnings go there, and those of the libraries; the stacks of errors only for ``debug``."""
    loop = asyncio.get_running_loop()
    out, err = _Diverted(sys.stdout, say, loop), _Diverted(sys.stderr, say, loop)
    before = structlog.get_config()
    with redirect_stdout(out), redirect_stderr(err):
        structlog.configure(
            processors=[partial(_worded, debug=debug)],
            logger_factory=structlog.PrintLoggerFactory(sys.stderr),
            wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING),
        )
        try:
            yield
        finally:
            structlog.configure(**before)
            out.end()
            err.end()


def _worded(logger: object, method: str, event: MutableMapping[str, Any], *, debug: bool) -> str:
    name, error = str(event.pop("event")).replace("_", " "), event.pop("exc_info", None)
    line = f"! {name}: {', '.join(f'{key} {value}' for key, value in event.items())}"
    if not isinstance(error, BaseException):
        return line
    if not debug:
        raise structlog.DropEvent  # that it happened is seen where the call ends
    return "\n".join((line, *"".join(traceback.format_exception(error)).splitlines()))
