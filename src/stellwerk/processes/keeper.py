"""The other side of ``kept``: a script that does one piece of work, or runs one command, and leaves no process behind.

It is two processes. The worker imports a module and calls its ``work``, or
becomes the command. The keeper imports next to nothing and only waits: for the
end of the worker, or for the end of its own standard input, which means that the
work was given up or that the server is gone. In either case it ends whatever the
worker started, also what tried to get away, and then itself.

The request is a line of JSON on standard input. The answer of a module goes
to what is standard output here, and what it prints to standard error. A command
has both for itself, and gets what follows the request as its input.
"""

import json
import os
import select
import signal
import sys
import time
from contextlib import suppress
from typing import Any, NoReturn

PATIENCE = 2.0
"""Seconds between asking a process to end and ending it."""
GRACE = 0.5
"""Seconds in which a command may end by itself when its input has ended."""
_DESPAIR = 5.0
"""Seconds after which even a killed process, stuck in the kernel, is left to itself."""
_LOOK = 0.02
_PIECE = 1 << 16
_SET_CHILD_SUBREAPER, _SET_DEATH_SIGNAL = 36, 1
_REQUEST, _PRINTED, _PROCESSES = 0, 2, "/proc"


def main() -> None:
    _close_what_was_not_meant_for_us()
    request, rest = _read_request()
    _control(_SET_CHILD_SUBREAPER, 1)
    sys.exit(_run_command(request, rest) if "command" in request else _run_module(request))


def _run_module(request: dict[str, Any]) -> int:
    answer = os.dup(1)  # not inherited by what the function starts
    os.dup2(_PRINTED, 1)
    worker = _fork()
    if worker == 0:
        _work(request, answer)
    os.close(answer)
    return _keep(worker, _Feed())


def _run_command(request: dict[str, Any], rest: bytes) -> int:
    theirs, ours = os.pipe()
    worker = _fork()
    if worker == 0:
        os.dup2(theirs, _REQUEST)
        _become(request)
    os.close(theirs)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # only the command may keep it open
    return _keep(worker, _Feed(ours, rest, grace=GRACE))


def _fork() -> int:
    """Like os.fork, but the worker does not outlive us."""
    keeper, worker = os.getpid(), os.fork()
    if worker == 0:
        _control(_SET_DEATH_SIGNAL, signal.SIGKILL)
        if os.getppid() != keeper:
            os._exit(1)
    return worker


def _close_what_was_not_meant_for_us() -> None:
    """uvloop hands down whatever the server had open."""
    for name in os.listdir("/dev/fd"):
        if int(name) > _PRINTED:
            with suppress(OSError):  # the folder itself was open when it was read
                os.close(int(name))


def _read_request() -> tuple[dict[str, Any], bytes]:
    """The request, and what has come after it."""
    read = b""
    while b"\n" not in read:
        piece = os.read(_REQUEST, _PIECE)
        if not piece:
            sys.exit(0)  # the server was gone before it could say what it wanted
        read += piece
    line, _, rest = read.partition(b"\n")
    return json.loads(line), rest


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
    os.dup2(null, _REQUEST)
    os.close(null)
    sys.path[:] = request["path"]
    from importlib import import_module

    import_module(request["module"]).work(request, answer)
    os._exit(0)


# In the keeper.


class _Feed:
    """Our own input, passed on to the worker if it is for him. However slowly he reads, its end is seen at once."""

    def __init__(self, pipe: int | None = None, waiting: bytes = b"", *, grace: float = 0) -> None:
        self._pipe, self._waiting, self._grace = pipe, bytearray(waiting), grace
        self._deadline: float | None = None
        if pipe is not None:
            os.set_blocking(pipe, False)

    def left(self) -> float | None:
        """Seconds that the worker has, once our input has ended."""
        return None if self._deadline is None else max(0, self._deadline - time.monotonic())

    def reading(self) -> list[int]:
        return [_REQUEST] if self._deadline is None else []

    def writing(self) -> list[int]:
        return [self._pipe] if self._pipe is not None and self._waiting else []

    def read(self) -> None:
        piece = os.read(_REQUEST, _PIECE)
        self._waiting += piece
        if not piece:
            self._deadline = time.monotonic() + self._grace
            self._close_if_done()

    def write(self) -> None:
        assert self._pipe is not None
        try:
            del self._waiting[: os.write(self._pipe, self._waiting[:_PIECE])]
        except BrokenPipeError:  # he wants no more
            self._waiting.clear()
        self._close_if_done()

    def _close_if_done(self) -> None:
        if self._pipe is not None and self._deadline is not None and not self._waiting:
            os.close(self._pipe)
            self._pipe = None


def _keep(worker: int, feed: _Feed) -> int:
    """Wait until the worker has ended or is to end; then end all others. Returns how the worker ended."""
    stirred, stir = os.pipe()
    os.set_blocking(stir, False)
    signal.set_wakeup_fd(stir, warn_on_full_buffer=False)
    for signum in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT):
        signal.signal(signum, lambda signum, frame: None)  # woken up; the others are for the worker
    ends: dict[int, int] = {}
    _reap(ends)
    while worker not in ends and (left := feed.left()) != 0:
        ready, free, _ = select.select([stirred, *feed.reading()], feed.writing(), [], left)
        if stirred in ready:
            os.read(stirred, _PIECE)
            _reap(ends)
        if _REQUEST in ready:
            feed.read()
        if free:
            feed.write()
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
