"""Durable appends: how many events a second reach the disk, from one session and from 200 at once."""

import asyncio
import time
from pathlib import Path

from benchmarks.figures import Figure, at_least, seen
from benchmarks.store import EVENT, Store, Writer, opened

SECONDS = 1.5
REPEATS = 3
BUDGET = 20_000
_CASES = ((1, 1), (1, 10), (200, 1), (200, 10))


async def measure(folder: Path) -> list[Figure]:
    figures = []
    async with opened(folder) as store:
        for sessions, batch in _CASES:
            best = max([await events_per_second(store, sessions, batch, SECONDS) for _ in range(REPEATS)])
            name = f"append, {sessions} session{'s'[: sessions - 1]}, batches of {batch}"
            figure = at_least(name, best, "events/s", BUDGET) if sessions > 1 else seen(name, best, "events/s")
            figures.append(figure)
    return figures


async def events_per_second(store: Store, sessions: int, batch: int, seconds: float) -> float:
    writers = [await store.begin() for _ in range(sessions)]
    start = time.perf_counter()
    written = await asyncio.gather(*(_write(writer, batch, start + seconds) for writer in writers))
    return sum(written) / (time.perf_counter() - start)


async def _write(writer: Writer, batch: int, until: float) -> int:
    entries = [EVENT] * batch
    written = 0
    while time.perf_counter() < until:
        await writer.append(entries)
        written += batch
    return written
