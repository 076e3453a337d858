"""The terminal of the process: prints of graphs and tools, keyboard input, and Ctrl-C."""

import asyncio
import io
import os
import signal
import sys
import termios
import threading
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Iterator, MutableMapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from functools import partial
from typing import Any, TextIO

import structlog

from stellwerk.cli.render.screen import Screen
from stellwerk.cli.shared import StandardOutput

COMPLETED, FAILED, MISUSED, AWAITING = 0, 1, 2, 3
"""Exit codes of a run; it is misused if it could not be started."""
BY_SIGNAL = 128
"""A process that a signal ended has the exit code 128 + signal, as in every shell."""
_CLEAN_UP = 3.0
"""Seconds in which stopped code may clean up."""
_TICK = 0.5


class _LineCapture(io.RawIOBase):
    """Passes on bytes as lines of text. ``input`` looks at the real ``fileno`` for a terminal."""

    def __init__(self, file: TextIO, say: Callable[[str], None]) -> None:
        self._file = file
        self._say = say
        self._loop = asyncio.get_running_loop()
        self._rest = b""

    def fileno(self) -> int:
        return self._file.fileno()

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        *lines, self._rest = (self._rest + bytes(data)).split(b"\n")
        with suppress(RuntimeError):  # the loop is closed, and nothing is shown any more
            for line in lines:
                self._loop.call_soon_threadsafe(self._say, line.decode("utf-8", "replace"))
        return len(data)

    def end(self) -> None:
        """Pass on a last line without its line end. A log of the user's may still hold the stream."""
        if self._rest:
            self.write(b"\n")


@contextmanager
def captured_prints(say: Callable[[str], None], *, debug: bool = False) -> Iterator[None]:
    """Pass on prints of graphs and tools, and warnings, line by line.

    Standard output is for the answer: a print can neither tear a row nor get among the envelopes.
    Stack traces are shown only for ``debug``.
    """
    out = _LineCapture(sys.stdout, say)
    err = _LineCapture(sys.stderr, say)
    before = structlog.get_config()
    with redirect_stdout(_as_text(out)), redirect_stderr(_as_text(err)):
        structlog.configure(
            processors=[partial(_log_line, debug=debug)],
            logger_factory=structlog.PrintLoggerFactory(sys.stderr),
            wrapper_class=structlog.make_filtering_bound_logger("warning"),
        )
        try:
            yield
        finally:
            structlog.configure(**before)
            out.end()
            err.end()


def _as_text(capture: Any) -> io.TextIOWrapper:
    return io.TextIOWrapper(capture, encoding="utf-8", errors="backslashreplace", newline="", write_through=True)


def _log_line(logger: object, method: str, event: MutableMapping[str, Any], *, debug: bool) -> str:
    name = str(event.pop("event")).replace("_", " ")
    error = event.pop("exc_info", None)
    line = "! " + (event.get("note") or f"{name}: {', '.join(f'{key} {value}' for key, value in event.items())}")
    if not isinstance(error, BaseException):
        return line
    if not debug:
        raise structlog.DropEvent  # the end of the call shows that it happened
    return line + "\n" + "".join(traceback.format_exception(error)).rstrip()


class Keyboard:
    """Reads lines beside the event loop, which keeps running meanwhile."""

    def __init__(self) -> None:
        self._before: list[Any] | None = None
        self._reading = False

    async def line(self, prompt: str) -> str:
        """Wait for a line. Raises EOFError if there will be no more."""
        with suppress(ImportError):
            import readline  # noqa: F401 - with it ``input`` can edit the line and has a history
        loop = asyncio.get_running_loop()
        typed: asyncio.Future[str | None] = loop.create_future()

        def read() -> None:
            try:
                text: str | None = input(prompt)
            except (EOFError, OSError, ValueError):
                text = None
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(lambda: None if typed.done() else typed.set_result(text))

        with suppress(termios.error):
            self._before = termios.tcgetattr(sys.stdin)
        threading.Thread(target=read, name="keyboard", daemon=True).start()
        self._reading = True
        text = await typed
        if text is None:
            self.release()
            raise EOFError
        self._reading = False
        return text

    def release(self) -> None:
        """Give the terminal back as it was, also while a line is being read."""
        if not self._reading:
            return
        self._reading = False
        if self._before is not None:
            with suppress(termios.error, ValueError):
                termios.tcsetattr(sys.stdin, termios.TCSADRAIN, self._before)
        # The cursor is behind the prompt.
        sys.stdout.flush()
        os.write(sys.stdout.fileno(), b"\n")


class TerminalRun(ABC):
    """Work in a terminal: Ctrl-C or SIGTERM stops it, a second signal exits at once.

    The signal handlers are not those of the event loop, which wait while user code blocks the loop.
    """

    def __init__(self, screen: Screen) -> None:
        self.screen = screen
        self.output = StandardOutput()
        self.keyboard = Keyboard()
        self.caught: int | None = None

    async def finished(
        self, work: Coroutine[Any, Any, int], tick: Callable[[], None], *, debug: bool = False
    ) -> "asyncio.Task[int]":
        """Do the work to its end, and leave the terminal as it was."""
        self._loop = asyncio.get_running_loop()
        self.work = asyncio.create_task(work)
        ticking = asyncio.create_task(keep_ticking(tick))
        prints = captured_prints(lambda line: self.screen.say(line, "dim"), debug=debug)
        with self._watched(), prints:
            await asyncio.wait([self.work])
            ticking.cancel()
            self.screen.settle()
            self.keyboard.release()
            others = asyncio.all_tasks() - {asyncio.current_task()}
            if self.caught is not None and others:
                await asyncio.wait(others, timeout=_CLEAN_UP)
        await asyncio.sleep(0)  # the last prints are shown
        return self.work

    @property
    def stopped(self) -> int:
        """The exit code of work that was stopped."""
        return BY_SIGNAL + (self.caught or signal.SIGINT)

    @abstractmethod
    def stop(self) -> None:
        """Called in the event loop."""

    @contextmanager
    def _watched(self) -> Iterator[None]:
        signals = (signal.SIGINT, signal.SIGTERM)
        before = {signum: signal.signal(signum, self._caught) for signum in signals}
        try:
            yield
        finally:
            for signum, listener in before.items():
                signal.signal(signum, listener)

    def _caught(self, signum: int, frame: object) -> None:
        if self.caught is not None:
            self.keyboard.release()
            os._exit(BY_SIGNAL + signum)
        self.caught = signum
        self._loop.call_soon_threadsafe(self.stop)


async def keep_ticking(tick: Callable[[], None]) -> None:
    """Draw a status line again and again, because time passes."""
    while True:
        await asyncio.sleep(_TICK)
        tick()
