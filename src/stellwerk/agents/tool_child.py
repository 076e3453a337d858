"""The other side of ``tool_process``: a script that runs one function, and leaves no process behind.

It is two processes. The worker imports the function and calls it. The keeper
imports next to nothing and only waits: for the end of the worker, or for the
end of its own standard input, which means that the call was given up or that
the server is gone. In either case it ends whatever the function started, also
what tried to get away, and then itself.

The request is a line of JSON on standard input; the answer is MessagePack on
what is standard output here. What the function prints goes to standard error.
"""

import json
import os
import select
import signal
import sys
import time
from contextlib import suppress
from types import TracebackType
from typing import Any

LARGEST_ANSWER = 16 * 1024 * 1024
PATIENCE = 2.0
"""Seconds between asking a process to end and ending it."""
_DESPAIR = 5.0
"""Seconds after which even a killed process, stuck in the kernel, is left to itself."""
_LOOK = 0.02
_SET_CHILD_SUBREAPER, _SET_DEATH_SIGNAL = 36, 1
_REQUEST, _PRINTED, _PROCESSES = 0, 2, "/proc"


def main() -> None:
    _close_what_was_not_meant_for_us()
    request = _read_request()
    _control(_SET_CHILD_SUBREAPER, 1)
    answer = os.dup(1)  # not inherited by what the function starts
    os.dup2(_PRINTED, 1)
    keeper = os.getpid()
    worker = os.fork()
    if worker == 0:
        _control(_SET_DEATH_SIGNAL, signal.SIGKILL)
        if os.getppid() == keeper:
            _work(request, answer)
    else:
        os.close(answer)
        sys.exit(_keep(worker))


def _close_what_was_not_meant_for_us() -> None:
    """uvloop hands down whatever the server had open."""
    for name in os.listdir("/dev/fd"):
        if int(name) > _PRINTED:
            with suppress(OSError):  # the folder itself was open when it was read
                os.close(int(name))


def _read_request() -> dict[str, Any]:
    line = b""
    while not line.endswith(b"\n"):
        piece = os.read(_REQUEST, 1 << 16)
        if not piece:
            sys.exit(0)  # the server was gone before it could say what it wanted
        line += piece
    request: dict[str, Any] = json.loads(line)
    return request


def _control(option: int, value: int) -> None:
    """prctl, where there is one: orphans below come to us; a worker does not outlive us."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


# In the worker.


def _work(request: dict[str, Any], answer: int) -> None:
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, _REQUEST)
    os.close(null)

    def tell_failure(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        sys.__excepthook__(kind, error, trace)
        _send(answer, {"failure": f"{kind.__name__}: {error}"[:2000]})

    sys.excepthook = tell_failure
    sys.path[:] = request["path"]
    from stellwerk.agents.references import load_reference
    from stellwerk.agents.tool_spec import ToolSpec, tool
    from stellwerk.envelope.results import to_result

    found = load_reference(request["reference"])
    spec = found if isinstance(found, ToolSpec) else tool(found)
    checked = spec.arguments.model_validate_json(request["arguments"])
    value = spec.function(**{name: checked.__dict__[name] for name in spec.arguments.model_fields})
    result, notes, blobs = to_result(value)
    _send(answer, {"result": result, "notes": notes, "blobs": blobs})


def _send(answer: int, outcome: dict[str, Any]) -> None:
    import msgspec

    encoded = msgspec.msgpack.encode(outcome)
    if len(encoded) > LARGEST_ANSWER:
        limit = f"at most {LARGEST_ANSWER >> 20} MiB are taken; return less, or in parts"
        encoded = msgspec.msgpack.encode({"failure": f"its result has {len(encoded) >> 20} MiB; {limit}"})
    with os.fdopen(answer, "wb") as pipe:
        pipe.write(encoded)


# In the keeper.


def _keep(worker: int) -> int:
    """Wait until the worker has ended or is to end; then end all others. Returns how the worker ended."""
    stirred, stir = os.pipe()
    os.set_blocking(stir, False)
    signal.set_wakeup_fd(stir, warn_on_full_buffer=False)
    for signum in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT):
        signal.signal(signum, lambda signum, frame: None)  # woken up; the others are for the worker
    ends: dict[int, int] = {}
    _reap(ends)
    while worker not in ends:
        ready, _, _ = select.select([_REQUEST, stirred], [], [])
        if _REQUEST in ready:  # nothing more is ever sent, so this is its end
            break
        os.read(stirred, 1 << 10)
        _reap(ends)
    _end_all(ends)
    status = ends.get(worker, signal.SIGKILL)
    return os.waitstatus_to_exitcode(status) if not os.WIFSIGNALED(status) else 128 + os.WTERMSIG(status)


def _reap(ends: dict[int, int]) -> None:
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        ends[pid] = status


def _end_all(ends: dict[int, int]) -> None:
    if not os.path.isdir(_PROCESSES):  # not on Linux: the whole group, ourselves included
        os.killpg(0, signal.SIGKILL)
    begin, asked = time.monotonic(), set[int]()
    while others := _descendants():
        waited = time.monotonic() - begin
        if waited > PATIENCE + _DESPAIR:
            return
        for pid in others if waited > PATIENCE else others - asked:
            _send_signal(pid, signal.SIGKILL if waited > PATIENCE else signal.SIGTERM)
        asked |= others
        time.sleep(_LOOK)
        _reap(ends)


def _send_signal(pid: int, signum: int) -> None:
    with suppress(ProcessLookupError, PermissionError):  # ended meanwhile, or became another user's
        os.kill(pid, signum)


def _descendants() -> set[int]:
    """Everybody below us. Whoever lost its parent is below us, too: see _control."""
    children: dict[int, list[int]] = {}
    for name in filter(str.isdigit, os.listdir(_PROCESSES)):
        try:
            with open(f"{_PROCESSES}/{name}/stat", "rb") as stat:
                parent = int(stat.read().rpartition(b")")[2].split()[1])
        except (FileNotFoundError, ProcessLookupError):
            continue
        children.setdefault(parent, []).append(int(name))
    found, waiting = set[int](), [os.getpid()]
    while waiting:
        below = children.get(waiting.pop(), [])
        found.update(below)
        waiting += below
    return found


if __name__ == "__main__":
    main()
