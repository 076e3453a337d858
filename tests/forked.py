"""``stellwerk …`` in a process of its own, forked from one that has imported everything: half a second, not three.

It has its own id, memory and descriptors, and ends as any other. Tests of how the command is started, and of what it
finds in its first moments, use ``subprocess``.
"""

import fcntl
import multiprocessing
import os
import resource
import runpy
import signal
import sys
import termios
from collections.abc import Mapping, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from tempfile import TemporaryFile

from tests.commands import Done

_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(
    [
        "stellwerk.ops.serve",
        "stellwerk.cli.run",
        "stellwerk.agents.build.checklist",
        "stellwerk.agents.middleware.build",
    ]
    + ["tests.forked"]
)

_PATIENCE = 240

FOURTH = 100
"""Far from all that a forked process has open."""
Limits = tuple[int, int]


class Forked:
    """What a test needs of ``subprocess.Popen``."""

    def __init__(
        self,
        arguments: Sequence[str],
        *,
        files: Sequence[int],
        cwd: Path,
        environment: Mapping[str, str],
        module: str = "stellwerk",
    ) -> None:
        """``files`` are its standard input, output and error; if the first is a terminal, it is its own.

        A fourth is its descriptor ``FOURTH``. Another ``module`` is run as ``python -m`` would.
        """
        given = [Connection(os.dup(file)) for file in files]
        limits = resource.getrlimit(resource.RLIMIT_NOFILE)
        self._process = _FORKS.Process(target=_become, args=(module, arguments, given, cwd, environment, limits))
        self._process.start()
        for each in given:
            each.close()

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        if self._process.exitcode is None:
            raise TimeoutError(f"process {self.pid} has not ended after {timeout} s")
        return self._process.exitcode

    def send_signal(self, signum: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, signum)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def completed(
    *arguments: str, cwd: Path | None = None, stdin: bytes = b"", environment: Mapping[str, str] | None = None
) -> Done:
    """Run it to its end, as ``subprocess.run`` would."""
    with TemporaryFile() as given, TemporaryFile() as out, TemporaryFile() as err:
        given.write(stdin)
        given.seek(0)
        files, around = [file.fileno() for file in (given, out, err)], {**surroundings(), **(environment or {})}
        process = Forked(arguments, files=files, cwd=cwd or Path.cwd(), environment=around)
        try:
            code = process.wait(_PATIENCE)
        finally:
            process.kill()
        out.seek(0)
        err.seek(0)
        return Done(code, out.read().decode(), err.read().decode())


def surroundings() -> dict[str, str]:
    return dict(os.environ)  # noqa: TID251


def _become(
    module: str,
    arguments: Sequence[str],
    files: Sequence[Connection],
    cwd: Path,
    environment: Mapping[str, str],
    limits: Limits,
) -> None:
    from stellwerk.cli import app

    os.chdir(cwd)
    os.environ.clear()  # noqa: TID251
    os.environ.update(environment)  # noqa: TID251
    resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    # A shell lets what it starts in the background ignore Ctrl-C, and children inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    _take(files)
    sys.argv = [module, *arguments]
    if module == "stellwerk":
        app(arguments, prog_name=module)
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def _take(files: Sequence[Connection]) -> None:
    for number, file in zip((0, 1, 2, FOURTH), files, strict=False):
        os.dup2(file.fileno(), number)
        file.close()
    if os.isatty(0):
        os.setsid()
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w", buffering=1)
