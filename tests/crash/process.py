"""The server as a child process: started on a free port, looked at through /proc, ended by its id."""

import select
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

_STARTING = 240
_ENDING = 120


@dataclass(frozen=True)
class ServerProcess:
    process: subprocess.Popen[bytes]
    address: str
    errors: Path
    """What the process wrote to its standard error."""

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
            if self.process.stdout is not None:
                self.process.stdout.close()


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
    environment = [f"STELLWERK_{name.upper()}={value}" for name, value in settings.items()]
    serve = [sys.executable, "-m", "stellwerk", "serve", *serves, "--port", str(port), "--data", str(data)]
    with errors.open("ab") as stderr:
        process = subprocess.Popen(
            [*inside, "env", *environment, *serve], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=stderr
        )
    found = ServerProcess(process, _address(process), errors)
    if not found.address:
        found.kill()
        raise RuntimeError(f"the server did not start; it said: {errors.read_text('utf-8', 'replace')[-2000:]}")
    return found


def _address(process: subprocess.Popen[bytes]) -> str:
    """From ``Stellwerk 1.2 is ready (process 12): open http://127.0.0.1:4711/docs``; empty if it never says that."""
    assert process.stdout is not None
    while select.select([process.stdout], [], [], _STARTING)[0]:
        line = process.stdout.readline().decode()
        if " is ready " in line or not line:
            return line.rpartition(" ")[2].strip().removesuffix("/docs")
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
