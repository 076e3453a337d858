"""The server as a child process: started on a free port, looked at through /proc, ended by its id."""

import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from tests import keyed, stores
from tests.forked import Forked, surroundings

_STARTING = 240
_ENDING = 120


Process = subprocess.Popen[bytes] | Forked


@dataclass(frozen=True)
class ServerProcess:
    process: Process
    address: str
    errors: Path
    """What the process wrote to its standard error."""
    out: IO[bytes]

    @property
    def pid(self) -> int:
        return self.process.pid

    def kill(self) -> None:
        """SIGKILL: nothing of it gets another turn."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """SIGTERM, as an operator would."""
        self._end(signal.SIGTERM)

    def rss(self) -> int:
        """Resident memory in bytes."""
        status = Path(f"/proc/{self.pid}/status").read_text("ascii")
        return int(status.split("VmRSS:")[1].split()[0]) * 1024

    def sockets(self) -> int:
        """How many sockets the process holds open."""
        return sum(target.startswith("socket:") for target in self._descriptors())

    def _descriptors(self) -> Iterator[str]:
        for entry in Path(f"/proc/{self.pid}/fd").iterdir():
            try:
                yield str(entry.readlink())
            except FileNotFoundError:  # closed while we looked
                continue

    def _end(self, how: signal.Signals) -> None:
        if self.process.poll() is None:
            self.process.send_signal(how)
        try:
            self.process.wait(_ENDING)
        finally:
            if self.process.poll() is None:
                self.process.kill()
                self.process.wait()
            self.out.close()


def start(
    data: Path,
    *,
    errors: Path,
    inside: Sequence[str] = (),
    serves: Sequence[str] = (),
    port: int = 0,
    **settings: object,
) -> ServerProcess:
    """Start ``stellwerk serve`` and wait until it says where it listens.

    ``inside`` is a command that runs another one, ``serves`` are systems and graphs beside the demo; settings are given
    as the environment variables they are.
    """
    given = {f"STELLWERK_{name.upper()}": str(value) for name, value in settings.items()}
    environment = {**stores.environment(data), **given}
    serve = ["serve", *serves, "--port", str(port), "--data", str(data)]
    process, out = _executed(inside, serve, environment, errors) if inside else _forked(serve, environment, errors)
    found = ServerProcess(process, _address(out), errors, out)
    if not found.address:
        found.kill()
        raise RuntimeError(f"the server did not start; it said: {errors.read_text('utf-8', 'replace')[-2000:]}")
    keyed.close_door(found.address, data)
    return found


def _executed(
    inside: Sequence[str], serve: Sequence[str], environment: Mapping[str, str], errors: Path
) -> tuple[Process, IO[bytes]]:
    variables = [f"{name}={value}" for name, value in environment.items()]
    command = [*inside, "env", *variables, sys.executable, "-m", "stellwerk", *serve]
    with errors.open("ab") as stderr:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=stderr)
    assert process.stdout is not None
    return process, process.stdout


def _forked(serve: Sequence[str], environment: Mapping[str, str], errors: Path) -> tuple[Process, IO[bytes]]:
    here, there = os.pipe()
    with open(there, "wb") as stdout, errors.open("ab") as stderr, open(os.devnull, "rb") as stdin:
        files = [file.fileno() for file in (stdin, stdout, stderr)]
        process = Forked(serve, files=files, cwd=Path.cwd(), environment={**surroundings(), **environment})
    return process, open(here, "rb")


def _address(out: IO[bytes]) -> str:
    """From ``Stellwerk 1.2 is ready (process 12): open http://127.0.0.1:4711/``; empty if it never says that."""
    while select.select([out], [], [], _STARTING)[0]:
        line = out.readline().decode()
        if " is ready " in line or not line:
            return line.rpartition(" ")[2].strip().removesuffix("/")
    return ""


@contextmanager
def server_process(
    data: Path,
    *,
    errors: Path,
    inside: Sequence[str] = (),
    serves: Sequence[str] = (),
    port: int = 0,
    **settings: object,
) -> Iterator[ServerProcess]:
    server = start(data, errors=errors, inside=inside, serves=serves, port=port, **settings)
    try:
        yield server
    finally:
        server.kill()
