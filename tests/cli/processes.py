"""Commands as processes of their own: started, listened to, and ended."""

import asyncio
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.forked import completed

PATIENCE = 240
Process = asyncio.subprocess.Process


@asynccontextmanager
async def started(*arguments: str, **environment: str) -> AsyncIterator[Process]:
    process = await asyncio.create_subprocess_exec(
        *("env", *(f"{name}={value}" for name, value in environment.items())),
        *(sys.executable, "-m", "stellwerk", *arguments),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        # A shell lets what it starts in the background ignore Ctrl-C, and children inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def stellwerk(*arguments: str, stdin: bytes = b"", **environment: str) -> tuple[int, str, str]:
    done = await asyncio.to_thread(completed, *arguments, stdin=stdin, environment=environment)
    return done.returncode, done.stdout, done.stderr


async def until(process: Process, word: str) -> str:
    """All that it says, up to the line with the word."""
    assert process.stdout is not None
    said = ""
    async with asyncio.timeout(PATIENCE):
        while word not in (line := (await process.stdout.readline()).decode()):
            assert line, f"it ended before it said {word!r}: {await complaint(process)}"
            said += line
    return said + line


async def line_with(process: Process, word: str) -> str:
    return (await until(process, word)).splitlines()[-1]


async def complaint(process: Process) -> str:
    assert process.stderr is not None
    return (await process.stderr.read()).decode()
