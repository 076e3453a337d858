"""A process under a keeper: whatever happens, it ends with everything that it has started.

The keeper, see ``keeper``, sees to that even if this server is killed. If
somebody ends the keeper itself, the others are found by a mark in their
environment, which whoever is started inherits.
"""

import asyncio
import os
import signal
import sys
import time
from asyncio.subprocess import PIPE, SubprocessStreamProtocol
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from stellwerk.processes import keeper

MARK = "STELLWERK_CHILD"

_ENDING = 10.0
"""Seconds in which a keeper must have done its work; a process that does not want to end costs it some."""
_PROCESSES = Path("/proc")
_SEARCHING, _LOOK = 5.0, 0.02


class Kept(SubprocessStreamProtocol):
    """The streams of a keeper, and the moment of its death: asyncio's own process waits for its pipes, too."""

    stdin: asyncio.StreamWriter
    stdout: asyncio.StreamReader
    stderr: asyncio.StreamReader
    transport: asyncio.SubprocessTransport

    def __init__(self, mark: str, limit: int) -> None:
        super().__init__(limit=limit, loop=asyncio.get_running_loop())
        self._mark = mark
        self._dead = asyncio.Event()

    def process_exited(self) -> None:
        super().process_exited()
        self._dead.set()

    async def ended(self) -> int:
        """Wait until nothing is left; returns how the worker ended, like a shell does."""
        await self._dead.wait()
        code = self.transport.get_returncode() or 0
        if code < 0:  # by a signal, which no keeper that has done its work ends by
            await asyncio.to_thread(_end_marked, self._mark)
        return code

    async def end(self) -> None:
        """Close its input, upon which the keeper ends all that is below it; if it does not, do it here."""
        self.stdin.close()
        try:
            async with asyncio.timeout(_ENDING):
                await self._dead.wait()
        except TimeoutError:
            with suppress(ProcessLookupError):
                os.killpg(self.transport.get_pid(), signal.SIGKILL)
        await self.ended()
        self.transport.close()


async def start_kept(request: Mapping[str, Any], environment: Mapping[str, str], *, limit: int) -> Kept:
    """Start a keeper and tell it what to do. ``limit`` is how much is read ahead of whoever reads.

    A module has the keeper's ``environment``, a command the one in the request.
    """
    mark = os.urandom(12).hex()
    marked = {MARK: mark}
    transport, kept = await asyncio.get_running_loop().subprocess_exec(
        lambda: Kept(mark, limit),
        *(sys.executable, "-I", keeper.__file__),
        env={**environment, **marked},
        stdin=PIPE,
        stdout=PIPE,
        stderr=PIPE,
        start_new_session=True,
    )
    kept.transport = transport
    kept.stdin.write(msgspec.json.encode({**request, "mark": marked}) + b"\n")
    return kept


def _end_marked(mark: str) -> None:
    """Kill whoever has the mark, until nobody has. Where there is no such folder, nobody can be found."""
    begin = time.monotonic()
    while (found := _marked(f"{MARK}={mark}".encode())) and time.monotonic() - begin < _SEARCHING:
        for pid in found:
            with suppress(ProcessLookupError, PermissionError):  # ended meanwhile, or became another user's
                os.kill(pid, signal.SIGKILL)
        time.sleep(_LOOK)


def _marked(variable: bytes) -> list[int]:
    """One that has ended has no environment any more, even if nobody has noticed its end yet."""
    found: list[int] = []
    for entry in _PROCESSES.glob("[0-9]*"):
        with suppress(OSError):  # ended meanwhile, or another user's
            if variable in (entry / "environ").read_bytes().split(b"\0"):
                found.append(int(entry.name))
    return found
