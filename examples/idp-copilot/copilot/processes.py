"""The processes of releases: started under a supervisor, checked for health, ended by the project's lock holder."""

import fcntl
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import closing, suppress
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from urllib.request import ProxyHandler, build_opener

from . import supervisor
from .supervisor import LOCK, LOG

_HEALTHY = 30.0
"""Seconds in which a service must have begun to answer."""
_ENDING = 15.0
_LOOK = 0.05
_TAIL = 150
_LISTENING = re.compile(r"^listening on (http://127\.0\.0\.1:(\d+))$", re.MULTILINE)

_direct = build_opener(ProxyHandler({}))
_lifelines: "dict[Path, subprocess.Popen[bytes]]" = {}
"""Supervisors of ours, by their folders. When we end, so do their inputs, and by that they."""


class Unhealthy(Exception):
    """A release cannot be used; the text says why."""


@dataclass(frozen=True)
class Started:
    url: str
    port: int
    pid: int
    supervisor: int


def start(release: Path, command: list[str]) -> Started:
    """The service of a release, when it is healthy.

    Raises:
        Unhealthy: it is not, within the time it has; nothing of it is left.
    """
    environment = {"PATH": os.pathsep.join(os.get_exec_path()), "LANG": "C.UTF-8"}
    with (release / LOG).open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-I", supervisor.__file__, str(release), *command, "--host", "127.0.0.1", "--port", "0"],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            start_new_session=True,
        )
    assert process.stdout is not None
    with closing(_Trial(release, process)) as trial:
        pid = process.stdout.readline()
        if not pid:
            raise Unhealthy(f"{command[0]} cannot be started{_last_words(release)}")
        url, port = trial.address()
        trial.await_health(url)
        trial.keep()
    return Started(url, port, int(pid), process.pid)


def is_running(release: Path) -> bool:
    """Whether any process runs in the folder of a release."""
    try:
        with (release / LOCK).open("r+") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return False
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True


def end(release: Path) -> None:
    """Returns when nothing of it runs any more."""
    deadline = time.monotonic() + _ENDING
    if is_running(release):
        with suppress(ProcessLookupError):
            os.kill(int((release / LOCK).read_text()), signal.SIGTERM)
    while is_running(release) and time.monotonic() < deadline:
        time.sleep(_LOOK)
    if ours := _lifelines.pop(release, None):
        _let_go(ours)


class _Trial:
    """A release that has yet to prove itself; closed before it is kept, it ends."""

    def __init__(self, release: Path, process: "subprocess.Popen[bytes]") -> None:
        self._release, self._process = release, process
        self._deadline = time.monotonic() + _HEALTHY

    def address(self) -> tuple[str, int]:
        """Where it says that it listens."""
        while not (said := _LISTENING.search(_log(self._release))):
            self._go_on_waiting("never said where it listens")
        return said[1], int(said[2])

    def await_health(self, url: str) -> None:
        while not _answers(f"{url}/health"):
            self._go_on_waiting("does not answer 200 at /health")

    def keep(self) -> None:
        _lifelines[self._release] = self._process

    def close(self) -> None:
        if self._release not in _lifelines:
            _let_go(self._process)

    def _go_on_waiting(self, lack: str) -> None:
        if self._process.poll() is not None:
            raise Unhealthy(f"it ended by itself{_last_words(self._release)}")
        if time.monotonic() > self._deadline:
            raise Unhealthy(f"it {lack} within {_HEALTHY:g} s{_last_words(self._release)}")
        time.sleep(_LOOK)


def _answers(url: str) -> bool:
    try:
        with _direct.open(url, timeout=2) as answer:
            return bool(answer.status == 200)
    except (OSError, HTTPException):  # URLError is an OSError
        return False


def _let_go(process: "subprocess.Popen[bytes]") -> None:
    """Close its input, upon which it ends itself and the service."""
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()
    try:
        process.wait(_ENDING)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _log(release: Path) -> str:
    return (release / LOG).read_text("utf-8", errors="replace")


def _last_words(release: Path) -> str:
    words = " ".join(_log(release).split())[-_TAIL:]
    return f"; its log ends: {words}" if words else ""
