"""Processes: the server as its users start it, and what the kernel says it costs. Linux only."""

import asyncio
import re
import resource
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

_READY = re.compile(rb"http://127\.0\.0\.1:(\d+)/")
_PATIENCE = 30


@dataclass(frozen=True, slots=True)
class Server:
    port: int
    pid: int

    def cpu(self) -> float:
        """Seconds of CPU so far, of all threads."""
        return cpu_of(self.pid)

    def resident(self) -> int:
        """Bytes of memory in use now."""
        status = Path(f"/proc/{self.pid}/status").read_text("ascii")
        return int(status.split("VmRSS:")[1].split()[0]) * 1024


def cpu_of(pid: int) -> float:
    """As /proc/<pid>/stat tells it, in nanoseconds instead of ticks of 10 ms: clock_getcpuclockid(3) of the process."""
    return time.clock_gettime((~pid << 3) | 2)


@asynccontextmanager
async def serving(command: list[str], data: Path) -> AsyncIterator[Server]:
    """Start a server on a free port of its own, and end it."""
    process = await asyncio.create_subprocess_exec(
        *command, "--port", "0", "--data", str(data), stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
    )
    try:
        async with asyncio.timeout(_PATIENCE):
            port = await _port(process)
        yield Server(port, process.pid)
    finally:
        await end(process)


async def end(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        process.terminate()
        try:
            async with asyncio.timeout(_PATIENCE):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()


async def _port(process: asyncio.subprocess.Process) -> int:
    assert process.stdout is not None
    async for line in process.stdout:
        if found := _READY.search(line):
            return int(found[1])
    raise RuntimeError("the server ended before it was ready; start it by hand to see why")


def executable(name: str) -> str:
    """A script of the environment this runs in."""
    return str(Path(sys.executable).parent / name)


def allow_many_connections() -> None:
    """As many open files as the system lets us have."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
