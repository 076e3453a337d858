"""Starting: what the command line costs, how long until the server is ready, and what it takes of memory and disk."""

import asyncio
import resource
import time
from importlib.metadata import distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from benchmarks.figures import Figure, at_most
from benchmarks.processes import executable, serving

REPEATS = 5
STARTS = 3
_SETTLED = 1.0


async def measure(folder: Path) -> list[Figure]:
    help_ = min([await _help_cpu() for _ in range(REPEATS)])
    ready, resident = [], []
    for n in range(STARTS):
        seconds, size = await _start(folder / str(n))
        ready.append(seconds)
        resident.append(size)
    return [
        at_most("stellwerk --help, CPU", help_, "s", 0.3),
        at_most("stellwerk serve, ready after", min(ready), "s", 3, "with an empty data folder"),
        at_most("stellwerk serve, memory when idle", min(resident) / 1e6, "MB", 120, "VmRSS"),
        at_most("installed without extras", _installed("stellwerk") / 1e6, "MB", 150, "files of all packages it needs"),
    ]


async def _help_cpu() -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    process = await asyncio.create_subprocess_exec(executable("stellwerk"), "--help", stdout=asyncio.subprocess.DEVNULL)
    await process.wait()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


async def _start(data: Path) -> tuple[float, int]:
    """(seconds until it said that it is ready, bytes of memory a moment later)."""
    start = time.perf_counter()
    async with serving([executable("stellwerk"), "serve"], data) as server:
        ready = time.perf_counter() - start
        await asyncio.sleep(_SETTLED)
        return ready, server.resident()


def _installed(name: str) -> int:
    """Bytes on disk of a package and everything it requires."""
    sizes: dict[str, int] = {}
    waiting = [name]
    while waiting:
        current = canonicalize_name(waiting.pop())
        if current not in sizes:
            found = distribution(current)
            paths = (Path(str(file.locate())) for file in found.files or ())
            sizes[current] = sum(path.stat().st_size for path in paths if path.is_file())
            wanted = map(Requirement, found.requires or ())
            waiting += [each.name for each in wanted if each.marker is None or each.marker.evaluate({"extra": ""})]
    return sum(sizes.values())
