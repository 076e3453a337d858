"""Tools that run in a process of their own, because a process can be ended and a thread cannot.

The child gets arguments and an environment without anybody's secrets, and gives
back one answer. However the call ends, with a result, by its timeout, by a stop
or because this server was killed, the child and whatever it started end, too.
Only so many run at once; to wait for a place is a part of the call.
"""

import asyncio
import sys
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import msgspec

from stellwerk.agents import tool_worker
from stellwerk.agents.data_folder import data_folder
from stellwerk.agents.tool_spec import ToolSpec
from stellwerk.agents.tool_worker import LARGEST_ANSWER
from stellwerk.envelope.results import ToolResult
from stellwerk.envelope.shapes import Blob
from stellwerk.errors import ToolFailed
from stellwerk.logs import get_logger
from stellwerk.processes.asking import Told, asked

logger = get_logger(__name__)

AT_ONCE = 16
"""Calls that have a process at one time; each is an interpreter of its own."""

_LAST_WORDS = 300
_ENVIRONMENT = {
    "PATH": f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin",
    "LANG": "C.UTF-8",
}

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
        environment = {**_ENVIRONMENT, "STELLWERK_DATA": str(data_folder().parent)}
        told = await asked(_request(spec, arguments), environment, largest=LARGEST_ANSWER)
    if told.printed:
        logger.info("tool_printed", tool=spec.name, text=told.printed)
    return _understood(spec.name, told)


def _request(spec: ToolSpec, arguments: str) -> dict[str, Any]:
    """Where the function is, where to look for what it imports, and its arguments."""
    return {"module": tool_worker.__name__, "reference": _reference(spec), "path": sys.path, "arguments": arguments}


def _reference(spec: ToolSpec) -> str:
    """By module, if its package can be found by anybody; by file, if it is a script or was loaded from a file."""
    name = spec.function.__module__
    installed = name != "__main__" and PathFinder.find_spec(name.partition(".")[0]) is not None
    return f"{name if installed else sys.modules[name].__file__}:{spec.function.__name__}"


def _understood(name: str, told: Told) -> Made:
    try:
        outcome = msgspec.msgpack.decode(told.answer, type=_Outcome) if told.answer else _Outcome()
    except msgspec.MsgspecError as error:
        raise ToolFailed(name, f"gave an answer that cannot be read; {_exit(told)}") from error
    if outcome.failure is not None:
        raise ToolFailed(name, f"failed: {outcome.failure}")
    if outcome.result is None:
        raise ToolFailed(name, f"gave no answer; {_exit(told)}")
    return outcome.result, outcome.notes, outcome.blobs


def _exit(told: Told) -> str:
    how = f"its process ended with {told.ending()}"
    return f"{how}; its last words: {told.printed[-_LAST_WORDS:]}" if told.printed else how
