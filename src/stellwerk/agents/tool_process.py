"""Tools that run in a process of their own, because a process can be ended and a thread cannot.

The child gets arguments and an environment without anybody's secrets, and gives
back one answer. However the call ends, with a result, by its timeout, by a stop
or because this server was killed, the child and whatever it started end, too.
Only so many run at once; to wait for a place is a part of the call.
"""

import asyncio
import signal
import sys
from contextlib import suppress
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import msgspec
import structlog

from stellwerk.agents.tool_child import LARGEST_ANSWER
from stellwerk.agents.tool_kept import Kept, start_kept
from stellwerk.agents.tool_spec import ToolSpec
from stellwerk.envelope.results import ToolResult
from stellwerk.envelope.shapes import Blob
from stellwerk.errors import ToolFailed

logger = structlog.get_logger(__name__)

AT_ONCE = 16
"""Calls that have a process at one time; each is an interpreter of its own."""

_PIECE = 1 << 16
_PRINTED = 8 * 1024
"""How much of what a function prints, the end of it, is kept for the log."""
_LAST_WORDS = 300
_ENVIRONMENT = {
    "PATH": f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin",
    "LANG": "C.UTF-8",
}

_endings: set["asyncio.Task[None]"] = set()
_places: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = WeakKeyDictionary()


Made = tuple[ToolResult, tuple[str, ...], tuple[Blob, ...]]
"""What a call made: its result, notes on it, and the bytes that it refers to."""


class _Outcome(msgspec.Struct, frozen=True):
    """What the child answers: a failure, or else a result."""

    failure: str | None = None
    result: ToolResult | None = None
    notes: tuple[str, ...] = ()
    blobs: tuple[Blob, ...] = ()


async def run_in_process(spec: ToolSpec, arguments: str) -> Made:
    """Call the function of ``spec`` with ``arguments``, a JSON object; what comes back is what ``to_result`` gives.

    Whoever is cancelled while he waits leaves no process behind.

    Raises:
        ToolFailed: it raised, or ended in any other way without an answer.
    """
    async with _places.setdefault(asyncio.get_running_loop(), asyncio.Semaphore(AT_ONCE)):
        kept = await start_kept(_request(spec, arguments), _ENVIRONMENT, limit=_PIECE)
        try:
            answer, printed, code = await _conversed(kept)
        finally:
            # Not in this task alone: it may be cancelled once more, and the child has to be waited for all the same.
            ending = asyncio.create_task(kept.end())
            _endings.add(ending)
            ending.add_done_callback(_endings.discard)
            await asyncio.shield(ending)
    if printed:
        logger.info("tool_printed", tool=spec.name, text=printed)
    return _understood(spec.name, answer, code, printed)


def _request(spec: ToolSpec, arguments: str) -> dict[str, Any]:
    """Where the function is, where to look for what it imports, and its arguments."""
    return {"reference": _reference(spec), "path": sys.path, "arguments": arguments}


def _reference(spec: ToolSpec) -> str:
    """By module, if its package can be found by anybody; by file, if it is a script or was loaded from a file."""
    name = spec.function.__module__
    installed = name != "__main__" and PathFinder.find_spec(name.partition(".")[0]) is not None
    return f"{name if installed else sys.modules[name].__file__}:{spec.function.__name__}"


async def _conversed(kept: Kept) -> tuple[bytes, str, int]:
    answer, printed, _, code = await asyncio.gather(
        _answer(kept.stdout, kept.stdin), _tail(kept.stderr), _sent(kept.stdin), kept.ended()
    )
    return answer, printed, code


async def _sent(pipe: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):  # a child that dies before it has read everything says so by its exit
        await pipe.drain()


async def _answer(pipe: asyncio.StreamReader, lifeline: asyncio.StreamWriter) -> bytes:
    """All of it; if it is more than allowed, a part, and the end of the child."""
    found = bytearray()
    while piece := await pipe.read(_PIECE):
        if len(found) <= LARGEST_ANSWER:
            found += piece
        else:
            lifeline.close()
    return bytes(found)


async def _tail(pipe: asyncio.StreamReader) -> str:
    last = b""
    while piece := await pipe.read(_PIECE):
        last = (last + piece)[-_PRINTED:]
    return last.decode(errors="replace").strip()


def _understood(name: str, answer: bytes, code: int, printed: str) -> Made:
    try:
        outcome = msgspec.msgpack.decode(answer, type=_Outcome) if answer else _Outcome()
    except msgspec.MsgspecError as error:
        raise ToolFailed(name, f"gave an answer that cannot be read; {_exit(code, printed)}") from error
    if outcome.failure is not None:
        raise ToolFailed(name, f"failed: {outcome.failure}")
    if outcome.result is None:
        raise ToolFailed(name, f"gave no answer; {_exit(code, printed)}")
    return outcome.result, outcome.notes, outcome.blobs


def _exit(code: int, printed: str) -> str:
    number = code - 128 if code > 128 else -code
    how = signal.Signals(number).name if number in set(signal.Signals) else f"exit code {code}"
    return f"its process ended with {how}" + (f"; its last words: {printed[-_LAST_WORDS:]}" if printed else "")
