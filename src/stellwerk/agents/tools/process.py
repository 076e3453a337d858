"""Tool processes: runs a tool in a child process, which unlike a thread can be killed.

The child gets its arguments and an environment without secrets, and returns one
answer. When the call ends, by a result, a timeout, a stop or the death of this
server, the child and all its descendants end with it. The number of processes is
limited; waiting for a free slot counts towards the timeout of the call.
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
from stellwerk.agents.tools.worker import MAX_ANSWER_BYTES
from stellwerk.envelope.introspection import Blob
from stellwerk.envelope.results import ToolResult
from stellwerk.errors import ToolFailed
from stellwerk.logs import get_logger
from stellwerk.processes.supervised_process import ENDING, ProcessResult, run_request

logger = get_logger(__name__)

MAX_PROCESSES = 16
"""Processes at one time; each is a Python interpreter."""

_MAX_OUTPUT_SHOWN = 300
_ENVIRONMENT = {
    "PATH": f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin",
    "LANG": "C.UTF-8",
}

_slots: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = WeakKeyDictionary()


ConvertedResult = tuple[ToolResult, tuple[str, ...], tuple[Blob, ...]]
"""The return value of a call: its typed result, notes on it, and the bytes that it refers to."""


class _Outcome(msgspec.Struct, frozen=True):
    """The answer of the child: a failure or a result."""

    failure: str | None = None
    result: ToolResult | None = None
    notes: tuple[str, ...] = ()
    blobs: tuple[Blob, ...] = ()


async def run_in_process(
    spec: ToolSpec, arguments: str, *, slots: asyncio.Semaphore | None = None, patience: float = ENDING
) -> ConvertedResult:
    """Call the function of ``spec`` with ``arguments``, a JSON object, and return its result as ``to_result`` does.

    A cancelled call leaves no process behind: after ``patience`` it is killed together with its supervisor.

    Raises:
        ToolFailed: the tool raised, or its process ended without an answer.
    """
    reference = _reference(spec)
    request = {"module": worker.__name__, "reference": reference, "path": sys.path, "arguments": arguments}
    environment = {**_ENVIRONMENT, "STELLWERK_DATA": str(data_folder().parent)}
    async with slots or _slots.setdefault(asyncio.get_running_loop(), asyncio.Semaphore(MAX_PROCESSES)):
        response = await run_request(request, environment, largest=MAX_ANSWER_BYTES, patience=patience)
    if response.printed:
        logger.info("tool_printed", tool=spec.name, text=response.printed)
    return _decode(spec.name, response)


def _reference(spec: ToolSpec) -> str:
    """``module:name`` if the package is importable; ``file:name`` for a script or a module loaded from a file."""
    name = spec.function.__module__
    installed = name != "__main__" and PathFinder.find_spec(name.partition(".")[0]) is not None
    return f"{name if installed else sys.modules[name].__file__}:{spec.function.__name__}"


def _decode(name: str, response: ProcessResult) -> ConvertedResult:
    try:
        outcome = msgspec.msgpack.decode(response.answer, type=_Outcome) if response.answer else _Outcome()
    except msgspec.MsgspecError as error:
        raise ToolFailed(name, f"gave an answer that cannot be read; {_exit_text(response)}") from error
    if outcome.failure is not None:
        raise ToolFailed(name, f"failed: {outcome.failure}")
    if outcome.result is None:
        raise ToolFailed(name, f"gave no answer; {_exit_text(response)}")
    return outcome.result, outcome.notes, outcome.blobs


def _exit_text(response: ProcessResult) -> str:
    how = f"its process ended with {response.ending()}"
    return f"{how}; its last output: {response.printed[-_MAX_OUTPUT_SHOWN:]}" if response.printed else how
