"""The keyboard: a line of the user's, read beside the event loop, so that servers and graphs stay alive meanwhile."""

import asyncio
import os
import sys
import termios
import threading
from contextlib import suppress
from typing import Any


class Keyboard:
    def __init__(self) -> None:
        self._before: list[Any] | None = None
        self._reading = False

    async def line(self, prompt: str) -> str:
        """
        Raises:
            EOFError: there will be no more.
        """
        with suppress(ImportError):
            import readline  # noqa: F401 - with it ``input`` can edit the line and has a history
        loop = asyncio.get_running_loop()
        typed: asyncio.Future[str | None] = loop.create_future()

        def read() -> None:
            try:
                text: str | None = input(prompt)
            except (EOFError, OSError, ValueError):
                text = None
            with suppress(RuntimeError):  # the loop is closed; nobody waits any more
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
        # The prompt stands in the row.
        sys.stdout.flush()
        os.write(sys.stdout.fileno(), b"\n")
