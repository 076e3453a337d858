"""The supervisor: a script that runs one worker or one command, and leaves no process behind.

It is two processes. The worker imports a module and calls its ``work``, or
becomes the command. The supervisor imports next to nothing and only waits: for the
end of the worker, or for the end of its own standard input, which means that the
work was given up or that the server is gone. In either case it ends whatever the
worker started, also what tried to get away, and then itself.

The request for a module is a line of JSON on standard input. Its answer goes to what
is standard output here, and what it prints to standard error. The request for a
command is in the environment, because the command has all three pipes for itself. A
line of its output that exceeds the limits of the request ends it.
"""

import json
import os
import select
import signal
import sys
import time
from contextlib import suppress
from threading import Thread
from typing import Any, NoReturn

PATIENCE = 2.0
"""Seconds between asking a process to end and ending it."""
GRACE = 0.5
"""Seconds in which a command may end by itself when its input has ended."""
_DESPAIR = 5.0
"""Seconds after which even a killed process, stuck in the kernel, is left to itself."""
_LOOK = 0.02
_COUNT = 0.5
"""Seconds between two counts of the processes below."""
_PIECE = 1 << 16
_SET_CHILD_SUBREAPER, _SET_DEATH_SIGNAL = 36, 1
_INPUT, _OUTPUT, _PRINTED, _PROCESSES = 0, 1, 2, "/proc"
REQUEST = "STELLWERK_REQUEST"
"""The variable with the request for a command."""
TOO_MANY = "there are too many processes; all are ended"
"""The line on standard error before a worker is ended for that."""
TOO_LONG = "a message is too long, or has too many lists and objects"
"""The line on standard error before a command is ended for that."""


def main() -> None:
    _close_inherited_files()
    command = os.environ.pop(REQUEST, None)
    request = json.loads(command or _read_line())
    _control(_SET_CHILD_SUBREAPER, 1)
    sys.exit(_run_command(request) if command else _run_module(request))


def _run_module(request: dict[str, Any]) -> int:
    answer = os.dup(_OUTPUT)  # not inherited by what the function starts
    os.dup2(_PRINTED, _OUTPUT)
    worker = _fork()
    if worker == 0:
        _work(request, answer)
    os.close(answer)
    return _supervise(worker, grace=0, most=request.get("most_processes"))


def _run_command(request: dict[str, Any]) -> int:
    input_read, input_write = os.pipe()
    output_read, output_write = os.pipe()
    worker = _fork()
    if worker == 0:
        os.dup2(input_read, _INPUT)
        os.dup2(output_write, _OUTPUT)
        _become(request)
    os.close(input_read)
    os.close(output_write)
    output = Thread(target=_copy_output, args=(output_read, request["limits"], worker), daemon=True)
    output.start()
    Thread(target=_copy_input, args=(input_write,), daemon=True).start()
    status = _supervise(worker, grace=GRACE)
    output.join(PATIENCE)
    return status


def _fork() -> int:
    """Like os.fork, but the worker does not outlive us."""
    supervisor = os.getpid()
    worker = os.fork()
    if worker == 0:
        _control(_SET_DEATH_SIGNAL, signal.SIGKILL)
        if os.getppid() != supervisor:
            os._exit(1)
    return worker


def _close_inherited_files() -> None:
    """uvloop hands down whatever the server had open."""
    for name in os.listdir("/dev/fd"):
        if int(name) > _PRINTED:
            with suppress(OSError):  # the folder itself was open when it was read
                os.close(int(name))


def _read_line() -> bytes:
    read = b""
    while not read.endswith(b"\n"):
        piece = os.read(_INPUT, _PIECE)
        if not piece:
            sys.exit(0)  # the server ended before it had sent the request
        read += piece
    return read


def _control(option: int, value: int) -> None:
    """prctl, where there is one: orphans below come to us; a worker does not outlive us."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


# In the worker.


def _become(request: dict[str, Any]) -> NoReturn:
    for signum in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them, and that is inherited
        signal.signal(signum, signal.SIG_DFL)
    try:
        if request["cwd"] is not None:
            os.chdir(request["cwd"])
        os.execvpe(request["command"][0], request["command"], request["env"] | request["mark"])
    except OSError as error:
        os.write(_PRINTED, f"cannot be started: {error.strerror}\n".encode())
    os._exit(127)


def _work(request: dict[str, Any], answer: int) -> NoReturn:
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, _INPUT)
    os.close(null)
    if "path" in request:
        sys.path[:] = request["path"]
    else:  # another environment, which has a path of its own
        sys.path[:] = [*request["first"], *sys.path, *request["last"]]
    from importlib import import_module

    import_module(request["module"]).work(request, answer)
    os._exit(0)


def leave_with(encoded: bytes, answer: int) -> NoReturn:
    """Send the answer and end at once, without waiting for threads or the interpreter's end."""
    with os.fdopen(answer, "wb") as pipe:
        pipe.write(encoded)
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(0)


# In the supervisor.


def _copy_input(target: int) -> None:
    with suppress(BrokenPipeError), open(target, "wb") as pipe:  # broken: the command reads no more
        while piece := os.read(_INPUT, _PIECE):
            pipe.write(piece)
            pipe.flush()


def _copy_output(source: int, limits: dict[str, int], worker: int) -> None:
    with suppress(BrokenPipeError), open(source, "rb") as lines, open(_OUTPUT, "wb") as pipe:
        while line := lines.readline(limits["bytes"] + 1):
            if len(line) > limits["bytes"] or line.count(b"[") + line.count(b"{") > limits["containers"]:
                os.write(_PRINTED, f"\n{TOO_LONG}\n".encode())  # the command may be in the middle of a line
                _send_signal(worker, signal.SIGKILL)
                return
            pipe.write(line)
            pipe.flush()


def _supervise(worker: int, *, grace: float, most: int | None = None) -> int:
    """Wait for the worker's end, or for its grace after the end of our input; end all others.

    If there are more than ``most`` processes, all of them are ended.
    Returns how the worker ended. Our input is not read here: its end is seen all the same.
    """
    stirred, stir = os.pipe()
    os.set_blocking(stir, False)
    signal.set_wakeup_fd(stir, warn_on_full_buffer=False)
    for signum in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT):
        signal.signal(signum, lambda signum, frame: None)  # woken up; the others are for the worker
    poll = select.poll()
    poll.register(stirred, select.POLLIN)
    poll.register(_INPUT, 0)  # only its end
    ends: dict[int, int] = {}
    _reap(ends)
    deadline: float | None = None
    while worker not in ends and (deadline is None or time.monotonic() < deadline):
        left = None if deadline is None else max(0, deadline - time.monotonic()) * 1000
        if most is not None and deadline is None:
            left = _COUNT * 1000
            if len(_descendants()) > most:
                os.write(_PRINTED, f"{TOO_MANY}\n".encode())
                _end_all(ends, patience=0)
                break
        found = dict(poll.poll(left))
        if stirred in found:
            os.read(stirred, _PIECE)
            _reap(ends)
        if _INPUT in found:
            poll.unregister(_INPUT)
            deadline = time.monotonic() + grace
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


def _end_all(ends: dict[int, int], patience: float = PATIENCE) -> None:
    if not os.path.isdir(_PROCESSES):  # not on Linux: the whole group, ourselves included
        os.killpg(0, signal.SIGKILL)
    begin, asked = time.monotonic(), set[int]()
    while others := _descendants():
        waited = time.monotonic() - begin
        if waited > patience + _DESPAIR:
            return
        for pid in others if waited >= patience else others - asked:
            _send_signal(pid, signal.SIGKILL if waited >= patience else signal.SIGTERM)
        asked |= others
        time.sleep(_LOOK)
        _reap(ends)


def _send_signal(pid: int, signum: int) -> None:
    with suppress(ProcessLookupError, PermissionError):  # ended meanwhile, or became another user's
        os.kill(pid, signum)


def _descendants() -> set[int]:
    """Every process below this one, orphans included: see _control."""
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
