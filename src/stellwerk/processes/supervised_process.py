"""Supervised processes, which end with everything they started, and one request to one.

The supervisor ensures that even if this server is killed. If the supervisor
itself is killed, the others are found by a mark in their environment, which
every child inherits.
"""

import asyncio
import os
import signal
import sys
import time
from asyncio.subprocess import PIPE, SubprocessStreamProtocol
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from stellwerk.processes import supervisor_script

MARK = "STELLWERK_CHILD"
SUPERVISOR = [sys.executable, "-I", supervisor_script.__file__]
"""The command of the supervisor."""

ENDING = 10.0
"""Seconds in which a supervisor must have ended all processes below it."""
_PROCESSES = Path("/proc")
_SEARCHING, _LOOK = 5.0, 0.02
_PIECE = 1 << 16
_PRINTED = 8 * 1024
"""How much of what a worker prints, the end of it, is kept."""

_endings: set["asyncio.Task[None]"] = set()


class SupervisedProcess(SubprocessStreamProtocol):
    """A supervisor's streams and the moment of its death; asyncio would wait for its pipes, too."""

    stdin: asyncio.StreamWriter
    stdout: asyncio.StreamReader
    stderr: asyncio.StreamReader
    transport: asyncio.SubprocessTransport

    def __init__(self, mark: str) -> None:
        super().__init__(limit=1 << 16, loop=asyncio.get_running_loop())
        self._mark = mark
        self._dead = asyncio.Event()

    def process_exited(self) -> None:
        super().process_exited()
        self._dead.set()

    async def ended(self) -> int:
        """Wait until nothing is left; returns how the worker ended, like a shell does."""
        await self._dead.wait()
        code = self.transport.get_returncode() or 0
        if code < 0:  # by a signal: the supervisor was killed
            await asyncio.to_thread(end_marked, self._mark)
        return code

    async def end(self, patience: float) -> None:
        """Close its input: the supervisor ends everything below it; if it does not, do it here."""
        self.stdin.close()
        try:
            async with asyncio.timeout(patience):
                await self._dead.wait()
        except TimeoutError:
            with suppress(ProcessLookupError):
                os.killpg(self.transport.get_pid(), signal.SIGKILL)
        await self.ended()
        self.transport.close()


async def start_supervised(
    request: Mapping[str, Any], environment: Mapping[str, str], *, python: str | None = None
) -> SupervisedProcess:
    """Start a supervisor, perhaps with another interpreter, and send it the request for a module."""
    mark = os.urandom(12).hex()
    own, *arguments = SUPERVISOR
    transport, process = await asyncio.get_running_loop().subprocess_exec(
        lambda: SupervisedProcess(mark),
        python or own,
        *arguments,
        env={**environment, MARK: mark},
        stdin=PIPE,
        stdout=PIPE,
        stderr=PIPE,
        start_new_session=True,
    )
    process.transport = transport
    process.stdin.write(msgspec.json.encode(request) + b"\n")
    return process


def command_environment(request: Mapping[str, Any]) -> dict[str, str]:
    """The environment of a supervisor that is started by other means, with its command.

    After its end, ``end_marked`` ends what a supervisor that was killed has left behind.
    """
    marked = {MARK: os.urandom(12).hex()}
    return {**marked, supervisor_script.REQUEST: msgspec.json.encode({**request, "mark": marked}).decode()}


def end_marked(mark: str) -> None:
    """Kill every process with the mark, until none has it. Without /proc none can be found."""
    begin = time.monotonic()
    while (found := _marked(f"{MARK}={mark}".encode())) and time.monotonic() - begin < _SEARCHING:
        for pid in found:
            with suppress(ProcessLookupError, PermissionError):  # ended, or another user's
                os.kill(pid, signal.SIGKILL)
        time.sleep(_LOOK)


def _marked(variable: bytes) -> list[int]:
    """A process that has ended has no environment any more, even before it is reaped."""
    found: list[int] = []
    for entry in _PROCESSES.glob("[0-9]*"):
        with suppress(OSError):  # ended meanwhile, or another user's
            if variable in (entry / "environ").read_bytes().split(b"\0"):
                found.append(int(entry.name))
    return found


@dataclass(frozen=True, slots=True)
class ProcessResult:
    answer: bytes
    """A part of it, and more bytes than were allowed, if the worker was ended for that."""
    printed: str
    code: int
    """The exit code of the worker, as a shell reports it."""

    def ended_by(self) -> signal.Signals | None:
        number = self.code - 128 if self.code > 128 else -self.code
        return signal.Signals(number) if number in set(signal.Signals) else None

    def ending(self) -> str:
        by = self.ended_by()
        return by.name if by is not None else f"exit code {self.code}"


async def run_request(
    request: Mapping[str, Any], environment: Mapping[str, str], *, largest: int, patience: float = ENDING
) -> ProcessResult:
    """Send a request to a new process and read its answer; over ``largest`` bytes it is ended.

    A caller that is cancelled while it waits leaves no process behind.
    """
    process = await start_supervised(request, environment)
    try:
        answer, printed, _, code = await asyncio.gather(
            _answer(process, largest), _tail(process.stderr), _sent(process.stdin), process.ended()
        )
    finally:
        # Not in this task alone: it may be cancelled again, and the child must still be waited for.
        ending = asyncio.create_task(process.end(patience))
        _endings.add(ending)
        ending.add_done_callback(_endings.discard)
        await asyncio.shield(ending)
    return ProcessResult(answer, printed, code)


async def _sent(pipe: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):  # a child that dies while reading shows in its exit code
        await pipe.drain()


async def _answer(process: SupervisedProcess, largest: int) -> bytes:
    found = bytearray()
    while piece := await process.stdout.read(_PIECE):
        if len(found) <= largest:
            found += piece
        else:
            process.stdin.close()
    return bytes(found)


async def _tail(pipe: asyncio.StreamReader) -> str:
    last = b""
    while piece := await pipe.read(_PIECE):
        last = (last + piece)[-_PRINTED:]
    return last.decode(errors="replace").strip()
