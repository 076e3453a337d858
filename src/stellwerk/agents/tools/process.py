"""Tool processes: runs a tool in a child process, which unlike a thread can be killed.

The child gets its arguments and an environment without secrets, and returns one answer. However
the call ends, the child and all its descendants end with it. The number of processes is limited;
waiting for a free slot counts towards the timeout of the call.
"""

import asyncio
import sys
from importlib.machinery import PathFinder
from pathlib import Path
from weakref import WeakKeyDictionary

import msgspec

from stellwerk.agents.runtime.context import data_folder
from stellwerk.agents.tools import worker
from stellwerk.agents.tools.spec import ToolSpec
from stellwerk.envelope.introspection import Blob
from stellwerk.envelope.results import ToolResult
from stellwerk.errors import ToolFailed
from stellwerk.logs import get_logger
from stellwerk.processes.supervised_process import ENDING, ProcessResult, run_request

logger = get_logger(__name__)

MAX_PROCESSES = 16
"""Processes at one time; each is a Python interpreter."""

_MAX_OUTPUT_SHOWN = 300
_PATH = f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin"
_slots: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = WeakKeyDictionary()

ConvertedResult = tuple[ToolResult, tuple[str, ...], tuple[Blob, ...]]
"""The return value of a call: its typed result, notes on it, and the bytes that it refers to."""


class _Outcome(msgspec.Struct, frozen=True):
    failure: str | None = None
    result: ToolResult | None = None
    notes: tuple[str, ...] = ()
    blobs: tuple[Blob, ...] = ()


async def run_in_process(
    spec: ToolSpec, arguments: str, *, slots: asyncio.Semaphore | None = None, patience: float = ENDING
) -> ConvertedResult:
    """Call the function of ``spec`` with ``arguments``, a JSON object.

    A cancelled call leaves no process behind: after ``patience`` it is killed with its supervisor.

    Raises:
        ToolFailed: the tool raised, or its process ended without an answer.
    """
    request = {
        "module": worker.__name__,
        "reference": _reference(spec),
        "path": sys.path,
        "arguments": arguments,
    }
    environment = {"PATH": _PATH, "LANG": "C.UTF-8", "STELLWERK_DATA": str(data_folder().parent)}
    loop = asyncio.get_running_loop()
    async with slots or _slots.setdefault(loop, asyncio.Semaphore(MAX_PROCESSES)):
        response = await run_request(request, environment, largest=worker.MAX_ANSWER_BYTES, patience=patience)
    if response.printed:
        logger.info("tool_printed", tool=spec.name, text=response.printed)
    return _decode(spec.name, response)


def _reference(spec: ToolSpec) -> str:
    """``module:name`` if the package is importable, else ``file:name``."""
    name = spec.function.__module__
    installed = name != "__main__" and PathFinder.find_spec(name.partition(".")[0]) is not None
    return f"{name if installed else sys.modules[name].__file__}:{spec.function.__name__}"


def _decode(name: str, response: ProcessResult) -> ConvertedResult:
    how = f"its process ended with {response.ending()}"
    if response.printed:
        how += f"; its last output: {response.printed[-_MAX_OUTPUT_SHOWN:]}"
    if not response.answer:
        raise ToolFailed(name, f"gave no answer; {how}")
    try:
        outcome = msgspec.msgpack.decode(response.answer, type=_Outcome)
    except msgspec.MsgspecError as error:
        raise ToolFailed(name, f"gave an answer that cannot be read; {how}") from error
    if outcome.result is None:
        raise ToolFailed(name, f"failed: {outcome.failure}")
    return outcome.result, outcome.notes, outcome.blobs
