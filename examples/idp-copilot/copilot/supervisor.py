"""Runs one service that never outlives this script: python -I supervisor.py FOLDER COMMAND...

The service ends when standard input closes, which means that the server is gone, and on SIGTERM. The script holds
the lock in FOLDER, which contains its process id, so that no other process is mistaken for it. It does not import
Stellwerk.
"""

import ctypes
import fcntl
import json
import os
import select
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

LOCK, LOG, APP, STATE = "lock", "service.log", "app", "deployment.json"
_PATIENCE = 3.0
"""Seconds between asking the service to end and ending it."""
_SET_DEATH_SIGNAL = 1


def main(folder: Path, command: list[str]) -> None:
    with (folder / LOCK).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        print(os.getpid(), file=lock, flush=True)
        stirred = _stirred_by_signals()
        service = subprocess.Popen(
            command,
            cwd=folder / APP,
            stdin=subprocess.DEVNULL,
            stdout=sys.stderr,  # the log
            start_new_session=True,
            preexec_fn=_die_with_our_parent,
        )
        print(service.pid, flush=True)
        select.select([sys.stdin, stirred], [], [])
        _end(service)
        _forget(folder)


def _stirred_by_signals() -> int:
    stirred, stir = os.pipe()
    os.set_blocking(stir, False)
    signal.set_wakeup_fd(stir, warn_on_full_buffer=False)
    for signum in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT):
        signal.signal(signum, lambda signum, frame: None)
    return stirred


def _die_with_our_parent() -> None:
    """In the service: even if the supervisor itself is killed, on Linux it goes as well."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_SET_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)


def _end(service: "subprocess.Popen[bytes]") -> None:
    for signum in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(service.pid, signum)
        with suppress(subprocess.TimeoutExpired):
            service.wait(_PATIENCE)


def _forget(folder: Path) -> None:
    """What the deployment says of itself is true no more, unless it is another one's by now."""
    state = folder.parent.parent / STATE
    with suppress(FileNotFoundError, ValueError):
        if json.loads(state.read_text("utf-8"))["release"] == folder.name:
            state.unlink()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
